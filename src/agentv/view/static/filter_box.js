// @ts-check
// The box for filters: completes names and values, and says what is wrong.

import { completions } from "./completions.js";
import { el, set, show, typedInput } from "./dom.js";
import { Filter, parseFilter } from "./filter.js";
import { FIELDS } from "./filter_fields.js";
import { fold } from "./letters.js";

/** @typedef {import("./run_model.js").RunModel} RunModel */

const PAUSE_MS = 800;

export class FilterBox {
  /**
   * @param {RunModel} model
   * @param {(text: string, isTyping: boolean) => void} changed Called with a filter that can be understood.
   */
  constructor(model, changed) {
    this.timer = 0;
    this.text = "";
    this.options = el("datalist", { id: "completions" });
    this.input = typedInput(
      {
        id: "filter",
        list: "completions",
        autocomplete: "off",
        autocapitalize: "off",
        spellcheck: "false",
        placeholder: "score<0.6 and tag=policy",
        "aria-label": "Filter",
        "aria-describedby": "filter-problem",
        "aria-keyshortcuts": "/",
        oninput: () => this.complete(model),
        onfocus: () => this.complete(model),
        onblur: () => this.explain(),
      },
      (text, isTyping) => {
        if (parseFilter(text) instanceof Filter) changed((this.text = text.trim()), isTyping);
        // What is being written is rarely complete: its errors are shown when the reader pauses.
        clearTimeout(this.timer);
        this.timer = window.setTimeout(() => this.explain(), isTyping ? PAUSE_MS : 0);
      },
    );
    this.problem = el("p", { id: "filter-problem", class: "problem", role: "status" });
    this.element = el("div", { class: "filter-box" }, this.input, this.options, this.problem, fold("How to filter", help));
  }

  /** @param {RunModel} model */
  complete(model) {
    show(this.options, completions(this.input.value, model).map(([value, about]) => el("option", { value }, about)));
  }

  /** Show the filter of the address, unless it is the one that is being changed here. @param {string} text */
  show(text) {
    if (text === this.text) return;
    this.text = this.input.value = text;
    this.explain();
  }

  explain() {
    const parsed = parseFilter(this.input.value);
    const problem = parsed instanceof Filter ? null : `${parsed.error}.`;
    set(this.input, "aria-invalid", problem && "true");
    show(this.problem, problem);
  }
}

function help() {
  return [
    el("p", null, "Compare names with =, !=, <, <=, >, >= or ~ (contains). A name alone must not be empty or 0. Combine conditions with and, or, not and parentheses. Put values with spaces in quotation marks."),
    el("div", { class: "filter-names", tabindex: "0", role: "region", "aria-label": "Names in filters" }, el("dl", { class: "names" }, Object.entries(FIELDS).flatMap(([name, { about }]) => [el("dt", null, el("code", null, name.endsWith(".") ? `${name}NAME` : name)), el("dd", null, about)]))),
  ];
}
