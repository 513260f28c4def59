// @ts-check
// The histogram of the run page: it shows the scores of the chosen cases, and a click chooses cases by their score.

import { histogram } from "./charts.js";
import { el, showAgain } from "./dom.js";

/** @typedef {import("./case_list.js").CaseList} CaseList */
/** @typedef {import("./filter.js").Node} Node */

const BINS = 20;

export class ScoreCard {
  /** @param {(text: string) => void} filter Called with the new filter. */
  constructor(filter) {
    this.filter = filter;
    this.element = el("section", { class: "card scores", "aria-label": "Scores" });
  }

  /** @param {CaseList} list */
  update({ failing, filter, model }) {
    const { score, threshold } = model.cases;
    const place = filter.terms.findIndex(rangeOf);
    const term = filter.terms[place];
    const all = new Array(BINS).fill(0);
    const counts = new Array(BINS).fill(0);
    /** @type {number|null} */
    let line = threshold[0] ?? null;
    for (let c = 0; c < failing.length; c++) {
      if (threshold[c] !== line) line = null;
      const one = score[c];
      if (one !== one) continue; // NaN
      const bin = one < 1 ? (one * BINS + 1e-9) | 0 : BINS - 1;
      all[bin]++;
      if (!failing[c] || failing[c] === place + 1) counts[bin]++;
    }
    const options = {
      title: "Scores",
      open: this.element.querySelector("details")?.open,
      passLine: line,
      selected: term ? rangeOf(term) : null,
      onSelect: (/** @type {[number, number]|null} */ range) => this.filter(filter.replaced(term, range ? `(score>=${range[0]} and score${range[1] < 1 ? "<" : "<="}${range[1]})` : "")),
    };
    showAgain(this.element, histogram(counts.some((count, i) => count !== all[i]) ? { counts, all } : { counts }, options));
  }
}

/** The scores that a term chooses, if it is one that this chart writes. @param {Node} term @returns {[number, number]|null} */
function rangeOf({ kind, parts }) {
  const [low, high] = parts;
  const isRange = kind === "and" && parts.length === 2 && parts.every(({ name }) => name === "score") && low.operator === ">=" && high.operator.startsWith("<");
  return isRange ? [Number(low.value), Number(high.value)] : null;
}
