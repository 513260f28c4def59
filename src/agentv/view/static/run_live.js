// @ts-check
// The state of a run that is being written: how far it is, and what it spends.

import { commandsView } from "./case_share.js";
import { el, show } from "./dom.js";
import { facts } from "./facts.js";
import { formatCost, formatCount, formatDuration, formatPercent, plural } from "./format.js";

/** @typedef {import("./run_model.js").RunModel} RunModel */
/** @typedef {import("./types.js").LiveState} LiveState */

/** Why a run that is not being written is not finished, in words. @type {Record<string, string>} */
const STOPPED = {
  interrupted: "This run was interrupted: the process that wrote it ended before all cases were run.",
  "out of budget": "This run stopped because its budget was used up.",
  partial: "This run was merged from shards of which some are missing or incomplete.",
  broken: "The record of this run is damaged.",
};

export class LiveCard {
  /** @param {RunModel} model */
  constructor(model) {
    this.model = model;
    this.element = el("section", { class: "card live", "aria-label": "Progress" });
    this.update(null);
  }

  /** @param {LiveState|null} state null if it is not known yet. */
  update(state) {
    const { info } = this.model;
    const status = state?.status ?? info.head.status;
    const isRunning = status === "running";
    this.element.hidden = status === "finished";
    const commands = isRunning ? [] : info.commands.filter(({ title }) => title.startsWith("resume"));
    show(
      this.element,
      el("p", null, el("strong", null, isRunning ? "Running" : (STOPPED[status] ?? `This run ${status}.`)), isRunning && state?.eta_seconds ? `, about ${formatDuration(state.eta_seconds)} left` : ""),
      this.progress(state),
      isRunning && state && spending(state),
      commands.length > 0 && commandsView({ commands }),
    );
  }

  /** @param {LiveState|null} state */
  progress(state) {
    const { rows, planned } = state ?? { rows: this.model.count, planned: this.model.info.planned };
    if (!planned) return el("p", null, `${plural(rows, "row")} written.`);
    return el("p", null, el("progress", { max: planned, value: rows, "aria-label": "Rows written" }), ` ${formatCount(rows)} of ${plural(planned, "row")} (${formatPercent(rows / planned)})`);
  }
}

/** @param {LiveState} state */
function spending({ spent_usd: usd, limit_usd: limit, judge_calls: calls, limit_calls: most }) {
  return facts([
    ["Spent", limit === null ? formatCost(usd) : `${formatCost(usd)} of ${formatCost(limit)}`],
    ["Judge calls", most === null ? calls && formatCount(calls) : `${formatCount(calls)} of ${formatCount(most)}`],
  ]);
}
