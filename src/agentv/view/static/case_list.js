// @ts-check
// The cases that the run page shows: those that match the filter and the search, in order.

import { Filter, parseFilter } from "./filter.js";
import { fieldOf, fieldValue } from "./filter_fields.js";
import { BORDERLINE, ERROR, FAIL, INCOMPLETE, OUTCOMES, PASS } from "./run_model.js";
import { sortedBy } from "./sorting.js";

/** @typedef {import("./run_model.js").RunModel} RunModel */
/** @typedef {import("./filter_fields.js").Against} Against */

export const DEFAULT_SORT = "verdict";
/** Verdicts, worst first: what failed, what errored, what is near the line. */
const WORST = [FAIL, ERROR, INCOMPLETE, BORDERLINE, PASS];
const SEVERAL = 0xffffffff;

export class CaseList {
  /** @param {RunModel} model */
  constructor(model) {
    this.model = model;
    /** @type {Against|null} */
    this.against = null;
    this.filter = new Filter();
    this.search = "";
    /** @type {Uint8Array|null} Cases in which the text was found by reading the whole record. */
    this.found = null;
    this.sort = DEFAULT_SORT;
    this.rows = new Uint32Array();
    /** Of each case: 0 if it is shown, i + 1 if only term i of the filter is not true, SEVERAL for more; the search counts as a term after the last. */
    this.failing = new Uint32Array();
  }

  /** Choose and sort. */
  update() {
    const { model, against, sort } = this;
    const tests = this.filter.tests(model, against);
    if (this.search) tests.push(this.searchTest());
    const { count } = model.cases;
    const failing = (this.failing = new Uint32Array(count));
    const chosen = new Uint32Array(count);
    let matching = 0;
    for (let c = 0; c < count; c++) {
      let only = 0;
      for (let i = 0; i < tests.length && only < SEVERAL; i++) if (!tests[i](c)) only = only ? SEVERAL : i + 1;
      if (only) failing[c] = only;
      else chosen[matching++] = c;
    }
    this.rows = sortedBy(chosen.subarray(0, matching), sortValue(sort.replace(/^-/, ""), model, against), sort.startsWith("-"));
  }

  /** Whether a case contains the text: in its id, question or reasons, or where the record was searched. */
  searchTest() {
    const { model, found } = this;
    const { cases } = model;
    const pattern = new RegExp(this.search.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&"), "i");
    const has = (/** @type {string} */ text) => pattern.test(text);
    return (/** @type {number} */ c) => found?.[c] === 1 || has(model.eval_id.at(cases.first[c])) || has(model.question.at(cases.first[c])) || cases.rows(c).some((row) => has(model.reason.at(row)));
  }
}

/** By what cases are sorted. @param {string} name @param {RunModel} model @param {Against|null} against @returns {(c: number) => string|number} */
function sortValue(name, model, against) {
  const { outcome, score } = model.cases;
  const ranks = OUTCOMES.map((_, one) => 2 * WORST.indexOf(one));
  if (name === "verdict") return (c) => ranks[outcome[c]] + (score[c] || 0);
  const get = fieldValue(name, model, against);
  return (c) => asText(get(c));
}

/** Several texts as one. @param {string|number|string[]} value */
export function asText(value) {
  return typeof value === "object" ? value.join(", ") : value;
}

/** The filter of an address; everything if it cannot be understood. @param {string|undefined} text */
export function filterOf(text = "") {
  const parsed = parseFilter(text);
  return parsed instanceof Filter ? parsed : new Filter();
}

/** @type {WeakMap<RunModel, {query: string, generation: string, rows: Uint32Array}>} What the run page showed last. */
const LISTED = new WeakMap();

/** What of a query decides which cases are listed. @param {Record<string, string>} query */
function listQuery({ f, q, s, vs, in: everywhere }) {
  return JSON.stringify([f, q, s, vs, everywhere]);
}

/** Remember the cases that the run page shows. @param {CaseList} list @param {Record<string, string>} query */
export function rememberList(list, query) {
  LISTED.set(list.model, { query: listQuery(query), generation: list.model.generation, rows: list.rows });
}

/**
 * The cases that the run page shows with this query, in its order. If it did not show them, the record is not searched.
 * @param {RunModel} model
 * @param {Record<string, string>} query
 * @param {Against|null} against
 */
export function listedCases(model, query, against) {
  const known = LISTED.get(model);
  if (known?.query === listQuery(query) && known.generation === model.generation) return known.rows;
  const list = new CaseList(model);
  list.against = against;
  list.filter = filterOf(query.f);
  list.search = query.q ?? "";
  list.sort = sortOf(query.s);
  list.update();
  rememberList(list, query);
  return list.rows;
}

/** The sort of an address. @param {string|undefined} sort */
export function sortOf(sort) {
  return sort && fieldOf(sort.replace(/^-/, ""))[0] ? sort : DEFAULT_SORT;
}
