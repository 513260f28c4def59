// @ts-check
// How the score of a case was made: the points of each evaluator, and what is needed to pass.

import { el, vary } from "./dom.js";
import { formatScore } from "./format.js";

/** @typedef {import("./types.js").EvaluatorResult} EvaluatorResult */
/** @typedef {import("./types.js").Row} Row */

/**
 * What each evaluator adds to the score, and what it could have added.
 * @param {EvaluatorResult[]} [results]
 */
function pointsOf(results = []) {
  const heaviest = Math.max(...results.map((result) => result.weight));
  const total = results.reduce((sum, { weight }) => sum + weight / heaviest, 0);
  return results.map((result) => {
    const share = result.weight / heaviest / total || 0;
    return { result, share, gained: share * result.score, lost: share * (1 - result.score) };
  });
}

/** Errors first, then required evaluators that did not pass, then the most points lost. @param {EvaluatorResult[]} [results] */
export function byLoss(results) {
  const rank = (/** @type {EvaluatorResult} */ result) => (result.error ? 2 : Number(isRequiredFailure(result)));
  return pointsOf(results).sort((a, b) => rank(b.result) - rank(a.result) || b.lost - a.lost);
}

/** @param {EvaluatorResult} result */
export function isRequiredFailure(result) {
  return Boolean(result.required) && result.verdict !== "pass";
}

/** Points are rounded, as weights are: 2/3 is 0.67 of 0.67. @param {number} points */
export const formatPoints = (points) => points.toFixed(2);

/** Whether as many points were lost as can be seen. @param {number} lost */
export const isLoss = (lost) => lost >= 0.005;

/** Why a row has its verdict, in one or two sentences. @param {Row} row @param {number|null} threshold */
export function verdictSentence(row, threshold) {
  const results = byLoss(row.evaluator_results);
  const names = (/** @type {(result: EvaluatorResult) => unknown} */ test) => results.flatMap(({ result }) => (test(result) ? [result.name] : [])).join(", ");
  if (row.error) {
    const broken = names((result) => result.error);
    return `Error, not a failure: ${broken ? `${broken} could not judge the answer.` : row.error.stage === "target" ? "the target gave no answer that could be judged." : "the case could not be judged."}`;
  }
  const word = { pass: "Passed", borderline: "Borderline", fail: "Failed" }[row.verdict] ?? row.verdict;
  const required = names(isRequiredFailure);
  if (required) return `${word}: the score is 0 because a required evaluator did not pass: ${required}.`;
  const losses = results.filter(({ lost }) => results.length > 1 && isLoss(lost)).slice(0, 3);
  const lost = losses.map(({ result, lost: points }) => `${result.name} ${formatPoints(points)}`).join(", ");
  return `${word} with ${formatScore(row.score)}${threshold === null ? "" : `, needs ${formatNeeds(threshold)}`}.${lost && ` Points lost: ${lost}.`}`;
}

/** A threshold is not truncated: 0.855 is not 0.85. @param {number} threshold */
export function formatNeeds(threshold) {
  return Number(threshold.toFixed(2)) === threshold ? threshold.toFixed(2) : formatWeight(threshold);
}

/** @param {number} weight */
export const formatWeight = (weight) => String(Number(weight.toPrecision(6)));

/**
 * The points as a table: each bar begins where the one above ends, and the last one is the score.
 * @param {Row} row
 * @param {number|null} threshold
 */
export function pointsTable(row, threshold) {
  let start = 0;
  const line = (/** @type {import("./dom.js").Child} */ name, /** @type {import("./dom.js").Child[]} */ cells, /** @type {number} */ share, /** @type {number} */ gained, kind = "") => {
    const bar = vary(vary(vary(el("span", { class: `points ${kind}` }), "--start", start), "--share", share), "--gained", gained);
    return el("tr", null, el("th", { scope: "row" }, name), cells.map((cell) => el("td", { class: "number" }, cell)), el("td", { class: "points-cell", "aria-hidden": "true" }, bar));
  };
  const lines = pointsOf(row.evaluator_results).map(({ result, share, gained }) => {
    const made = line(result.name, [formatWeight(result.weight), result.error ? "error" : formatScore(result.score), share > 0 ? `${formatPoints(gained)} of ${formatPoints(share)}` : "–"], share, gained);
    start += gained;
    return made;
  });
  start = 0;
  const isBelow = threshold !== null && row.score < threshold;
  const total = line("Score", ["", el("strong", null, formatScore(row.score)), row.error ? "not counted" : threshold !== null && `needs ${formatNeeds(threshold)}`], 1, row.score, `is-total ${row.error ? "uncounted" : isBelow ? "below" : ""}`);
  const table = el(
    "table",
    { class: threshold === null ? "points-table" : "points-table with-line" },
    el("thead", null, el("tr", null, ["Evaluator", "Weight", "Score", "Points"].map((name, i) => el("th", { scope: "col", class: i > 0 && "number" }, name)), el("td", { "aria-hidden": "true" }, threshold !== null && el("span", { class: "pass-label small" }, "pass line")))),
    el("tbody", null, lines),
    el("tfoot", null, total),
  );
  return vary(table, "--needs", threshold ?? 0);
}
