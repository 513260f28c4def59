// @ts-check
// The cases of a comparison as a table, the largest differences first, with filters.

import { announce, el, showAgain } from "./dom.js";
import { matcher } from "./filter_fields.js";
import { formatCount, formatDelta, formatScore, plural } from "./format.js";
import { visible } from "./letters.js";
import { go } from "./router.js";
import { nextSort, sortedBy } from "./sorting.js";
import { Table } from "./table.js";

/** @typedef {import("./types.js").CompareData} CompareData */
/** @typedef {import("./types.js").Group} Group */
/** @typedef {import("./run_model.js").RunModel} RunModel */
/** @typedef {(query: Record<string, string|number|null>) => string} To The address with some settings changed. */

const TYPING_MS = 200;
/** What became of the verdict, by `2 * passed in the baseline + passed in the candidate`. A case that does not pass may have failed or be borderline. */
const FLIPS = ["neither passes", "newly passes", "no longer passes", "both pass"];
const FLIP_KINDS = ["muted", "better", "worse", "muted"];

/** The difference of two scores. To 12 digits, so that equal scores have none. @param {number} one @param {number} two */
function difference(one, two) {
  return Number((two - one).toFixed(12));
}

/** @param {number} one @param {number} two */
export function deltaMark(one, two) {
  const delta = difference(one, two);
  return el("span", { class: `delta ${delta > 0 ? "better" : delta < 0 ? "worse" : "muted"}` }, formatDelta(delta));
}

export class PairsSection {
  /** @param {CompareData} data @param {To} to */
  constructor({ pairs }, to) {
    this.pairs = pairs;
    this.to = to;
    this.sort = "";
    /** Positions of the chosen pairs in the order of the table. */
    this.order = new Uint32Array();
    this.typing = 0;
    const flip = (/** @type {number} */ i) => 2 * pairs.passed1[i] + pairs.passed2[i];
    const target = (/** @type {number} */ i) => [...new Set([pairs.target1[i], pairs.target2[i]])].join(" → ");
    /** @type {Record<string, [string, (i: number) => boolean]>} */
    this.kinds = {
      "": ["All", () => true],
      "newly-failed": ["No longer pass", (i) => flip(i) === 2],
      "newly-passed": ["Newly pass", (i) => flip(i) === 1],
      worse: ["Worse", (i) => pairs.outcome[i] === 2],
      better: ["Better", (i) => pairs.outcome[i] === 1],
    };
    /** @type {Record<string, (i: number) => string|number>} */
    this.values = {
      case: (i) => pairs.eval_id[i],
      suite: (i) => pairs.suite[i],
      target,
      baseline: (i) => pairs.score1[i],
      candidate: (i) => pairs.score2[i],
      difference: (i) => difference(pairs.score1[i], pairs.score2[i]),
      pass: flip,
      reason: (i) => pairs.reason[i],
    };
    const href = (/** @type {number} */ i) => to({ pair: i });
    /** @type {import("./table.js").Column[]} */
    const columns = [
      { id: "case", title: "Case", width: 9, grow: 2, cell: (i) => el("a", { href: href(i), tabindex: "-1" }, visible(pairs.eval_id[i])) },
      { id: "suite", title: "Suite", width: 5, cell: (i) => visible(pairs.suite[i]) },
      { id: "target", title: "Target", width: 7, cell: (i) => visible(target(i)) },
      { id: "baseline", title: "Baseline", width: 4.75, number: true, cell: (i) => formatScore(pairs.score1[i]) },
      { id: "candidate", title: "Candidate", width: 5.25, number: true, cell: (i) => formatScore(pairs.score2[i]) },
      { id: "difference", title: "Difference", width: 5.25, number: true, cell: (i) => deltaMark(pairs.score1[i], pairs.score2[i]) },
      { id: "pass", title: "Pass", width: 8, cell: (i) => el("span", { class: `delta ${FLIP_KINDS[flip(i)]}` }, FLIPS[flip(i)]) },
      { id: "reason", title: "Reason", about: "Why the case lost points: in the candidate or, if it improved, in the baseline", width: 8, grow: 3, cell: (i) => el("span", { title: pairs.reason[i] || null }, visible(pairs.reason[i])) },
    ];
    const isOne = (/** @type {string} */ id) => (id === "suite" || id === "target") && pairs.suite.every((_, i) => this.values[id](i) === this.values[id](0));
    this.table = new Table({
      label: "Cases in both runs",
      noun: "case",
      columns: columns.filter(({ id }) => !isOne(id)),
      key: String,
      find: Number,
      href,
      onSort: (column) => go(to({ s: nextSort(this.sort, column) }), { replace: true }),
    });
    this.filters = el("nav", { class: "chips", "aria-label": "Filter cases" });
    this.search = el("input", { type: "search", placeholder: "Id, target or reason", "aria-label": "Filter cases by text", "aria-keyshortcuts": "/", oninput: () => this.typed() });
    this.element = el("section", { class: "card pairs", "aria-label": "Cases" }, el("h2", null, "Cases"), el("div", { class: "chips no-print" }, this.filters, this.search), this.table.element);
  }

  typed() {
    clearTimeout(this.typing);
    this.typing = window.setTimeout(() => go(this.to({ q: this.search.value.trim() }), { replace: true }), TYPING_MS);
  }

  /**
   * Show what the address says.
   * @param {Record<string, string>} query
   * @param {Group|null} group
   * @param {RunModel|null} candidate Groups are those of its rows.
   */
  update({ f = "", q: text = "", s: sort = "" }, group, candidate) {
    const { pairs, kinds, values } = this;
    const kind = Object.hasOwn(kinds, f) ? f : "";
    const column = sort.replace(/^-/, "");
    const value = Object.hasOwn(values, column) ? values[column] : null;
    const isMember = group && candidate ? memberTest(group, candidate) : () => true;
    const needle = text.toLowerCase();
    const all = [...pairs.eval_id.keys()];
    const chosen = all.filter((i) => kinds[kind][1](i) && isMember(pairs.row2[i]) && (!needle || `${pairs.eval_id[i]}\n${pairs.suite[i]}\n${values.target(i)}\n${pairs.reason[i]}`.toLowerCase().includes(needle)));
    const isDescending = !value || sort.startsWith("-");
    this.sort = value ? sort : "";
    this.order = sortedBy(chosen, value ?? ((i) => Math.abs(Number(values.difference(i)))), isDescending);
    this.table.setSort(value ? column : "", isDescending);
    this.table.setRows(this.order);
    if (document.activeElement !== this.search) this.search.value = text;
    const chip = (/** @type {string} */ name) => el("a", { class: "chip", href: this.to({ f: name }), "aria-current": name === kind && "true" }, `${kinds[name][0]} `, el("span", { class: "muted" }, formatCount(all.filter(kinds[name][1]).length)));
    showAgain(this.filters, Object.keys(kinds).map(chip), group && el("a", { class: "chip", href: this.to({ g: null }), "aria-current": "true", title: "Show all groups" }, `${group.by.replace("metadata.", "")}: ${group.name} ✕`));
    announce(`${plural(chosen.length, "case")} shown`);
  }

  close() {
    this.table.close();
    clearTimeout(this.typing);
  }
}

/**
 * @param {Group} group
 * @param {RunModel} model
 * @returns {(row: number) => boolean}
 */
function memberTest({ by, name }, model) {
  const key = by.replace("metadata.", "");
  if (by !== key) return (row) => model.metadata[key]?.[model.metadata_index[key][row]] === name;
  const test = matcher(by, "=", name, model, null);
  return (row) => test(model.cases.of[row]);
}
