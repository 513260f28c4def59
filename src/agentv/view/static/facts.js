// @ts-check
// Names with their values, in a line or a column.

import { el } from "./dom.js";

/** @typedef {import("./dom.js").Child} Child */

/**
 * Values that are empty, 0 or unknown are left out; null if all are.
 * @param {[string, Child|Child[]][]} pairs
 * @param {string} [kind] A class.
 */
export function facts(pairs, kind = "") {
  const known = pairs.filter(([, value]) => value);
  return known.length > 0 ? el("dl", { class: `facts ${kind}` }, known.map(([name, value]) => el("div", null, el("dt", null, name), el("dd", null, value)))) : null;
}
