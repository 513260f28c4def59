// @ts-check
// All runs: #/?q=text&s=-cost

import { announce, button, el, show, typedInput } from "./dom.js";
import { formatCount, formatTime, plural, runName } from "./format.js";
import { address, go, placeOf } from "./router.js";
import { RunsTable } from "./runs_table.js";
import { trendCard } from "./runs_trend.js";

/** @typedef {import("./types.js").RunHead} RunHead */
/** @typedef {import("./types.js").Source} Source */

const TREND_MS = 500;
const POLL_MS = 3000;

/** @type {import("./app.js").Page} */
export const page = {
  matches: (parts) => parts.length === 0,
  async open({ source }, place) {
    const { runs } = await source.runs();
    const list = new RunsPage(source, runs, place.query);
    // Rather a moment later than a list that jumps.
    await Promise.race([list.trendLoaded, new Promise((done) => setTimeout(done, TREND_MS))]);
    return { element: list.element, title: "Runs", trail: [], keys: list.keys(), update: (next) => list.update(next.query), close: () => list.close() };
  },
};

class RunsPage {
  /**
   * @param {Source} source
   * @param {RunHead[]} runs
   * @param {Record<string, string>} query
   */
  constructor(source, runs, query) {
    this.source = source;
    this.query = query;
    this.isServer = source.kind === "server";
    this.known = "";
    this.followed = "";
    this.stop = () => {};
    /** @type {Promise<void>} */
    this.trendLoaded = Promise.resolve();
    this.lead = el("p", { class: "lead" });
    this.trend = el("div");
    this.search = typedInput({ placeholder: "Name, suite, target, note, status", "aria-label": "Filter runs", "aria-keyshortcuts": "/" }, (text) => go(this.to({ q: text }), { replace: true }));
    this.found = el("span", { class: "muted" });
    this.compare = el("div", { class: "compare-bar" });
    this.list = new RunsTable((sort) => this.to({ s: sort }), this.isServer ? () => this.showCompare() : null);
    this.body = el("div", { class: "cards" }, this.trend, el("div", { class: "filter-bar no-print" }, this.search, this.found, this.compare), this.list.table.element);
    this.empty = el("p", { class: "card" }, "There are no runs yet. They are shown here as soon as ", el("code", null, "agentv eval evals/"), " records some in .agentv/runs.");
    this.element = el("section", { class: "page runs" }, el("h1", null, "Runs"), this.lead, this.body, this.empty);
    this.search.value = query.q ?? "";
    this.setRuns(runs);
    this.showCompare();
    this.polling = this.isServer ? window.setInterval(() => this.poll(), POLL_MS) : 0;
  }

  /** @param {Record<string, string|null>} change */
  to(change) {
    return address([], { ...this.query, ...change });
  }

  /** @param {Record<string, string>} query */
  update(query) {
    this.query = query;
    if (document.activeElement !== this.search) this.search.value = query.q ?? "";
    this.showRows();
    announce(`${plural(this.list.table.rows.length, "run")} shown`);
    return true;
  }

  /** @param {RunHead[]} runs */
  setRuns(runs) {
    this.list.setRuns(runs);
    this.body.hidden = !runs.length;
    this.empty.hidden = runs.length > 0;
    this.lead.textContent = runs.length ? summary(runs) : "";
    this.showRows();
    const running = (this.isServer && runs.find((run) => run.status === "running")?.address) || "";
    if (running !== this.followed) this.follow(running);
    const known = runs.map((run) => run.address + run.status).join();
    if (known !== this.known) this.trendLoaded = this.showTrend();
    this.known = known;
  }

  showRows() {
    const { q = "", s = "" } = this.query;
    this.list.show(q, s);
    this.found.textContent = q && `${formatCount(this.list.table.rows.length)} of ${plural(this.list.runs.length, "run")}`;
  }

  async showTrend() {
    try {
      const { lines } = await this.source.trend();
      const names = new Map(this.list.runs.map((run) => [run.address, runName(run)]));
      show(this.trend, trendCard(lines, (run) => names.get(run) ?? run));
    } catch (error) {
      show(this.trend, el("p", { class: "note bad" }, `The trend cannot be shown: ${/** @type {Error} */ (error).message}`));
    }
  }

  /** The baseline and the candidate if two runs are selected, or if a file has two. @returns {RunHead[]} */
  chosen() {
    const { runs, selected } = this.list;
    if (this.isServer) return runs.filter((run) => selected.has(run.address)).reverse();
    const main = placeOf(this.source.first ?? "").parts[1];
    return runs.length === 2 ? runs.toSorted((one) => (one.address === main ? 1 : -1)) : [];
  }

  showCompare() {
    const [one, two, ...more] = this.chosen();
    if (two && !more.length) show(this.compare, el("a", { class: "chip primary", href: address(["compare", one.address, two.address]), "aria-keyshortcuts": "c" }, `Compare ${runName(two)} with ${runName(one)}`));
    else show(this.compare, this.isServer && el("span", { class: "muted" }, `Select two runs to compare them${one ? ` (${this.list.selected.size} selected)` : ""}`));
    if (this.list.selected.size) this.compare.append(button("Clear", () => (this.list.selected.clear(), this.list.table.redraw(), this.showCompare()), { class: "quiet" }));
  }

  /** Load the list again. New runs are not inserted while the reader is in the table. */
  async poll() {
    if (document.hidden) return;
    const { table, index } = this.list;
    const isReading = table.frame.scrollTop > 0 || table.hasFocus();
    const { runs } = await this.source.runs().catch(() => ({ runs: this.list.runs })); // The server may be started again.
    this.setRuns(isReading ? runs.filter((run) => index.has(run.address)) : runs);
  }

  /** Show the progress of a run; a browser has few connections for a server. @param {string} run */
  follow(run) {
    this.stop();
    this.followed = run;
    this.list.live = null;
    const show = (/** @type {import("./types.js").LiveState} */ state) => ((this.list.live = state), this.list.table.redraw());
    this.stop = run ? this.source.follow(run, show) : () => {};
  }

  /** @returns {import("./keys.js").Key[]} */
  keys() {
    const { table } = this.list;
    return [
      { key: "j", does: "next run", press: () => table.move(1) },
      { key: "k", does: "previous run", press: () => table.move(-1) },
      { key: "Enter", does: "open the run", press: () => table.open() },
      { key: "x", does: "select the run, or not", press: () => this.list.select(table.current) },
      { key: "c", does: "compare the two selected runs", press: () => this.compare.querySelector("a")?.click() },
      { key: "/", does: "filter the runs", press: () => this.search.focus() },
    ];
  }

  close() {
    window.clearInterval(this.polling);
    this.stop();
    this.list.table.close();
  }
}

/** How many runs there are, and how the latest went. @param {RunHead[]} runs */
function summary([latest, ...older]) {
  const { passed, total, errors, status } = latest;
  const result = passed === null ? status : `${formatCount(passed)} of ${plural(total ?? 0, "case")} passed${errors ? `, ${plural(errors, "error")}` : ""}${status === "finished" ? "" : ` (${status})`}`;
  return `${plural(older.length + 1, "run")}. The latest, ${runName(latest)}, ${formatTime(latest.started_at)}: ${result}.`;
}
