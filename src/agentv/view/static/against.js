// @ts-check
// A run against its baseline, case by case. The interval and the tests of the whole comparison are on the compare page.

import { FAIL, PASS } from "./run_model.js";

/** @typedef {import("./run_model.js").RunModel} RunModel */
/** @typedef {import("./filter_fields.js").Against} Against */

/**
 * The case of the baseline for each case, and the difference of the scores; NaN unless both have one. As in `agentv
 * compare`: if each run has one target, or one suite, its name does not matter.
 * @param {RunModel} model
 * @param {RunModel} baseline
 * @returns {Against}
 */
export function against(model, baseline) {
  const { cases } = model;
  const isSoleTarget = model.targets.length === 1 && baseline.targets.length === 1;
  const isSoleSuite = model.suites.length === 1 && baseline.suites.length === 1;
  const suites = model.suites.map((name) => (isSoleSuite ? 0 : baseline.suites.indexOf(name)));
  const targets = model.targets.map((name) => (isSoleTarget ? 0 : baseline.targets.indexOf(name)));
  const match = new Int32Array(cases.count).fill(-1);
  const delta = new Float64Array(cases.count).fill(NaN);
  for (let c = 0; c < cases.count; c++) {
    const row = cases.first[c] ?? 0;
    const id = baseline.eval_id.find(model.eval_id.at(row));
    const found = baseline.cases.at(suites[model.suite[row]], id, targets[model.target[row]]);
    if (found < 0) continue;
    match[c] = found;
    if (isScored(cases.outcome[c]) && isScored(baseline.cases.outcome[found])) {
      // To 12 digits, so that equal scores have no difference.
      delta[c] = Number(((cases.score[c] ?? NaN) - (baseline.cases.score[found] ?? NaN)).toFixed(12));
    }
  }
  return { model: baseline, match, delta };
}

/** Whether a case has a verdict that counts. @param {number|undefined} outcome */
function isScored(outcome) {
  return outcome !== undefined && outcome <= FAIL;
}

/**
 * How many cases changed.
 * @param {RunModel} model
 * @param {Against} against
 */
export function changes(model, { model: baseline, match, delta }) {
  const counts = { both: 0, worse: 0, better: 0, newly_failed: 0, newly_passed: 0, only_here: 0 };
  for (let c = 0; c < match.length; c++) {
    const found = match[c] ?? -1;
    if (found < 0) counts.only_here++;
    const difference = delta[c] ?? NaN;
    if (Number.isNaN(difference)) continue;
    counts.both++;
    if (difference < 0) counts.worse++;
    if (difference > 0) counts.better++;
    const [then, now] = [baseline.cases.outcome[found] === PASS, model.cases.outcome[c] === PASS];
    if (then && !now) counts.newly_failed++;
    if (!then && now) counts.newly_passed++;
  }
  return counts;
}
