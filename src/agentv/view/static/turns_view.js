// @ts-check
// A conversation: what the user wrote and the target answered in each turn, and how each answer was judged.

import { el } from "./dom.js";
import { allRecords, evaluatorView, outcomeOf } from "./evaluator_view.js";
import { formatCost, formatMs, formatTokens, plural } from "./format.js";
import { fold } from "./letters.js";
import { scoreBar, verdictMark } from "./marks.js";
import { contentBlocks, roleOf } from "./message_view.js";
import { PASS } from "./run_model.js";
import { stepItem, stepsOf, toolsOf } from "./steps.js";
import { textBlock } from "./text_view.js";

/** @typedef {import("./types.js").Detail} Detail */
/** @typedef {import("./types.js").Turn} Turn */
/** @typedef {import("./types.js").EvaluatorResult} EvaluatorResult */
/** @typedef {import("./steps.js").Step} Step */

/**
 * @typedef {Object} TurnOptions
 * @property {import("./types.js").JudgeCall[]} [calls] If given, the evaluators of each turn are shown.
 * @property {(evaluator: string, call?: number) => string} [href] The address of an evaluator, or of one of its calls.
 * @property {string} [note] Follows the title.
 * @property {(state: {turn?: number, step?: number}) => string} [to] The address of a turn or a step.
 */

/** The turns of a row; as they were asked if it has none because it errored. @param {Detail} detail @returns {Turn[]} */
function turnsOf({ row, case: record }) {
  return row.turns?.length ? row.turns : (record?.turns ?? []).map(({ messages }) => ({ input_messages: messages }));
}

/**
 * The conversation of a row; null if it is not one. `built` is the element of a step, `turn` that of a turn.
 * @param {Detail} detail
 * @param {TurnOptions} [options]
 */
export function conversationView(detail, options = {}) {
  const { row, case: record } = detail;
  const { note = record?.prompt && `prompt ${record.prompt}` } = options;
  const turns = turnsOf(detail);
  if (turns.length === 0 && !record?.user) return null;
  const system = (record?.input_messages ?? []).filter(({ role }) => role === "system");
  const steps = stepsOf(turns.flatMap((turn) => turn.output_messages ?? []));
  /** @type {HTMLElement[]} */
  const built = [];
  const judged = row.evaluator_results?.find(({ type }) => type === "turns");
  const items = turns.map((turn, at) => turnItem(turn, at + 1, { detail, result: judged?.evaluator_results?.find(({ name }) => name === `turn ${at + 1}`), steps, built, options }));
  const tools = toolsOf(steps);
  const card = el(
    "section",
    { class: "card conversation" },
    el("h2", null, "Conversation", note && el("span", { class: "muted" }, ` ${note}`)),
    el("p", { class: "muted" }, [plural(turns.length, "turn"), tools].filter(Boolean).join(" · ")),
    record?.user && playedBy(record.user, turns.length, row.error != null),
    system.flatMap((message) => contentBlocks(message.content, roleOf(message))),
    el("ol", { class: "turns" }, items),
  );
  return Object.assign(card, { built: (/** @type {number} */ number) => built[number - 1], turn: (/** @type {number} */ number) => items[number - 1] });
}

/** The model that played the user. @param {NonNullable<import("./types.js").CaseRecord["user"]>} user @param {number} count @param {boolean} isBroken */
function playedBy({ target, persona, stop_when: stop, max_turns: most }, count, isBroken) {
  const end = isBroken ? "An error ended the conversation." : count < most ? `It ended the conversation before the limit of ${plural(most, "turn")}.` : `The conversation ended at the limit of ${plural(most, "turn")}.`;
  return fold(["The user is played by ", el("strong", { class: "mono" }, target)], () => [textBlock(persona, { title: "Persona" }), stop && textBlock(stop, { title: "Stops when" }), count > 0 && el("p", { class: "muted" }, end)]);
}

/**
 * @param {Turn} turn
 * @param {number} number
 * @param {{detail: Detail, result: EvaluatorResult|undefined, steps: Step[], built: HTMLElement[], options: TurnOptions}} context
 */
function turnItem(turn, number, { detail, result, steps, built, options }) {
  const { case: record } = detail;
  const { calls, to } = options;
  const asked = record?.evaluators?.find(({ type }) => type === "turns");
  const { reference_answer: reference, expected_outcome: outcome } = record?.turns?.[number - 1] ?? {};
  const isPlayed = record?.user && (number > 1 || !record.input_messages.some(({ role }) => role === "user"));
  const said = (turn.input_messages ?? []).filter(({ role }) => role !== "system");
  const spent = [formatMs(turn.duration_ms), turn.token_usage && formatTokens(turn.token_usage), turn.cost_usd != null && formatCost(turn.cost_usd), turn.user_cost_usd != null && `user ${formatCost(turn.user_cost_usd)}`];
  return el(
    "li",
    { class: "turn", tabindex: "-1", "aria-label": `Turn ${number}` },
    el(
      "div",
      { class: "step-head" },
      el("h3", null, to ? el("a", { href: to({ turn: number }) }, `Turn ${number}`) : `Turn ${number}`),
      calls && (result ? [verdictMark(outcomeOf(result)), !result.error && scoreBar(result.score, asked?.threshold)] : el("span", { class: "muted small" }, "not scored")),
      turn.answer !== undefined && el("span", { class: "muted small" }, spent.filter((one) => one && one !== "–").join(" · ")),
    ),
    said.map((message) => el("div", { class: "said" }, contentBlocks(message.content, `${roleOf(message)}${isPlayed ? `, played by ${record.user?.target}` : ""}`, `what the user wrote in turn ${number}`))),
    answerOf(turn, number, steps, built, to),
    (outcome || reference) && fold("Expected", () => [outcome && textBlock(outcome, { title: "Outcome" }), reference && textBlock(reference, { title: "Reference answer" })]),
    calls && result && evaluatorsOf(result, number, asked?.members?.[number - 1]?.members ?? [], options),
  );
}

/** The answer, or all messages and tool calls of the turn if there are more. @param {Turn} turn @param {number} number @param {Step[]} steps @param {HTMLElement[]} built @param {TurnOptions["to"]} to */
function answerOf({ answer, output_messages: messages, unanswered }, number, steps, built, to) {
  if (answer === undefined || unanswered) return el("p", { class: "muted" }, "No answer was recorded.");
  const count = stepsOf(messages).length;
  const own = steps.slice(built.length, built.length + count);
  const isPlain = count < 2 && !own[0]?.call;
  const parts = isPlain ? [el("div", { class: "replied", tabindex: "-1" }, textBlock(answer, { title: "assistant", name: `answer of turn ${number}` }))] : own.map((step) => stepItem(step, to && ((at) => to({ step: at }))));
  built.push(...parts.slice(0, count));
  return isPlain ? parts : el("ol", { class: "steps replied" }, parts);
}

/** @param {EvaluatorResult} result Of the turn. @param {number} number @param {import("./types.js").EvaluatorRecord[]} asked @param {TurnOptions} options */
function evaluatorsOf({ evaluator_results: results = [] }, number, asked, { calls, href }) {
  const within = `turn ${number}/`;
  const records = allRecords(asked.map((one) => ({ ...one, name: within + one.name })));
  return el("div", { class: "evaluators" }, results.map((one) => evaluatorView(one, { records, calls, href, within, open: outcomeOf(one) !== PASS })));
}
