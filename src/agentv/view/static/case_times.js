// @ts-check
// When what happened: the target, its tool calls, the evaluators and their judge calls on one time axis.

import { waterfall } from "./charts.js";
import { remarks } from "./judge_call.js";
import { stepsOf } from "./steps.js";

/** @typedef {import("./types.js").EvaluatorResult} EvaluatorResult */
/** @typedef {import("./charts.js").Span} Span */

const MOST_TOOLS = 20;
const MOST_CALLS = 60;

/**
 * The time axis; null if no time is known.
 * @param {import("./types.js").Row} row
 * @param {import("./types.js").JudgeCall[]} calls
 * @param {(evaluator: string, call?: number) => string} href
 */
export function timesView(row, calls, href) {
  /** @type {Span[]} */
  const spans = [];
  const at = (/** @type {string|undefined} */ time) => Date.parse(time ?? "");
  const add = (/** @type {string} */ label, /** @type {number} */ start, /** @type {number|null|undefined} */ duration, /** @type {Partial<Span>} */ more) => spans.push({ label, start: Number.isFinite(start) ? start : null, duration: duration ?? null, ...more });
  if (typeof row.duration_ms === "number") {
    add(`target ${row.target}`, at(row.started_at), row.duration_ms, { kind: row.error?.stage === "target" ? "failed" : "target" });
    row.turns?.forEach((turn, i) => add(`turn ${i + 1}`, NaN, turn.duration_ms, { depth: 1, kind: "target" }));
    const timed = stepsOf(row.output_messages).filter((step) => step.call && !Number.isNaN(step.at));
    for (const step of timed.slice(0, MOST_TOOLS)) add(step.name, step.at, null, { depth: 1, kind: "target", text: `step ${step.number}, duration unknown` });
  }
  const judged = (/** @type {EvaluatorResult} */ result, /** @type {number} */ depth) => {
    const { name } = result;
    const own = calls.filter((call) => call.evaluator === name);
    const start = Math.min(...own.map((call) => at(call.started_at) - (call.waited_ms ?? 0)));
    // The evaluators of a turn have times, but not the turn itself.
    if (result.type !== "turn") add(name, start, result.duration_ms, { depth, kind: result.error ? "failed" : "evaluator", href: href(name) });
    for (const call of own.slice(0, MOST_CALLS)) {
      const isOk = call.status === "ok";
      add(`judge call ${call.index}`, at(call.started_at), call.duration_ms, { depth: depth + 1, kind: isOk ? "judge" : "failed", text: [!isOk && call.status, ...remarks(call)].filter(Boolean).join(", "), href: href(name, call.index) });
    }
    for (const member of result.evaluator_results ?? []) judged(member, depth + 1);
  };
  for (const result of row.evaluator_results ?? []) judged(result, 0);
  return spans.length > 0 ? waterfall(spans, { title: "Time", quiet: true }) : null;
}
