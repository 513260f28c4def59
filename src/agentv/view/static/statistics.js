// @ts-check
// Intervals as in src/agentv/report/statistics.py, held together by conformance/statistics.json. Tests and the
// bootstrap are only in Python.

const Z = 1.959963984540054;

/**
 * The Wilson interval of a rate, 95%; 0 to 1 if there are no trials.
 * @param {number} successes
 * @param {number} total
 * @returns {[number, number]}
 */
export function wilson(successes, total) {
  if (!total) return [0, 1];
  const rate = successes / total;
  const shrink = 1 + (Z * Z) / total;
  const centre = (rate + (Z * Z) / (2 * total)) / shrink;
  const reach = (Z * Math.sqrt((rate * (1 - rate)) / total + (Z * Z) / (4 * total * total))) / shrink;
  return [successes ? Math.max(0, centre - reach) : 0, successes === total ? 1 : Math.min(1, centre + reach)];
}
