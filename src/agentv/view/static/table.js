// @ts-check
// A table of any length: only the rows in view are drawn. Items are numbers, such as indices of cases; columns say how
// an item is shown. It has the roles of a grid, and one row at a time takes the keyboard focus. Where the reader is, is
// kept in the history, for the way back.

import { button, el, set, showAgain, showText, vary } from "./dom.js";
import { formatCount, plural } from "./format.js";
import { go } from "./router.js";

/** @typedef {import("./dom.js").Child} Child */

/**
 * @typedef {Object} Column
 * @property {string} id
 * @property {string} title Without one, the column cannot be sorted by.
 * @property {string} [about] What the column contains, if the title does not say it.
 * @property {number} width In rem; the least width if it grows.
 * @property {number} [grow] Share of the width that is left.
 * @property {boolean} [number] Whether cells are aligned to the right.
 * @property {(item: number, old?: any) => Child|Child[]} cell `old` is the element that it returned for this cell before, if
 *   it was one: it may be changed and returned again, which is faster than a new one.
 */

/**
 * @typedef {Object} TableOptions
 * @property {string} label What the rows are, for screen readers.
 * @property {string} noun What a row is, such as `case`.
 * @property {Column[]} columns
 * @property {(item: number) => string} key Identifies an item, whatever its number is.
 * @property {(key: string) => number} find The item with a key, or -1.
 * @property {(item: number) => string} href What opens if a row is clicked, or on Enter.
 * @property {(item: number) => void} [ahead] The reader points at a row, or has moved the focus to it: it may be opened next.
 * @property {(column: string) => void} onSort A head was clicked.
 */

const ROW = 32;
const MORE = 4; // Rows that are drawn above and below those in view, after the ones in view.
const PRINTED = 200;
const SETTLE_MS = 150;
const EXPECT_MS = 40;

export class Table {
  /** @param {TableOptions} options */
  constructor(options) {
    this.options = options;
    this.rows = new Uint32Array();
    /** @type {string|null} The key of the row that has or had the focus. */
    this.current = null;
    this.at = -1; // Its position.
    /** @type {Map<number, HTMLElement>} Drawn rows by position. */
    this.drawn = new Map();
    /** @type {[string, boolean]} The column by which rows are sorted, and whether descending. */
    this.sorted = ["", false];
    this.pageRows = Math.ceil(innerHeight / ROW); // Rows between the head and the lower edge; a guess before it is measured.
    this.timer = 0;
    this.expecting = 0;
    this.drawing = 0;
    /** @type {Column[]} */
    this.columns = [];
    this.restoring = history.state?.rows;
    this.head = el("div", { role: "row", class: "grid-row grid-head", "aria-rowindex": "1" });
    this.body = el("div", { role: "rowgroup", class: "grid-body" });
    this.note = el("p", { class: "grid-note muted" });
    this.grid = el("div", { role: "grid", class: "grid", "aria-label": options.label }, el("div", { role: "rowgroup", class: "grid-top" }, this.head), this.body);
    this.frame = el("div", { class: "grid-frame", onscroll: () => (this.draw(1), this.drawMore(), this.remember(SETTLE_MS)) }, this.grid);
    this.element = el("div", { class: "grid-box" }, this.frame, this.note);
    this.body.addEventListener("keydown", (event) => this.pressed(event));
    this.body.addEventListener("click", (event) => this.clicked(event));
    this.body.addEventListener("focusin", (event) => this.focused(this.rowOf(event)));
    this.body.addEventListener("mouseover", (event) => (explain(event), this.expect(this.rowOf(event))));
    this.resized = new ResizeObserver(() => this.arrive());
    this.resized.observe(this.frame);
    this.print = matchMedia("print");
    this.print.addEventListener("change", this.printed);
    this.setColumns(options.columns);
  }

  close() {
    this.resized.disconnect();
    this.print.removeEventListener("change", this.printed);
    clearTimeout(this.timer);
    clearTimeout(this.expecting);
    cancelAnimationFrame(this.drawing);
  }

  /** @param {Column[]} columns */
  setColumns(columns) {
    const hadFocus = this.hasFocus();
    this.columns = columns;
    vary(this.grid, "--tracks", columns.map(({ grow, width }) => (grow ? `minmax(${width}rem, ${grow}fr)` : `${width}rem`)).join(" "));
    vary(this.grid, "--least", `${columns.reduce((sum, { width }) => sum + width + 0.75, 1.5)}rem`);
    showAgain(
      this.head,
      columns.map(({ id, title, about, number }) => el("div", { role: "columnheader", class: number ? "number cut" : "cut", title: about, "data-column": id }, title ? button(title, () => this.options.onSort(id), { class: "quiet cut" }) : el("span", { class: "off-screen" }, about))),
    );
    this.setSort(...this.sorted);
    this.body.replaceChildren();
    this.drawn.clear();
    this.draw();
    if (hadFocus) this.focus(this.at, true);
  }

  /** Mark the column by which the rows are sorted. @param {string} id @param {boolean} descending */
  setSort(id, descending) {
    this.sorted = [id, descending];
    for (const cell of this.head.children) set(cell, "aria-sort", cell.getAttribute("data-column") !== id ? "none" : descending ? "descending" : "ascending");
  }

  /** Show other rows, in this order. The focus stays on its row if it is still there. @param {Uint32Array<ArrayBuffer>} rows */
  setRows(rows) {
    const [hadFocus, before] = [this.hasFocus(), this.at];
    this.rows = rows;
    set(this.grid, "aria-rowcount", rows.length + 1);
    vary(this.body, "--height", `${rows.length * ROW}px`);
    const at = (this.at = this.current === null ? -1 : this.positionOf(this.current));
    this.redraw(); // It may move the focus from a link to its row, and so change `at`.
    if (hadFocus) this.focus(at < 0 ? Math.min(before, rows.length - 1) : at, at >= 0);
  }

  /** Draw all rows again. */
  redraw() {
    this.draw();
    for (const [position, row] of this.drawn) this.fill(row, position);
  }

  /** @param {string} key */
  positionOf(key) {
    return this.rows.indexOf(this.options.find(key));
  }

  hasFocus() {
    return this.body.contains(document.activeElement);
  }

  printed = () => this.draw();

  /** Draw the rows around those in view when these were painted. */
  drawMore() {
    cancelAnimationFrame(this.drawing);
    this.drawing = requestAnimationFrame(() => (this.drawing = requestAnimationFrame(() => this.draw())));
  }

  /** Draw the rows in view, and some more. @param {number} [more] */
  draw(more = MORE) {
    const { rows, drawn } = this;
    const isPrinting = this.print.matches;
    const top = Math.floor(this.frame.scrollTop / ROW);
    const first = isPrinting ? 0 : Math.max(0, top - more);
    const last = Math.min(rows.length, isPrinting ? PRINTED : top + this.pageRows + more + 1);
    /** @type {number[]} */
    const unused = [];
    for (const [position, row] of drawn) {
      if ((position < first || position >= last) && !(position === this.at && row.contains(document.activeElement))) unused.push(position);
    }
    const take = () => {
      const position = unused.pop() ?? -1;
      const row = drawn.get(position);
      drawn.delete(position);
      return row;
    };
    for (let position = first; position < last; position++) if (!drawn.has(position)) this.place(take(), position);
    // While the reader scrolls, rows stay where they were: they are used again when more are drawn.
    while (more === MORE && unused.length) take()?.remove();
    const stop = drawn.has(this.at) ? this.at : Math.min(top, rows.length - 1); // The row that Tab goes to.
    for (const [position, row] of drawn) if (row.getAttribute("tabindex") !== (position === stop ? "0" : "-1")) row.tabIndex = position === stop ? 0 : -1;
    const left = rows.length - PRINTED;
    this.note.textContent = !rows.length ? `No ${this.options.noun} matches.` : isPrinting && left > 0 ? `${plural(PRINTED, this.options.noun)} printed, ${formatCount(left)} not.` : "";
  }

  /** A row at a position. Rows that are not used any more are used again. @param {HTMLElement|undefined} row @param {number} position */
  place(row, position) {
    const placed = row ?? el("div", { role: "row", class: "grid-row", tabindex: "-1" }, this.columns.map(({ number }) => el("div", { role: "gridcell", class: number ? "number" : "cut" }, "")));
    vary(placed, "transform", `translateY(${position * ROW}px)`);
    set(placed, "aria-rowindex", position + 2);
    this.fill(placed, position);
    if (!row) this.body.append(placed);
    this.drawn.set(position, placed);
    return placed;
  }

  /** @param {HTMLElement} row @param {number} position */
  fill(row, position) {
    const hadFocus = row.contains(document.activeElement);
    const item = this.rows[position];
    let cell = row.firstElementChild;
    for (const column of this.columns) {
      if (!cell) break;
      showText(cell, column.cell(item, cell.firstElementChild ?? undefined));
      cell = cell.nextElementSibling;
    }
    if (hadFocus && !this.hasFocus()) row.focus({ preventScroll: true });
  }

  /** Move the focus to a row, and scroll there. @param {number} position @param {boolean} [isScrolled] Whether it is in view. */
  focus(position, isScrolled = false) {
    if (position < 0 || position >= this.rows.length) return;
    const row = this.drawn.get(position) ?? this.place(undefined, position);
    row.tabIndex = 0;
    row.focus({ preventScroll: true });
    if (!isScrolled) row.scrollIntoView({ block: "nearest", inline: "nearest" });
    this.draw();
  }

  /** Move by some rows. Without a current row, start with the first in view. @param {number} by */
  move(by) {
    const start = this.at >= 0 ? this.at + by : Math.ceil(this.frame.scrollTop / ROW);
    this.focus(Math.min(Math.max(start, 0), this.rows.length - 1));
  }

  /** Open the current row. */
  open() {
    if (this.at < 0) return;
    this.remember();
    go(this.options.href(this.rows[this.at]));
  }

  /** @param {KeyboardEvent} event */
  pressed(event) {
    const { key, ctrlKey, metaKey, altKey } = event;
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: this.pageRows - 1, PageUp: 1 - this.pageRows, Home: -Infinity, End: Infinity }[key];
    const inside = { ArrowRight: 1, ArrowLeft: -1 }[key];
    if (ctrlKey || metaKey || altKey || !(step || inside)) return;
    event.preventDefault();
    if (step) this.move(step);
    const row = this.drawn.get(this.at);
    if (!inside || !row) return;
    // Between a row and the links in it.
    const stops = [row, .../** @type {NodeListOf<HTMLElement>} */ (row.querySelectorAll("a"))];
    stops[stops.indexOf(/** @type {HTMLElement} */ (document.activeElement)) + inside]?.focus();
  }

  /** The position of the row in which something happened. @param {Event} event */
  rowOf(event) {
    return Number(/** @type {Element} */ (event.target).closest("[role=row]")?.ariaRowIndex) - 2;
  }

  /** @param {number} position */
  focused(position) {
    this.at = position;
    this.current = this.options.key(this.rows[position]);
    this.remember(SETTLE_MS);
    this.expect(position);
  }

  /** A row may be opened next, unless the reader is only passing. @param {number} position */
  expect(position) {
    clearTimeout(this.expecting);
    const item = this.rows[position];
    if (item !== undefined) this.expecting = window.setTimeout(() => this.options.ahead?.(item), EXPECT_MS);
  }

  /** @param {MouseEvent} event */
  clicked(event) {
    const target = /** @type {Element} */ (event.target);
    if (target.closest("a")) this.remember();
    else if (!target.closest("input") && !event.ctrlKey && !event.metaKey && !event.shiftKey && getSelection()?.isCollapsed !== false) {
      this.focused(this.rowOf(event));
      this.open();
    }
  }

  /** Keep where the reader is, for the way back. @param {number} [later] In milliseconds. */
  remember(later) {
    clearTimeout(this.timer);
    const save = () => history.replaceState({ ...history.state, rows: { top: this.frame.scrollTop, left: this.frame.scrollLeft, key: this.hasFocus() ? this.current : null, y: this.frame.getBoundingClientRect().top } }, "");
    if (later) this.timer = window.setTimeout(save, later);
    else save();
  }

  /** Return to where the reader was, or to the top. */
  restore() {
    this.restoring = history.state?.rows ?? { top: 0, left: this.frame.scrollLeft, key: null };
    this.arrive();
  }

  arrive() {
    if (!this.frame.clientHeight) return;
    this.pageRows = Math.max(1, Math.floor(this.frame.clientHeight / ROW) - 1);
    const state = this.restoring;
    this.restoring = null;
    if (state) this.frame.scrollTo(state.left, state.top);
    // What is above the table may not have its height yet, or have another one.
    if (state?.y !== undefined) window.scrollBy(0, this.frame.getBoundingClientRect().top - state.y);
    this.draw();
    if (state?.key) this.focus(this.positionOf(state.key), true);
  }
}

/** A cell that is cut shows all of its text when the pointer is on it, and a score what it needs. @param {Event} event */
function explain(event) {
  const { target } = event;
  const cell = target instanceof Element ? target.closest("[role=gridcell]") : null;
  if (target instanceof HTMLElement && target.dataset.title) target.title = target.dataset.title;
  else if (cell) set(cell, "title", cell.scrollWidth > cell.clientWidth ? cell.textContent : null);
}
