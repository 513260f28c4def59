// @ts-check
// Facets: the values of a field with the number of cases that have them. A click adds a value to the filter.

import { button, el, showAgain } from "./dom.js";
import { alternatives, condition } from "./filter.js";
import { fieldValue, worstRow } from "./filter_fields.js";
import { formatCount } from "./format.js";
import { DEFAULT_THRESHOLD, ERROR, OUTCOMES } from "./run_model.js";
import { variantParts } from "./variants.js";

/** @typedef {import("./run_model.js").RunModel} RunModel */
/** @typedef {import("./case_list.js").CaseList} CaseList */

/**
 * @typedef {Object} Facet
 * @property {string} title
 * @property {string[]} values
 * @property {string[]} conditions The filter for each value.
 * @property {(c: number, add: (value: number) => void) => void} each Calls `add` for each value of a case.
 */

const MOST_VALUES = 50;
const MOST_COUNTED = 20; // Evaluators and tools: each is counted separately.
const FIRST = 6; // Values that are shown before the others are asked for.

/**
 * What cases of a run can be told apart by.
 * @param {RunModel} model
 * @returns {Facet[]}
 */
function facetsOf(model) {
  const { first, outcome, count } = model.cases;
  /** @type {(title: string, name: string, values: string[], of: (c: number) => number|undefined) => Facet} */
  const single = (title, name, values, of) => ({
    title,
    values,
    conditions: values.map((value) => condition(name, value)),
    each: (c, add) => {
      const value = of(c);
      if (value !== undefined && value >= 0) add(value);
    },
  });
  /** @type {(title: string, prefix: string, names: string[], operator: string, than: number) => Facet} */
  const counted = (title, prefix, names, operator, than) => {
    const values = names.slice(0, MOST_COUNTED);
    const numbers = values.map((name) => fieldValue(prefix + name, model));
    const fits = operator === "<" ? (/** @type {number} */ one) => one < than : (/** @type {number} */ one) => one > than;
    return { title, values, conditions: values.map((name) => condition(prefix + name, String(than), operator)), each: (c, add) => numbers.forEach((number, i) => fits(number(c)) && add(i)) };
  };
  const [targets, prompts] = [variantParts(model, 0), variantParts(model, 1)];
  const reasons = new Map();
  const reason = (/** @type {number} */ c) => model.reason.at(worstRow(model, c));
  for (let c = 0; c < count && reasons.size < MOST_VALUES; c++) if (outcome[c] === ERROR && !reasons.has(reason(c))) reasons.set(reason(c), reasons.size);
  return [
    single("Verdict", "verdict", OUTCOMES, (c) => outcome[c]),
    single("Error", "reason", [...reasons.keys()], (c) => (outcome[c] === ERROR ? reasons.get(reason(c)) : -1)),
    single("Suite", "suite", model.suites, (c) => model.suite[first[c]]),
    single("Target", "target", targets.values, (c) => targets.of[model.target[first[c]]]),
    single("Prompt", "prompt", prompts.values, (c) => prompts.of[model.target[first[c]]]),
    { ...single("Tag", "tag", model.tags, () => -1), each: (/** @type {number} */ c, /** @type {(value: number) => void} */ add) => model.dictionaries.tag_sets[model.tag_set[first[c]]]?.forEach((tag) => add(tag)) },
    ...Object.keys(model.metadata).map((key) => single(key, `metadata.${key}`, model.metadata[key], (c) => model.metadata_index[key]?.[first[c]])),
    counted(`Evaluator below ${DEFAULT_THRESHOLD}`, "evaluator.", model.evaluators, "<", DEFAULT_THRESHOLD),
    counted("Tool called", "tools.", model.tools, ">", 0),
  ].filter((facet) => facet.values.length > 0 && facet.values.length <= MOST_VALUES);
}

/**
 * The cases with each value: in the whole run, and among those that match the filter. The condition of the facet itself
 * is left out, so that the counts of other values say what choosing them would add.
 * @param {Facet} facet
 * @param {CaseList} list
 */
function countsOf({ values, conditions, each }, { failing, filter }) {
  const all = new Uint32Array(values.length);
  const now = new Uint32Array(values.length);
  const own = filter.terms.findIndex((term) => term === filter.among(conditions)) + 1;
  let isShown = false;
  const add = (/** @type {number} */ value) => {
    all[value]++;
    if (isShown) now[value]++;
  };
  for (let c = 0; c < failing.length; c++) {
    isShown = !failing[c] || failing[c] === own;
    each(c, add);
  }
  return { all, now };
}

/** All facets of a run, beside its table. */
export class Facets {
  /** @param {(text: string) => void} filter Called with the new filter. */
  constructor(filter) {
    this.filter = filter;
    /** @type {Set<string>} Facets with all values. */
    this.open = new Set();
    this.element = el("div", { class: "facets" });
  }

  /** @param {CaseList} list */
  update(list) {
    showAgain(this.element, facetsOf(list.model).map((facet) => this.view(facet, list)));
  }

  /** @param {Facet} facet @param {CaseList} list */
  view(facet, list) {
    const { title, values, conditions } = facet;
    const { all, now } = countsOf(facet, list);
    const order = values.map((_, i) => i).filter((i) => all[i]);
    if (values !== OUTCOMES) order.sort((one, other) => all[other] - all[one]);
    if (!order.length || all[order[0]] === list.model.cases.count) return null; // All cases have the same value.
    const term = list.filter.among(conditions);
    const chosen = term ? alternatives(term) : [];
    const isOpen = this.open.has(title);
    const shown = order.filter((i, place) => isOpen || place < FIRST || chosen.includes(conditions[i]));
    const value = (/** @type {number} */ i) => {
      const name = el("span", { class: values === OUTCOMES ? `verdict ${values[i]}` : "cut" }, values[i] || "(empty)");
      const press = button("", () => this.filter(list.filter.toggled(conditions[i], conditions)), { class: "quiet facet-value", title: values[i], "aria-pressed": String(chosen.includes(conditions[i])) });
      press.append(name, " ", el("span", { class: "number" }, formatCount(now[i])));
      return el("li", null, press);
    };
    const more = () => {
      if (!this.open.delete(title)) this.open.add(title);
      this.update(list);
    };
    return el("section", { class: "facet" }, el("h2", null, title), el("ul", null, shown.map(value)), order.length > FIRST && button(isOpen ? "Show fewer" : `${formatCount(order.length - shown.length)} more`, more, { class: "quiet more" }));
  }
}
