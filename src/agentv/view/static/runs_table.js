// @ts-check
// One line per run.

import { el } from "./dom.js";
import { formatCost, formatCount, formatDuration, formatReach, formatScore, formatTime, runName } from "./format.js";
import { visible } from "./letters.js";
import { rateBar } from "./marks.js";
import { address, go } from "./router.js";
import { nextSort, sortedBy } from "./sorting.js";
import { Table } from "./table.js";

/** @typedef {import("./types.js").RunHead} RunHead */
/** @typedef {import("./dom.js").Child} Child */
/** @typedef {import("./table.js").Column & {value: (run: RunHead) => string|number|null}} RunsColumn */

/** The share of scored cases that passed: errors are not failures. @param {RunHead} run */
function passRate({ passed, borderline, failed }) {
  return passed === null ? null : passed / (passed + (borderline ?? 0) + (failed ?? 0)) || 0;
}

export class RunsTable {
  /**
   * @param {(sort: string|null) => string} to The address with another order.
   * @param {(() => void)|null} onSelect Called when a run was selected, or not any more; null if runs cannot be.
   */
  constructor(to, onSelect) {
    /** @type {RunHead[]} Newest first. */
    this.runs = [];
    /** @type {Map<string, number>} */
    this.index = new Map();
    /** @type {Set<string>} */
    this.selected = new Set();
    /** @type {import("./types.js").LiveState|null} Of the run that is being followed. */
    this.live = null;
    this.sort = "";
    const number = { number: true };
    /** @type {(id: string, title: string, width: number, value: RunsColumn["value"], cell: (run: RunHead) => Child|Child[], more?: Partial<RunsColumn>) => RunsColumn} */
    const column = (id, title, width, value, cell, more) => ({ id, title, width, value, ...more, cell: (i) => cell(this.runs[i]) });
    const box = (/** @type {RunHead} */ run) => {
      const input = el("input", { type: "checkbox", class: "no-print", tabindex: "-1", "aria-label": "Select", onchange: () => this.select(run.address) });
      input.checked = this.selected.has(run.address);
      return input;
    };
    this.onSelect = onSelect;
    this.columns = [
      ...(onSelect ? [column("selected", "", 1.25, () => null, box, { about: "Selected" })] : []),
      column("run", "Run", 10.5, runName, nameCell, { grow: 3 }),
      column("status", "Status", 7.25, (run) => run.status, (run) => el("span", { class: `status ${run.status.replaceAll(" ", "-")}` }, run.status, run.status === "running" && this.live && ` ${formatCount(this.live.rows)}/${formatCount(this.live.planned)}`)),
      column("when", "Started", 8, (run) => run.started_at, (run) => formatTime(run.started_at)),
      column("what", "Suites · targets", 6.5, what, (run) => visible(what(run)), { grow: 2 }),
      column("passed", "Passed", 8.5, passRate, (run) => (run.passed === null ? "–" : el("span", { class: "passed-cell" }, `${formatCount(run.passed)}/${formatCount(run.total)}`, rateBar(passRate(run), run.pass_interval))), { ...number, about: "Passed cases, and the pass rate of scored cases with its 95% interval" }),
      column("mean", "Mean", 5.5, (run) => run.mean_score, (run) => `${formatScore(run.mean_score)}${formatReach(run.mean_score, run.mean_interval)}`, { ...number, about: "Mean score with its 95% interval" }),
      column("errors", "Errors", 3.25, (run) => run.errors, (run) => el("span", { class: run.errors ? "verdict error" : null }, formatCount(run.errors)), number),
      column("cost", "Cost", 4.25, (run) => run.cost_usd, (run) => `${run.cost_complete || run.cost_usd === null ? "" : "≥"}${formatCost(run.cost_usd)}`, { ...number, about: "Targets and judges; ≥ if some of it is unknown" }),
      column("calls", "Calls", 3, (run) => run.judge_calls, (run) => formatCount(run.judge_calls), { ...number, about: "Judge calls" }),
      column("time", "Time", 4.5, (run) => run.duration_seconds, (run) => formatDuration(run.duration_seconds), number),
      column("commit", "Commit", 5, commit, (run) => el("code", { title: run.git?.branch }, commit(run))),
      column("version", "agentv", 3.75, (run) => run.agentv, (run) => run.agentv),
    ];
    this.table = new Table({
      label: "Runs",
      noun: "run",
      columns: this.columns,
      key: (i) => this.runs[i].address,
      find: (key) => this.index.get(key) ?? -1,
      href: (i) => address(["run", this.runs[i].address]),
      onSort: (id) => go(to(nextSort(this.sort, id)), { replace: true }),
    });
  }

  /** @param {RunHead[]} runs */
  setRuns(runs) {
    this.runs = runs;
    this.index = new Map(runs.map((run, i) => [run.address, i]));
    const columns = this.columns.filter(({ id }) => id !== "commit" || runs.some(commit));
    if (columns.length !== this.table.columns.length) this.table.setColumns(columns);
  }

  /** Select a run, or not. @param {string|null} run */
  select(run) {
    if (run === null || !this.onSelect) return;
    if (!this.selected.delete(run)) this.selected.add(run);
    this.table.redraw();
    this.onSelect();
  }

  /**
   * Show the runs that match all words, in some order.
   * @param {string} text
   * @param {string} sort
   */
  show(text, sort) {
    const words = text.toLowerCase().split(/\s+/);
    const matching = [...this.runs.keys()].filter((i) => words.every((word) => described(this.runs[i]).includes(word)));
    const column = this.columns.find(({ id }) => id === sort.replace(/^-/, ""));
    const isDescending = sort.startsWith("-");
    this.sort = sort;
    this.table.setSort(column?.id ?? "", isDescending);
    this.table.setRows(column ? sortedBy(matching, (i) => column.value(this.runs[i]), isDescending) : Uint32Array.from(matching));
  }
}

/** @param {RunHead} run */
function what({ suites, targets }) {
  return `${suites.join(", ")} · ${targets.join(", ")}`;
}

/** @param {RunHead} run */
function commit({ git }) {
  return git?.commit ? git.commit.slice(0, 7) + (git.dirty ? "*" : "") : "";
}

/** @param {RunHead} run */
function marks(run) {
  return [run.scripted && "scripted", run.replayed !== null && "replayed"].filter(Boolean);
}

/** What is said about a run. @param {RunHead} run */
function remarks(run) {
  return [run.problem, run.experiment, run.note].filter(Boolean).join("; ");
}

/** All that a run can be found by. @param {RunHead} run */
function described(run) {
  return [run.name, run.address, remarks(run), run.status, commit(run), run.git?.branch, what(run), ...marks(run)].join("\n").toLowerCase();
}

/** @param {RunHead} run */
function nameCell(run) {
  return [
    el("a", { href: address(["run", run.address]), tabindex: "-1" }, visible(runName(run))),
    ...marks(run).flatMap((mark) => [" ", el("span", { class: "badge" }, mark)]),
    " ",
    el("span", { class: run.problem ? "problem" : "muted" }, visible(remarks(run))),
  ];
}
