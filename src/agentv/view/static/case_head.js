// @ts-check
// The head of a case: verdict, score, where it comes from, what it cost, and what went wrong.

import { shortMetadata } from "./case_texts.js";
import { el } from "./dom.js";
import { allResults, outcomeOf } from "./evaluator_view.js";
import { facts } from "./facts.js";
import { formatCost, formatMs, formatScore, formatTime, formatTokens, plural } from "./format.js";
import { isUsualEnd } from "./judge_call.js";
import { dots, scoreBar, verdictMark } from "./marks.js";
import { ERROR, OUTCOMES } from "./run_model.js";
import { verdictSentence } from "./score_view.js";
import { textBlock } from "./text_view.js";

/** @typedef {import("./types.js").Detail} Detail */
/** @typedef {import("./types.js").Row} Row */
/** @typedef {import("./run_model.js").RunModel} RunModel */
/** @typedef {import("./dom.js").Child} Child */

/** The score from which a case passes; null if unknown. @param {Detail} detail */
export function thresholdOf({ row, case: record }) {
  return row.threshold ?? record?.threshold ?? null;
}

/**
 * Verdict and score in a line.
 * @param {number} outcome
 * @param {number} score
 * @param {number|null} threshold
 */
export function verdictLine(outcome, score, threshold) {
  return el("p", { class: "verdict-line" }, verdictMark(outcome), outcome !== ERROR && [el("span", { class: "figure" }, formatScore(score)), scoreBar(score, threshold)]);
}

/** What the judges of a row cost, in words; '' if none was called. @param {Row} row */
function judgeCost(row) {
  const ledgers = allResults(row.evaluator_results).flatMap((result) => [result.judge, result.judge_proxy]).filter((ledger) => ledger?.call_count > 0);
  // The sum with an unknown cost is NaN.
  const sum = ledgers.reduce((cost, ledger) => cost + (ledger.cost_usd ?? NaN), 0);
  const calls = ledgers.reduce((count, ledger) => count + ledger.call_count, 0);
  return calls && `${Number.isNaN(sum) ? "unknown" : formatCost(sum)} (${plural(calls, "call")})`;
}

/**
 * The attempts of the case with this target and prompt, and the same case with its other prompts and targets, as links.
 * @param {RunModel} model
 * @param {number} index
 * @param {Record<string, string>} query
 * @returns {[string, Child][]}
 */
function siblings(model, index, query) {
  const { cases } = model;
  const rows = cases.rows(cases.of[index]);
  const links = dots(rows.map((row) => model.outcome[row]), rows.map((row) => model.caseAddress(row, query)), rows.indexOf(index), rows.map((row) => model.attempt[row]));
  // In a table, arrow keys move between them; here they are links as others.
  for (const link of links.querySelectorAll("a")) link.removeAttribute("tabindex");
  const [own, prompt] = model.variants[model.target[index]];
  const others = (/** @type {(target: string, prompt: string|null) => string|null} */ nameOf) => {
    const found = model.targets.flatMap((variant, i) => {
      const other = cases.find(model.suiteOf(index), model.eval_id.at(index), variant);
      const name = nameOf(...model.variants[i]);
      if (other < 0 || name === null) return [];
      return [el("a", { href: model.caseAddress(cases.first[other], query) }, `${name} ${OUTCOMES[cases.outcome[other]]} ${formatScore(cases.score[other])}`)];
    });
    return found.length > 0 && el("span", { class: "links" }, found);
  };
  return [
    ["Attempt", rows.length > 1 && el("span", null, `${model.attempt[index]} of ${Math.max(rows.length, model.dictionaries.trials[model.trial[index]]?.count ?? 0)} `, links)],
    ["Other prompts", others((target, other) => (target === own && other !== prompt ? other : null))],
    ["Other targets", others((target, other) => (target !== own && other === prompt ? target : null))],
  ];
}

/**
 * @param {RunModel} model
 * @param {number} index The row.
 * @param {Detail} detail
 * @param {Record<string, string>} query Of links to other rows.
 */
export function caseHead(model, index, detail, query) {
  const { row, case: record } = detail;
  const threshold = thresholdOf(detail);
  return [
    verdictLine(outcomeOf(row), row.score, threshold),
    el("p", { class: "lead" }, verdictSentence(row, threshold)),
    row.error && el("div", { class: "note is-error", role: "group", "aria-label": "Error" }, textBlock(row.error.message, { title: `Error of the ${row.error.stage}` }), row.error.not_called && el("p", null, "The target was not called: it had failed too often before.")),
    facts([
      ["Suite", row.suite],
      ["Target", row.target],
      ["Prompt", row.prompt],
      ["Model", row.model],
      ...siblings(model, index, query),
      ["Time", formatMs(row.duration_ms)],
      ["Tokens", formatTokens(row.token_usage)],
      ["Cost of the target", formatCost(row.cost_usd)],
      ["Cost of the judges", judgeCost(row)],
      ["Finish reason", row.finish_reason && el("span", { class: !isUsualEnd(row.finish_reason) && "badge warn" }, row.finish_reason)],
      ["Started", row.started_at && formatTime(row.started_at)],
      ["Replayed from", row.replayed],
      ["Conversation", row.conversation_id],
      ["Defined in", record?.file && el("code", null, `${record.file}:${record.line ?? 1}`)],
      ["Tags", record?.tags?.length && el("span", { class: "links" }, record.tags.map((tag) => el("span", { class: "badge" }, tag)))],
      ...shortMetadata(record?.metadata ?? row.metadata ?? {}),
    ]),
    ...(row.warnings ?? []).map((text) => el("p", { class: "note" }, "Warning: ", text)),
  ];
}
