// @ts-check
// The open page of a run. The address is its state: everything the reader changes goes there first, and comes back
// through `show`.

import { against } from "./against.js";
import { CaseList, filterOf, rememberList, sortOf } from "./case_list.js";
import { announce, button, el, show, showAgain } from "./dom.js";
import { Facets } from "./facets.js";
import { FilterBox } from "./filter_box.js";
import { worstRow } from "./filter_fields.js";
import { formatCount, plural, runName } from "./format.js";
import { address, go } from "./router.js";
import { BaselineCard } from "./run_baseline.js";
import { runColumns } from "./run_columns.js";
import { headFacts, remarks, sentence, totalsOf } from "./run_head.js";
import { LiveCard } from "./run_live.js";
import { ScoreCard } from "./run_scores.js";
import { SearchBox } from "./search_box.js";
import { nextSort } from "./sorting.js";
import { Table } from "./table.js";

/** @typedef {import("./router.js").Place} Place */
/** @typedef {import("./run_model.js").RunModel} RunModel */
/** @typedef {import("./types.js").LiveState} LiveState */
/** @typedef {import("./app.js").View} View */
/** @typedef {import("./run_columns.js").RunColumn} RunColumn */

/** Do something after the next frame was painted, and not in the frame after it, which would delay that one. @param {() => void} act */
function afterPaint(act) {
  requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(act)));
}

export class RunView {
  /**
   * @param {View} view
   * @param {RunModel} model
   * @param {Place} place
   */
  constructor(view, model, place) {
    this.view = view;
    this.model = model;
    this.place = place;
    this.list = new CaseList(model);
    /** @type {string|null|undefined} The baseline that is loaded or being loaded. */
    this.baseline = undefined;
    /** @type {import("./types.js").RunInfo|null} */
    this.info = null;
    this.counting = 0; // Which count of the facets is the last one.
    this.isWaiting = !model.reason.isThere;
    this.shownColumns = "";
    const filter = (/** @type {string} */ text) => this.change({ f: text });
    this.title = el("h1");
    this.status = el("span", { class: "badge" });
    this.lead = el("p", { class: "lead" });
    this.facts = el("div");
    this.remarks = el("div", { class: "stack" });
    this.live = new LiveCard(model);
    this.scores = new ScoreCard(filter);
    this.against = new BaselineCard(model, (run) => this.change({ vs: run === model.info.baseline ? null : run }), filter);
    this.facets = new Facets(filter);
    this.box = new FilterBox(model, (text, isTyping) => this.change({ f: text }, isTyping));
    this.search = new SearchBox(
      model,
      (text, everywhere, isTyping) => this.change({ q: text, in: everywhere ? "all" : null }, isTyping),
      (found) => ((this.list.found = found), this.refresh()),
    );
    this.count = el("p", { class: "count", "aria-live": "off" });
    this.fresh = button("", () => this.showNew(), { class: "primary", hidden: true });
    this.boxes = el("ul", { class: "column-boxes" });
    this.compare = el("span");
    this.table = new Table({
      label: "Cases",
      noun: model.targets.length > 1 ? "result" : "case",
      columns: [],
      key: (c) => model.cases.key(c),
      find: (key) => model.cases.withKey(key),
      href: (c) => this.caseLink(worstRow(model, c)),
      ahead: (c) => model.ahead(worstRow(model, c)),
      onSort: (column) => this.change({ s: nextSort(this.list.sort, column) }),
    });
    this.element = this.build();
    this.showHead();
    this.show(place, true);
    if (this.isWaiting) afterPaint(() => this.complete());
    // Also a finished run: it may be resumed, or its errors retried.
    this.stop = model.follow((state, added, replaced) => this.moved(state, added, replaced));
  }

  build() {
    const { run } = this.model;
    const links = el("nav", { class: "run-links no-print", "aria-label": "Of this run" }, el("a", { href: address(["run", run, "judges"]) }, "Judges"), el("a", { href: address(["run", run, "review"]) }, "Review"), this.compare);
    return el(
      "section",
      { class: "page run" },
      el("header", { class: "stack" }, el("div", { class: "head" }, this.title, this.status, links), this.lead, this.live.element, this.facts, this.remarks),
      el("div", { class: "run-cards" }, this.scores.element, this.against.element),
      el("div", { class: "run-bar no-print", role: "search", "aria-label": "Cases" }, this.box.element, this.search.element),
      el(
        "div",
        { class: "run-body" },
        el("details", { class: "facet-rail no-print", open: innerWidth > 800 }, el("summary", null, "Facets"), this.facets.element),
        el("div", { class: "run-table" }, el("div", { class: "run-state" }, this.count, this.fresh, el("details", { class: "no-print" }, el("summary", null, "Columns"), this.boxes)), this.table.element),
      ),
    );
  }

  /** Show questions and reasons, which arrive after the other columns. */
  async complete() {
    try {
      await this.view.runs.complete(this.model);
    } catch (error) {
      show(this.remarks, el("p", { class: "note bad", role: "alert" }, /** @type {Error} */ (error).message));
    }
    this.isWaiting = false;
    if (!this.element.isConnected) return;
    this.setColumns();
    this.refresh();
  }

  close() {
    this.stop();
    this.search.stop();
    this.table.close();
    this.counting = 0;
  }

  /** Change the address. @param {Record<string, string|null>} changes @param {boolean} [isTyping] */
  change(changes, isTyping = false) {
    if (isTyping) history.replaceState({ ...history.state, rows: null }, "");
    go(address(this.place.parts, { ...this.place.query, ...changes }), { replace: isTyping });
  }

  /** The address of a row; the case page knows the list by it. @param {number} row */
  caseLink(row) {
    const { cols, ...list } = this.place.query;
    return this.model.caseAddress(row, list);
  }

  /** Show what the address says. @param {Place} place @param {boolean} [isFirst] */
  show(place, isFirst = false) {
    const before = this.place.query;
    this.place = place;
    const { query } = place;
    const isFiltered = isFirst || ["f", "q", "in"].some((name) => query[name] !== before[name]);
    const isSame = !isFiltered && query.s === before.s;
    this.list.search = (query.q ?? "").trim();
    this.list.sort = sortOf(query.s);
    this.search.show(this.list.search, query.in === "all");
    const isOther = this.choose(query.vs === "none" ? null : (query.vs ?? this.model.info.baseline));
    this.setColumns();
    if (isOther || !isSame) this.refresh(isOther || isFiltered);
    if (!isSame) this.table.restore();
  }

  /** Load a baseline after the page is shown. Returns whether it is another one. @param {string|null} run */
  choose(run) {
    if (run === this.baseline) return false;
    this.baseline = run;
    show(this.compare, run && el("a", { href: address(["compare", run, this.model.run]) }, "Compare"));
    this.list.against = null;
    this.against.choose(run);
    if (run === null) return true;
    setTimeout(async () => {
      try {
        const model = await this.view.runs.get(run);
        if (this.baseline !== run) return;
        this.list.against = against(this.model, model);
        this.setColumns();
        this.refresh();
      } catch (error) {
        if (this.baseline === run) this.against.tell(/** @type {Error} */ (error).message);
      }
    });
    return true;
  }

  /** Choose and sort the cases again, and show them. @param {boolean} [isCounted] Whether other cases may be chosen. */
  refresh(isCounted = true) {
    const { list, table } = this;
    const { query } = this.place;
    list.filter = filterOf(query.f);
    list.update();
    table.setSort(list.sort.replace(/^-/, ""), list.sort.startsWith("-"));
    table.setRows(list.rows);
    if (this.model.reason.isThere) rememberList(list, query);
    if (!isCounted && this.fresh.hidden) return;
    this.box.show(query.f ?? "");
    this.showCounts();
    // Questions and reasons arrive soon: then the facets are counted, with the reasons.
    const number = ++this.counting;
    if (!this.isWaiting) afterPaint(() => number === this.counting && this.facets.update(list));
  }

  /** What moves while the run is written. */
  showCounts() {
    const { list, table } = this;
    const all = this.model.cases.count;
    const { noun } = table.options;
    const text = list.rows.length === all ? plural(all, noun) : `${formatCount(list.rows.length)} of ${plural(all, noun)}`;
    if (this.count.textContent && this.count.textContent !== text) announce(text);
    this.count.textContent = text;
    this.count.dataset.filter = this.place.query.f ?? ""; // It is printed.
    const fresh = list.rows.length - table.rows.length;
    this.fresh.hidden = fresh <= 0;
    this.fresh.textContent = `${plural(fresh, "new row")}: show`;
    this.scores.update(list);
    this.against.update(list);
  }

  /** Show the rows that arrived while the reader was in the table. */
  showNew() {
    this.table.frame.scrollTo(0, 0);
    this.refresh();
  }

  showHead() {
    const { model } = this;
    const { head } = model.info;
    const totals = totalsOf(model);
    show(this.title, runName(head));
    this.status.textContent = head.status;
    this.lead.textContent = sentence(model, totals);
    show(this.facts, headFacts(model, totals));
    if (this.info === model.info) return;
    this.info = model.info; // It is another when the status has changed.
    show(this.remarks, remarks(model.info));
  }

  /** @param {LiveState} state @param {number} added @param {boolean} replaced */
  moved(state, added, replaced) {
    const { list, table } = this;
    this.live.update(state);
    this.showHead();
    if (!added && !replaced) return;
    if (list.against) list.against = against(this.model, list.against.model);
    this.setColumns();
    this.search.again(replaced);
    const isReading = table.frame.scrollTop > 0 || table.hasFocus() || table.frame.getBoundingClientRect().top < 0;
    if (replaced || !isReading) return this.refresh();
    list.update();
    this.showCounts();
    table.redraw();
  }

  setColumns() {
    const { model, table, list } = this;
    const wanted = this.place.query.cols?.split(",").map(decodeURIComponent);
    const all = runColumns(model, list.against, (row) => this.caseLink(row));
    const chosen = all.filter(({ id, isDefault }) => wanted?.includes(id) ?? isDefault);
    const state = chosen.map(({ id, width }) => id + width).join();
    if (state === this.shownColumns) table.columns = chosen; // Their cells show the rows that were added.
    else {
      table.setColumns(chosen);
      showAgain(this.boxes, all.map((column) => this.columnBox(column, chosen)));
    }
    this.shownColumns = state;
  }

  /** A box that shows or hides a column. @param {RunColumn} column @param {RunColumn[]} chosen */
  columnBox(column, chosen) {
    const others = chosen.filter((one) => one !== column);
    const box = el("input", { type: "checkbox", onchange: () => this.change({ cols: (box.checked ? [...chosen, column] : others).map(({ id }) => encodeURIComponent(id)).join() }) });
    box.checked = others.length < chosen.length;
    return el("li", null, el("label", null, box, " ", column.title));
  }

  keys() {
    const { table } = this;
    return [
      { key: "j", does: "next case", press: () => table.move(1) },
      { key: "k", does: "previous case", press: () => table.move(-1) },
      { key: "Enter", does: "open the case", press: () => table.open() },
      { key: "/", does: "write a filter", press: () => this.box.input.focus() },
      { key: "s", does: "search text", press: () => this.search.input.focus() },
      { key: "c", does: "compare with the baseline", press: () => this.baseline && go(address(["compare", this.baseline, this.model.run])) },
    ];
  }
}
