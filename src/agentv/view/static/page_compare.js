// @ts-check
// The comparison of two runs, or of two prompts of a run: #/compare/BASELINE/CANDIDATE?pair=0&f=newly-failed&g=tag:billing&q=text&s=difference

import { PairsSection } from "./compare_pairs.js";
import { announce, el, show } from "./dom.js";
import { formatCount, runName } from "./format.js";
import { pairView } from "./pair_view.js";
import { address, go } from "./router.js";
import { sectionView } from "./sections.js";
import { sideOf, variantOf } from "./variants.js";

/** @typedef {import("./types.js").CompareData} CompareData */
/** @typedef {import("./router.js").Place} Place */
/** @typedef {import("./app.js").View} View */
/** @typedef {import("./run_model.js").RunModel} RunModel */

/** @type {import("./app.js").Page} */
export const page = {
  matches: (parts) => parts.length === 3 && parts[0] === "compare",
  async open(view, place) {
    const [, a, b] = place.parts;
    const { source } = view;
    const { runs } = await source.runs();
    const sides = [a, b].map((written) => sideOf(written, runs));
    const [one, two] = sides.map(({ head, run, prompt }) => ({ name: runName(head ?? { name: null, address: run }), prompt, run }));
    const title = two.prompt === null ? `${two.name} against ${one.name}` : `${two.name}: ${two.prompt} against ${one.prompt}`;
    const isServed = source.kind === "server";
    const choices = isServed && (two.prompt === null ? runs.map((run) => [run.address, runName(run)]) : (await source.run(two.run)).prompts.map((prompt) => [variantOf(two.run, prompt), prompt]));
    const head = el("header", { class: "head" }, el("h1", null, title), choices && picker(choices, a, b));
    const trail = [{ label: "Runs", to: address([]) }, { label: two.name, to: address(["run", two.run]) }];
    const keys = isServed ? [{ key: "s", does: "swap baseline and candidate", press: () => go(address(["compare", b, a])) }] : [];
    const loaded = await load(source, a, b);
    if (typeof loaded === "string") return { element: el("section", { class: "page" }, head, el("p", { class: "lead" }, loaded)), title, trail, keys };
    const comparison = new Comparison(view, loaded, place.parts);
    await comparison.show(place.query);
    return {
      element: el("section", { class: "page compare" }, head, comparison.element),
      title,
      trail,
      keys: [...comparison.keys(), ...keys],
      update: ({ query }) => (comparison.show(query), true),
      close: () => comparison.close(),
    };
  },
};

/**
 * The comparison, or why there is none.
 * @param {import("./types.js").Source} source
 * @param {string} a
 * @param {string} b
 */
async function load(source, a, b) {
  if (a === b) return "A run cannot be compared with itself. Pick another baseline.";
  try {
    return (await source.compare(a, b)) ?? "This file does not contain this comparison. `agentv report CANDIDATE --format html --baseline BASELINE` writes one that does.";
  } catch (error) {
    return String(error instanceof Error ? error.message : error);
  }
}

/** Lists to pick another baseline or candidate. @param {string[][]} choices Addresses and names of runs, or of prompts. @param {string} a @param {string} b */
function picker(choices, a, b) {
  const select = (/** @type {string} */ label, /** @type {string} */ chosen, /** @type {(run: string) => string} */ to) => {
    const list = el("select", { "aria-label": label, onchange: () => go(to(list.value)) }, choices.map(([value, name]) => el("option", { value, selected: value === chosen }, name)));
    return [label, list];
  };
  return el(
    "div",
    { class: "chips no-print" },
    select("Baseline", a, (run) => address(["compare", run, b])),
    el("a", { class: "chip", href: address(["compare", b, a]), "aria-keyshortcuts": "s" }, "⇄ Swap"),
    select("Candidate", b, (run) => address(["compare", a, run])),
  );
}

/** The open comparison: an overview, or one case. What is shown is in the address. */
class Comparison {
  /** @param {View} view @param {CompareData} data @param {string[]} parts */
  constructor(view, data, parts) {
    this.view = view;
    this.data = data;
    this.parts = parts;
    /** @type {Record<string, string>} */
    this.query = {};
    this.opening = 0;
    this.scroll = 0;
    /** @type {string|null} The pair that is shown. */
    this.shown = null;
    this.pairs = new PairsSection(data, (query) => this.to(query));
    this.overview = el("div", { class: "cards" }, [...data.sections.map(sectionView), this.pairs.element, data.left_out && sectionView(data.left_out)]);
    this.pair = el("div", { hidden: true, tabindex: "-1" });
    this.element = el("div", null, this.overview, this.pair);
  }

  /** The address of the overview with some settings changed, or of a pair. @param {Record<string, string|number|null>} change */
  to(change) {
    return address(this.parts, { ...this.query, pair: null, ...change });
  }

  /** Show what the address says, unless it changes meanwhile. @param {Record<string, string>} query */
  async show(query) {
    const number = ++this.opening;
    const { a, b, groups, pairs } = this.data;
    const { runs } = this.view;
    this.query = { ...query };
    const group = groups.find(({ by, name }) => `${by}:${name}` === query.g) ?? null;
    const index = Number(query.pair ?? NaN);
    const isOpen = index in pairs.eval_id;
    try {
      const candidate = group || isOpen ? await runs.get(b.address) : null;
      const baseline = isOpen ? await runs.get(a.address) : null;
      const details = await Promise.all([baseline?.detail(pairs.row1[index]), baseline && candidate?.detail(pairs.row2[index])]);
      if (number !== this.opening) return;
      this.pairs.update(query, group, candidate);
      if (baseline && candidate) this.showPair(index, pairView(this.data, index, [baseline, candidate], details.map((detail) => detail ?? null)));
      else if (this.shown !== null) this.showOverview();
    } catch (error) {
      if (number === this.opening) this.showPair(index, el("p", { class: "note bad" }, `This case cannot be shown: ${error instanceof Error ? error.message : error}`));
    }
  }

  /** @param {number} index @param {HTMLElement} element */
  showPair(index, element) {
    if (this.shown === null) this.scroll = window.scrollY;
    this.shown = String(index);
    show(this.pair, this.steps(index), element);
    this.overview.hidden = true;
    this.pair.hidden = false;
    window.scrollTo(0, 0);
    this.pair.focus({ preventScroll: true });
    announce(this.data.pairs.eval_id[index]);
  }

  showOverview() {
    const { table } = this.pairs;
    this.overview.hidden = false;
    this.pair.hidden = true;
    show(this.pair);
    window.scrollTo(0, this.scroll);
    table.focus(table.positionOf(String(this.shown)));
    this.shown = null;
  }

  /** Links to the pairs before and after this one. @param {number} index */
  steps(index) {
    const { order } = this.pairs;
    const at = order.indexOf(index);
    const link = (/** @type {number|undefined} */ to, /** @type {string} */ text, /** @type {string} */ key) => to !== undefined && el("a", { class: "chip", href: this.to({ pair: to }), "aria-keyshortcuts": key }, text);
    return el(
      "nav",
      { class: "chips pair-steps no-print", "aria-label": "Cases" },
      el("a", { class: "chip", href: this.to({}), "aria-keyshortcuts": "Escape" }, "↑ All cases"),
      link(order[at - 1], "← Previous", "k"),
      link(order[at + 1], "Next →", "j"),
      at >= 0 && el("span", { class: "muted" }, `${formatCount(at + 1)} of ${formatCount(order.length)}`),
    );
  }

  /** @param {number} step */
  move(step) {
    const { order, table } = this.pairs;
    if (this.shown === null) return table.move(step);
    // The case in the address may still be loading.
    const next = order[order.indexOf(Number(this.query.pair)) + step];
    if (next !== undefined) go(this.to({ pair: next }), { replace: true });
  }

  /** @returns {import("./keys.js").Key[]} */
  keys() {
    return [
      { key: "j", does: "next case", press: () => this.move(1) },
      { key: "k", does: "previous case", press: () => this.move(-1) },
      { key: "Enter", does: "open the selected case", press: () => this.shown ?? this.pairs.table.open() },
      { key: "/", does: "filter the cases by text", press: () => this.pairs.search.focus() },
      { key: "Escape", does: "close the case, or go to the candidate", press: () => go(this.shown === null ? address(["run", this.data.b.address]) : this.to({})) },
    ];
  }

  close() {
    this.opening++;
    this.pairs.close();
  }
}
