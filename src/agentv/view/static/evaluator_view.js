// @ts-check
// The result of one evaluator: score, findings, rubric checks, judge calls, members, and how it was set up.

import { el } from "./dom.js";
import { formatMs, formatTokens, plural } from "./format.js";
import { costOf, judgeCall } from "./judge_call.js";
import { fold, letters } from "./letters.js";
import { scoreBar, verdictMark } from "./marks.js";
import { BORDERLINE, ERROR, FAIL, PASS } from "./run_model.js";
import { formatNeeds, formatPoints, formatWeight, isLoss, isRequiredFailure } from "./score_view.js";
import { textBlock } from "./text_view.js";

/** @typedef {import("./types.js").EvaluatorResult} EvaluatorResult */
/** @typedef {import("./types.js").EvaluatorRecord} EvaluatorRecord */
/** @typedef {import("./types.js").JudgeCall} JudgeCall */

/**
 * @typedef {Object} EvaluatorOptions
 * @property {EvaluatorRecord[]} [records] The evaluators as they were set up, including members of composites.
 * @property {JudgeCall[]} [calls] The judge calls of the row.
 * @property {number} [lost] Points that it took from the score of the case.
 * @property {boolean} [open]
 * @property {(evaluator: string, call?: number) => string} [href] The address of an evaluator, or of one of its calls.
 * @property {string} [within] What the names begin with and need not be shown, such as `turn 1/`.
 * @property {(turn: number) => string} [turn] The address of a turn. Its evaluators are there, and not shown again.
 */

/** @param {{verdict: string, error?: any}} result */
export function outcomeOf({ verdict, error }) {
  return error ? ERROR : verdict === "pass" ? PASS : verdict === "borderline" ? BORDERLINE : FAIL;
}

/** All evaluators of a case, members included. @param {EvaluatorRecord[]} [records] @returns {EvaluatorRecord[]} */
export function allRecords(records = []) {
  return records.flatMap((record) => [record, ...allRecords(record.members)]);
}

/** All results of a row, members included. @param {EvaluatorResult[]} [results] @returns {EvaluatorResult[]} */
export function allResults(results = []) {
  return results.flatMap((result) => [result, ...allResults(result.evaluator_results)]);
}

/**
 * @param {EvaluatorResult} result
 * @param {EvaluatorOptions} [options]
 */
export function evaluatorView(result, options = {}) {
  const { name, type, error, required } = result;
  const { records = [], calls = [], lost = 0, open, within = "" } = options;
  const title = name.startsWith(within) ? name.slice(within.length) : name;
  const record = records.find((one) => one.name === name);
  const names = allResults([result]).map((one) => one.name);
  const count = calls.filter((call) => names.includes(call.evaluator)).length;
  const made = fold(
    [
      el(within ? "h4" : "h3", null, title, type !== title && el("span", { class: "muted" }, ` ${type}`)),
      verdictMark(outcomeOf(result)),
      !error && scoreBar(result.score, record?.threshold),
      !error && record?.threshold && el("span", { class: "muted small" }, `needs ${formatNeeds(record.threshold)}`),
      required && el("span", { class: isRequiredFailure(result) ? "badge bad" : "badge" }, "required"),
      el("span", { class: "muted small" }, [`weight ${formatWeight(result.weight)}`, !error && isLoss(lost) && `lost ${formatPoints(lost)}`, result.duration_ms && formatMs(result.duration_ms), result.execution?.node && `on ${result.execution.node}`, count && plural(count, "judge call")].filter(Boolean).join(" · ")),
    ],
    () => el("div", { class: "fold-body" }, bodyOf(result, record, options)),
    { open, class: "evaluator" },
  );
  made.dataset.evaluator = name;
  return made;
}

/**
 * @param {EvaluatorResult} result
 * @param {EvaluatorRecord|undefined} record
 * @param {EvaluatorOptions} options
 */
function bodyOf(result, record, options) {
  const { name, error, reasoning, evaluator_results: members = [] } = result;
  const calls = (options.calls ?? []).filter((call) => call.evaluator === name);
  const { checks, ...details } = result.details ?? {};
  const isRubric = Array.isArray(checks) && checks.every((check) => check && "satisfied" in check);
  // Findings of members begin with the name of the member, and are shown there; those of a rubric repeat its checks.
  const own = (/** @type {string[]} */ texts = []) => texts.filter((text) => !isRubric && !(members.length > 0 && text.startsWith("[")));
  const rest = isRubric ? details : (result.details ?? {});
  if (result.type === "turns" && options.turn && !error) return [turnList(members, options.turn, record?.threshold), record && setup(record, options.href?.(name))];
  return [
    error && el("div", { class: "note is-error" }, textBlock(error, { title: "Error: this evaluator could not judge" })),
    (result.warnings ?? []).map((text) => el("p", { class: "note" }, "Warning: ", text)),
    reasoning && letters(reasoning),
    isRubric && findings(`Checks: ${checks.filter((check) => check.satisfied === true).length} of ${checks.length} met`, checks.map((check) => checkItem(check, record))),
    findings("Misses", own(result.misses).map((text) => finding(false, text))),
    findings("Hits", own(result.hits).map((text) => finding(true, text))),
    members.map((member) => evaluatorView(member, { ...options, lost: 0, open: outcomeOf(member) !== PASS })),
    spend(result.judge ?? result.judge_proxy, calls),
    calls.map((call) => judgeCall(call, { href: options.href?.(name, call.index) })),
    Object.keys(rest).length > 0 && textBlock(rest, { title: "Details", name: `details of ${name}` }),
    record && setup(record, options.href?.(name)),
  ].flat();
}

/** The scores of turns, with links to them. @param {EvaluatorResult[]} results @param {(turn: number) => string} href @param {number|null} [threshold] */
function turnList(results, href, threshold) {
  return el("ul", { class: "turn-list" }, results.map((result) => el("li", null, el("a", { href: href(Number(result.name.slice(5))) }, result.name), " ", verdictMark(outcomeOf(result)), scoreBar(result.score, threshold))));
}

/** @param {string} title @param {HTMLElement[]} items */
function findings(title, items) {
  return items.length > 0 && el("div", null, el("h4", null, title), el("ul", { class: "findings" }, items));
}

/** A criterion of a rubric with the judgment on it. @param {any} check @param {EvaluatorRecord} [record] */
function checkItem({ id, satisfied, weight = 1, required, reasoning }, record) {
  const { description = id } = [record?.options?.rubrics ?? []].flat().find((rubric) => rubric?.id === id) ?? {};
  const remarks = [description !== id && id, weight !== 1 && `weight ${weight}`, required && "required"].filter(Boolean).join(", ");
  return finding(satisfied === true, reasoning ?? "", el("div", null, el("strong", null, description), remarks && el("span", { class: "muted" }, ` ${remarks}`)));
}

/**
 * @param {boolean} isGood
 * @param {string} text
 * @param {HTMLElement} [title]
 */
function finding(isGood, text, title) {
  return el("li", { class: isGood ? "finding good" : "finding bad" }, el("span", { class: "off-screen" }, isGood ? "met: " : "not met: "), title, letters(text, { lines: 6, limit: 1000 }));
}

/**
 * What the judge calls of an evaluator cost, and which were refused.
 * @param {any} ledger `judge` or `judge_proxy` of a result.
 * @param {JudgeCall[]} calls
 */
function spend(ledger, calls) {
  if (!ledger) return null;
  const { call_count: count = 0, from_record: recorded = 0, refused_calls: refused = 0, max_calls: most } = ledger;
  const missing = count - recorded - calls.length;
  const words = [
    ledger.target,
    plural(count, "call") + (most ? ` of at most ${most}` : ""),
    ledger.token_usage && formatTokens(ledger.token_usage),
    count > 0 && costOf(ledger),
    ledger.failed_calls > 0 && `${ledger.failed_calls} failed`,
    recorded > 0 && `${recorded} from the record when the run was resumed`,
    ledger.repaired && "the reply was not valid JSON and was repaired",
    missing > 0 && `${missing} not in the record of judge calls`,
  ];
  return el("div", null, el("h4", null, "Judge calls"), el("p", { class: "muted" }, words.filter(Boolean).join(" · ")), refused > 0 && el("p", { class: "note bad" }, `${plural(refused, "call")} refused: the limit of this evaluator is ${most}.`));
}

/**
 * How an evaluator was set up.
 * @param {EvaluatorRecord} record
 * @param {string} [href]
 */
function setup({ name, options = {}, members, ...rest }, href) {
  return fold("Setup", () => [href && el("p", null, el("a", { href }, "Link to this evaluator")), textBlock({ ...rest, ...options }, { name: `setup of ${name}` })]);
}
