// @ts-check
// Which rows are reviewed, and in which order.

import { ERROR } from "./run_model.js";

/**
 * The rows with an answer, in a random order that is the same for everybody. Of rows of the same case with the same
 * answer, only the first is there.
 * @param {import("./run_model.js").RunModel} model
 */
export function reviewRows(model) {
  const { cases } = model;
  /** @type {[number, number][]} */
  const ranked = [];
  for (let c = 0; c < cases.count; c++) {
    const seen = new Set();
    for (const row of cases.rows(c)) {
      const isEmpty = model.outcome[row] === ERROR && !model.answer_length[row];
      // Rows that are added do not move the others.
      if (!isEmpty && !seen.has(model.answer[row])) ranked.push([scattered(model.run + model.key(row)), row]);
      seen.add(model.answer[row]);
    }
  }
  return ranked.sort((a, b) => a[0] - b[0] || a[1] - b[1]).map(([, row]) => row);
}

/** A number that looks random but depends only on the text (FNV-1a, then mixed). @param {string} text */
function scattered(text) {
  let hash = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193);
  hash = Math.imul(hash ^ (hash >>> 16), 0x45d9f3b);
  return (hash ^ (hash >>> 16)) >>> 0;
}
