// @ts-check
// The columns of the run page's table. Their ids are names of filters, so that a column can be sorted and filtered by.

import { asText } from "./case_list.js";
import { el, set, showText } from "./dom.js";
import { fieldValue, worstRow } from "./filter_fields.js";
import { formatCost, formatCount, formatDelta, formatMs, formatScore } from "./format.js";
import { dots, scoreBar, verdictMark } from "./marks.js";
import { OUTCOMES } from "./run_model.js";

/** @typedef {import("./run_model.js").RunModel} RunModel */
/** @typedef {import("./filter_fields.js").Against} Against */
/** @typedef {import("./table.js").Column & {isDefault: boolean}} RunColumn */

const EVALUATORS = 3; // Shown unless the reader chooses columns.

/**
 * All columns of a run; `isDefault` are those that are shown first.
 * @param {RunModel} model
 * @param {Against|null} against
 * @param {(row: number) => string} href The address of a row.
 * @returns {RunColumn[]}
 */
export function runColumns(model, against, href) {
  const { cases, dictionaries } = model;
  /** @type {(id: string, title: string, width: number, isDefault: unknown, format: (value: number) => string, about?: string) => RunColumn} */
  const number = (id, title, width, isDefault, format, about) => {
    const get = fieldValue(id, model);
    return {
      id,
      title,
      about,
      width,
      number: true,
      isDefault: !!isDefault,
      cell: (c) => {
        const value = get(c);
        return value === value ? format(value) : "–";
      },
    };
  };
  /** @type {(id: string, title: string, width: number, grow: number, isDefault?: boolean) => RunColumn} */
  const text = (id, title, width, grow, isDefault = false) => {
    const get = fieldValue(id, model);
    return { id, title, width, grow, isDefault, cell: (c) => String(asText(get(c))) };
  };
  /** @type {(id: string, title: string, width: number, isDefault: boolean, cell: RunColumn["cell"], more?: Partial<RunColumn>) => RunColumn} */
  const column = (id, title, width, isDefault, cell, more) => ({ id, title, width, isDefault, cell, ...more });
  const prompts = new Set(model.variants.flatMap(([, prompt]) => prompt ?? []));
  const most = Math.max(...dictionaries.trials.map(({ count }) => count));
  return [
    column("verdict", "Verdict", cases.repeated ? 8 : 6.5, true, (c, old) => verdictMark(cases.outcome[c], cases.attempts[c] > 1 ? `${cases.passes[c]}/${cases.attempts[c]}` : "", old)),
    column("id", "Case", 9, true, (c, old) => link(href(worstRow(model, c)), model.eval_id.at(cases.first[c]), old), { grow: 1 }),
    column("target", "Target", 7, new Set(model.variants.map(([target]) => target)).size > 1, (c) => model.variants[model.target[cases.first[c]]][0], { grow: 0.5 }),
    ...(prompts.size > 0 ? [text("prompt", "Prompt", 7, 0.5, prompts.size > 1)] : []),
    text("suite", "Suite", 6, 0.5),
    column("score", "Score", 7, true, (c, old) => scoreBar(cases.score[c], cases.threshold[c], old ?? null)),
    column("attempts", "Attempts", Math.min(12, Math.max(4.5, 1.4 * most)), cases.repeated, (c) => {
      const rows = cases.rows(c);
      return rows.length > 1 ? dots(rows.map((row) => model.outcome[row]), rows.map(href), -1, rows.map((row) => model.attempt[row])) : "";
    }),
    ...(against ? [column("delta", "Change", 5.5, true, (c) => change(model, against, c), { number: true, about: "Score minus that of the baseline, and the verdict there if it was another" })] : []),
    text("question", "Question", 10, 1.5, model.question.some()),
    text("reason", "Reason", 14, 2.5, model.reason.some()),
    ...model.evaluators.map((name, i) => number(`evaluator.${name}`, name, 5, i < EVALUATORS, formatScore)),
    number("judge_calls", "Judge calls", 5.5, model.judge_calls.some(Boolean), formatCount),
    number("cost", "Cost", 4.5, model.cost_usd.some((cost) => !Number.isNaN(cost)), formatCost, "Of the target"),
    number("judge_cost", "Judge cost", 5, false, formatCost),
    number("duration", "Duration", 5, true, (seconds) => formatMs(seconds * 1000), "Of the target"),
    number("tokens", "Tokens", 4.5, false, formatCount, "Of the target"),
    number("tools", "Tool calls", 5, false, formatCount),
    number("answer_length", "Length", 4.5, false, (length) => formatCount(Math.round(length)), "Characters of the answer"),
    text("tag", "Tags", 7, 0.5),
    ...Object.keys(model.metadata).map((key) => text(`metadata.${key}`, key, 6, 0.5)),
  ];
}

/** @param {string} href @param {string} text @param {HTMLElement} [old] */
function link(href, text, old = el("a", { tabindex: "-1" })) {
  set(old, "href", href);
  return showText(old, text);
}

/** @param {RunModel} model @param {Against} against @param {number} c */
function change(model, { model: baseline, match, delta }, c) {
  const then = baseline.cases.outcome[match[c]];
  if (then === undefined) return "new";
  const was = `was ${OUTCOMES[then]}`;
  const mark = then !== model.cases.outcome[c] && el("span", { class: `verdict ${OUTCOMES[then]}`, title: was }, el("span", { class: "off-screen" }, was));
  if (Number.isNaN(delta[c])) return mark || "–";
  return [mark, " ", el("span", { class: delta[c] < 0 ? "delta worse" : delta[c] > 0 ? "delta better" : "muted" }, delta[c] ? formatDelta(delta[c]) : "0")];
}
