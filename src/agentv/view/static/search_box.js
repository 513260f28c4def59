// @ts-check
// The box for text: ids, questions and reasons are in the page; answers, prompts and judge calls are searched in the record.

import { announce, button, el, show, typedInput } from "./dom.js";
import { formatPercent, plural } from "./format.js";

/** @typedef {import("./run_model.js").RunModel} RunModel */

const AGAIN_MS = 3000; // Between searches of a run that is being written.

export class SearchBox {
  /**
   * @param {RunModel} model
   * @param {(text: string, everywhere: boolean, isTyping: boolean) => void} changed
   * @param {(found: Uint8Array|null) => void} found Called with a mark for each case, when the record was searched.
   */
  constructor(model, changed, found) {
    this.model = model;
    this.found = found;
    this.searched = "";
    this.later = 0;
    /** @type {AbortController|null} */
    this.running = null;
    const change = (/** @type {string} */ text, /** @type {boolean} */ isTyping) => changed(text.trim(), this.everywhere.checked, isTyping);
    this.input = typedInput({ placeholder: "Search", "aria-label": "Search text" }, change);
    this.everywhere = el("input", { type: "checkbox", onchange: () => change(this.input.value, false) });
    this.state = el("span", { class: "search-state muted", role: "status" });
    this.element = el("div", { class: "search-box" }, this.input, el("label", null, this.everywhere, " in answers, prompts and judge calls"), this.state);
  }

  /** Show the search of the address, and search the record if it says so. @param {string} text @param {boolean} everywhere */
  show(text, everywhere) {
    if (this.input.value.trim() !== text) this.input.value = text;
    this.everywhere.checked = everywhere;
    const wanted = everywhere ? text : "";
    if (wanted === this.searched) return;
    this.stop();
    this.searched = wanted;
    this.found(null);
    if (wanted) void this.search(wanted);
  }

  /** Search the record again, because rows were added; immediately if some were replaced. @param {boolean} replaced */
  again(replaced) {
    if (!this.searched || (this.later && !replaced)) return;
    if (replaced) this.found(null);
    clearTimeout(this.later);
    this.later = window.setTimeout(() => {
      this.later = 0;
      this.running?.abort();
      if (this.searched) void this.search(this.searched);
    }, replaced ? 0 : AGAIN_MS);
  }

  /** @param {string} text */
  async search(text) {
    const { run, source } = this.model;
    const { signal } = (this.running = new AbortController());
    const share = el("span", null, "searching");
    show(this.state, share, button("Cancel", () => this.stop("Search cancelled."), { class: "quiet" }));
    try {
      const { rows, complete } = await source.search(run, text, signal, (done) => show(share, `${formatPercent(done)} searched`));
      if (signal.aborted) return;
      const { cases } = this.model;
      const marks = new Uint8Array(cases.count);
      for (const row of rows) marks[cases.of[row]] = 1;
      const message = `${plural(rows.length, "row")} found in the record.${complete ? "" : " This file does not have all answers: rows without them were not searched."}`;
      show(this.state, message);
      announce(message);
      this.found(marks);
    } catch (error) {
      if (!signal.aborted) show(this.state, /** @type {Error} */ (error).message);
    }
  }

  /** Stop searching. @param {string} [message] */
  stop(message) {
    clearTimeout(this.later);
    this.later = 0;
    this.running?.abort();
    show(this.state, message);
  }
}
