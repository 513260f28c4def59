// @ts-check
// The head of the run page: what happened, in words and a few numbers, all counted from the rows that are loaded.

import { commandsView } from "./case_share.js";
import { el } from "./dom.js";
import { facts } from "./facts.js";
import { formatCost, formatCount, formatDuration, formatPercent, formatReach, formatScore, formatTime, plural } from "./format.js";
import { fold } from "./letters.js";
import { address } from "./router.js";
import { FAIL } from "./run_model.js";
import { wilson } from "./statistics.js";
import { variantOf, variantParts } from "./variants.js";

/** @typedef {import("./run_model.js").RunModel} RunModel */
/** @typedef {import("./types.js").RunInfo} RunInfo */
/** @typedef {ReturnType<typeof totalsOf>} Totals */

/** @param {RunModel} model */
export function totalsOf(model) {
  const { cases } = model;
  const outcomes = [0, 0, 0, 0, 0];
  let [scores, scored, flaky] = [0, 0, 0];
  const { outcome: verdicts, score, count, repeated } = cases;
  for (let c = 0; c < count; c++) {
    const outcome = verdicts[c];
    outcomes[outcome]++;
    if (outcome <= FAIL) (scores += score[c]), scored++;
    if (repeated && cases.isFlaky(c)) flaky++;
  }
  let calls = 0;
  const { judge_calls: counts } = model;
  for (let row = 0; row < counts.length; row++) calls += counts[row];
  const judges = sumOf(model.judge_cost_usd, counts);
  return { outcomes, scored, mean: scored ? scores / scored : null, flaky, spend: sumOf(model.cost_usd), judges, calls };
}

/** The sum of costs, and how many are known. @param {ArrayLike<number>} costs @param {ArrayLike<number>} [calls] Rows without calls do not count. */
function sumOf(costs, calls) {
  let [usd, known, unknown] = [0, 0, 0];
  for (let row = 0; row < costs.length; row++) {
    if (calls && !calls[row]) continue;
    const cost = costs[row];
    if (cost === cost) (usd += cost), known++;
    else unknown++;
  }
  return { usd, known, unknown };
}

/**
 * `36 of 48 cases passed (75%, 95% interval 61% to 85%), 2 borderline, 10 failed.`
 * @param {RunModel} model
 * @param {Totals} totals
 */
export function sentence(model, { outcomes, scored }) {
  const { status, not_run: left } = model.info.head;
  if (!model.cases.count) return status === "running" ? "No case has finished yet." : "This run has no rows.";
  const [passed, borderline, failed, errors, incomplete] = outcomes;
  const rate = scored ? ` (${formatPercent(passed / scored)}, 95% interval ${wilson(passed, scored).map(formatPercent).join(" to ")})` : "";
  const others = Object.entries({ borderline, failed, errored: errors, incomplete, "not run": status === "running" ? 0 : left });
  return [`${formatCount(passed)} of ${plural(scored, `${errors + incomplete ? "scored " : ""}${model.targets.length > 1 ? "result" : "case"}`)} passed${rate}`, ...others.flatMap(([what, count]) => (count ? [`${formatCount(count)} ${what}`] : []))].join(", ") + ".";
}

/** `$0.0123`, and what is not known about it. @param {{usd: number, known: number, unknown: number}} spend */
function spent({ usd, known, unknown }) {
  if (!known) return unknown ? "unknown" : "none";
  return unknown ? `at least ${formatCost(usd)} (unknown for ${plural(unknown, "row")})` : formatCost(usd);
}

/** @param {RunModel} model @param {Totals} totals */
export function headFacts(model, { mean, flaky, spend, judges, calls }) {
  const { head, repeats } = model.info;
  const { git } = head;
  const attempts = (/** @type {Record<string, {value: number, interval: number[]}>} */ estimates, /** @type {string} */ name) =>
    Object.entries(estimates).slice(-1).map(([k, { value, interval }]) => `; ${name}${k} ${formatScore(value)} (${interval.map(formatScore).join(" to ")})`);
  return facts([
    ["Mean score", `${formatScore(mean)}${head.status === "running" ? "" : formatReach(mean, head.mean_interval)}`],
    ["Repeats", repeats && [`${plural(model.count, "attempt")}, pass if ${repeats.pass_if.join(" or ")}`, ...attempts(repeats.pass_at_k, "pass@"), ...attempts(repeats.pass_hat_k, "pass^")]],
    ["Flaky", flaky && plural(flaky, "case")],
    ["Cost of targets", spent(spend)],
    ["Cost of judges", calls ? `${spent(judges)}, ${plural(calls, "call")}` : "no calls"],
    ["Duration", head.duration_seconds && formatDuration(head.duration_seconds)],
    ["Started", formatTime(head.started_at)],
    ["Target", variantParts(model, 0).values.join(", ")],
    ["Prompt", promptLinks(model)],
    ["Suite", model.suites.join(", ")],
    ["Experiment", head.experiment],
    ["Commit", git?.commit && `${git.commit.slice(0, 10)}${git.branch ? ` (${git.branch})` : ""}${git.dirty ? ", with changes" : ""}`],
    ["Run", el("code", null, head.run_id)],
  ]);
}

/** The prompts, each with a link that compares it with the first one. @param {RunModel} model */
function promptLinks(model) {
  const [first, ...others] = variantParts(model, 1).values;
  const compare = (/** @type {string} */ prompt) => el("a", { href: address(["compare", variantOf(model.run, first), variantOf(model.run, prompt)]) }, `compare with ${first}`);
  return first !== undefined && [first, ...others.flatMap((prompt) => [`, ${prompt} (`, compare(prompt), ")"])];
}

/** Notes, problems and commands. @param {RunInfo} info */
export function remarks(info) {
  const { notes, problems, commands } = info;
  return [
    info.head.note && el("p", { class: "muted" }, info.head.note),
    notes.length > 0 && el("ul", { class: "note", "aria-label": "Notes" }, notes.map((note) => el("li", null, note))),
    problems.length > 0 &&
      el("div", { class: "note bad" }, fold(`${plural(problems.length, "problem")} in the record`, () => el("ul", null, problems.map((problem) => el("li", null, problem))), { open: problems.length < 4 })),
    commands.length > 0 && fold("Commands", () => commandsView({ commands }), { class: "no-print" }),
  ];
}
