// @ts-check
// The baseline of a run: which one, what changed, and filters for it.

import { changes } from "./against.js";
import { button, el, show } from "./dom.js";
import { formatCount, formatTime, plural, runName } from "./format.js";
import { address } from "./router.js";

/** @typedef {import("./run_model.js").RunModel} RunModel */

/** @type {["newly_failed"|"newly_passed"|"worse"|"better", string, string][]} */
const FILTERS = [["newly_failed", "newly failed", "newly_failed"], ["newly_passed", "newly passed", "newly_passed"], ["worse", "got worse", "delta<0"], ["better", "got better", "delta>0"]];

export class BaselineCard {
  /**
   * @param {RunModel} model
   * @param {(run: string) => void} choose Called with the address of another baseline, or `none`.
   * @param {(text: string) => void} filter Called with the new filter.
   */
  constructor(model, choose, filter) {
    this.model = model;
    this.filter = filter;
    this.select = el("select", { "aria-label": "Baseline", onchange: () => choose(this.select.value) });
    this.body = el("div", { class: "stack" });
    this.element = el("section", { class: "card baseline", "aria-label": "Baseline" }, el("div", { class: "head" }, el("h2", null, "Against"), this.select), this.body);
  }

  /** @param {string|null} run */
  choose(run) {
    const others = this.model.info.baselines.map((head) => [head.address, `${runName(head)}, ${formatTime(head.started_at).slice(0, 10)}`]);
    if (run && !others.some(([value]) => value === run)) others.unshift([run, run]);
    show(this.select, [["none", "no baseline"], ...others].map(([value, label]) => el("option", { value }, label)));
    this.select.value = run ?? "none";
    this.element.hidden = !others.length;
    this.tell(run ? "Loading the baseline." : "No baseline is chosen.");
  }

  /** @param {string} message */
  tell(message) {
    show(this.body, el("p", { class: "muted" }, message));
  }

  /** @param {import("./case_list.js").CaseList} list */
  update({ against, filter }) {
    if (!against) return;
    const counts = changes(this.model, against);
    const { worse, better, both, only_here: added } = counts;
    show(
      this.body,
      el("p", null, both ? `Of ${plural(both, "case")} that both runs scored, ${formatCount(better)} got better and ${formatCount(worse)} got worse.` : "No case was scored in both runs.", added > 0 && ` ${plural(added, "new case")}.`),
      el(
        "div",
        { class: "chips no-print" },
        FILTERS.filter(([name]) => counts[name]).map(([name, label, term]) => button(`${label} ${formatCount(counts[name])}`, () => this.filter(filter.toggled(term, [term])), { class: "chip", "aria-pressed": String(!!filter.among([term])) })),
      ),
      both > 0 && el("p", null, el("a", { href: address(["compare", against.model.run, this.model.run]) }, "Is it more than chance? Compare the runs")),
    );
  }
}
