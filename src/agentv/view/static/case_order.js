// @ts-check
// The cases before and after a case, in the order and with the filter of the run page.

import { against } from "./against.js";
import { listedCases } from "./case_list.js";
import { worstRow } from "./filter_fields.js";
import { PASS } from "./run_model.js";

/** @typedef {Awaited<ReturnType<typeof neighbours>>} Neighbours */

/**
 * The rows before and after, undefined at the ends; the place of the case is -1 if the filter leaves it out.
 * @param {import("./run_model.js").Runs} runs
 * @param {import("./run_model.js").RunModel} model
 * @param {number} row
 * @param {Record<string, string>} query Of the run page.
 */
export async function neighbours(runs, model, row, query) {
  const { cases } = model;
  // The page is shown first.
  await new Promise((done) => setTimeout(done));
  await runs.complete(model).catch(() => {}); // A filter may ask for questions and reasons. Without them, it finds no case.
  const baseline = query.vs === "none" ? null : (query.vs ?? model.info.baseline);
  const isCompared = baseline && /delta|newly_/.test(`${query.f} ${query.s}`);
  const listed = listedCases(model, query, isCompared ? against(model, await runs.get(baseline)) : null);
  const place = listed.indexOf(cases.of[row]);
  const at = (/** @type {number|undefined} */ c) => (c === undefined ? undefined : worstRow(model, c));
  return { before: at(listed[place - 1]), after: at(listed[place + 1]), failing: at(listed.find((c, i) => i > place && cases.outcome[c] !== PASS)), place, count: listed.length };
}
