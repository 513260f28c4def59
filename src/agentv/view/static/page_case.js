// @ts-check
// One case of a run: what was asked and answered, why it has its score, and every judge call.

import { announce, button, copy, el, show } from "./dom.js";
import { caseHead, thresholdOf, verdictLine } from "./case_head.js";
import { historyView } from "./case_history.js";
import { neighbours } from "./case_order.js";
import { commandsView } from "./case_share.js";
import { answerView, contextView, expectedView, questionView } from "./case_texts.js";
import { timesView } from "./case_times.js";
import { allRecords, allResults, evaluatorView } from "./evaluator_view.js";
import { formatCount, runName } from "./format.js";
import { judgeCall } from "./judge_call.js";
import { fold, jumpTo, openFold, unfold } from "./letters.js";
import { address, go } from "./router.js";
import { byLoss, isLoss, pointsTable } from "./score_view.js";
import { trajectory } from "./steps.js";
import { pretty } from "./text_view.js";
import { conversationView } from "./turns_view.js";

/** @typedef {import("./types.js").Detail} Detail */
/** @typedef {import("./types.js").JudgeCall} JudgeCall */
/** @typedef {import("./app.js").View} View */
/** @typedef {import("./run_model.js").RunModel} RunModel */
/** @typedef {import("./router.js").Place} Place */
/** @typedef {import("./case_order.js").Neighbours} Neighbours */

const HISTORY_MS = 120;

/** @type {import("./app.js").Page} */
export const page = {
  matches: (parts) => parts[0] === "run" && parts[2] === "case" && parts.length === 7,
  async open(view, place) {
    const [, run, , suite, evalId, target, attempt] = place.parts;
    const model = await view.runs.early(run);
    const load = async () => {
      const index = model.indexOf(suite, evalId, target, Number(attempt));
      if (index < 0) throw new Error(`Run ${run} has no case "${evalId}" of suite "${suite}" with target "${target}" and attempt ${attempt}.`);
      return { index, detail: await model.detail(index) };
    };
    const { index, detail } = await load().catch(async (error) => {
      if (view.source.kind === "file") throw error;
      await model.catchUp(); // Rows may have been added or replaced since they were loaded.
      return load();
    });
    if (!detail) await view.runs.complete(model); // Its question and reason are shown instead.
    return new CasePage(view, model, index, detail, place).opened();
  },
};

/** The judge calls of the row, not of rows that it replaced. @param {Detail} detail */
function latestCalls({ judge_calls: calls, execution }) {
  const latest = execution ?? Math.max(1, ...calls.map((call) => call.execution ?? 1));
  return calls.filter((call) => (call.execution ?? 1) === latest);
}

class CasePage {
  /**
   * @param {View} view
   * @param {RunModel} model
   * @param {number} index
   * @param {Detail|null} detail
   * @param {Place} place
   */
  constructor(view, model, index, detail, place) {
    this.view = view;
    this.model = model;
    this.index = index;
    this.place = place;
    // The filter and order of the run page, which links to other cases keep.
    const { evaluator, call, step, turn, ...list } = place.query;
    this.list = list;
    this.timer = 0;
    /** @type {HTMLDetailsElement[]} */
    this.evaluators = [];
    /** @type {JudgeCall[]} */
    this.calls = [];
    this.commands = detail?.commands ?? [];
    this.results = detail?.row.evaluator_results ?? [];
    this.nav = el("nav", { class: "case-nav no-print", "aria-label": "Cases" });
    this.conversation = detail && conversationView(detail, { calls: latestCalls(detail), href: this.evaluatorAddress, to: (state) => this.here(state) });
    this.steps = this.conversation ? null : detail && trajectory(detail.row.output_messages, (number) => this.here({ step: number }));
    this.isOpen = false;
    this.element = el("section", { class: "page case" }, el("div", { class: "head" }, el("h1", { class: "mono" }, model.eval_id.at(index)), this.nav), detail ? this.cards(detail) : this.columnsOnly());
    this.near = neighbours(view.runs, model, index, list);
  }

  /** @returns {import("./app.js").OpenPage} */
  opened() {
    const { model, list } = this;
    void this.near.then((near) => this.showNeighbours(near));
    const named = this.find(this.place.query);
    // After the page is shown; if the reader came back, the position is restored instead.
    if (named && history.state?.scroll === undefined) requestAnimationFrame(() => jumpTo(named));
    // The first frame draws what is in view, the next one all cards: then nothing moves while the reader scrolls.
    else if (!history.state?.scroll) {
      this.element.classList.add("first-frame");
      requestAnimationFrame(() => setTimeout(() => this.element.classList.remove("first-frame")));
    }
    return {
      element: this.element,
      title: model.eval_id.at(this.index),
      trail: [
        { label: "Runs", to: address([]) },
        { label: runName(model.info.head), to: address(["run", model.run], list) },
      ],
      keys: this.keys(),
      update: (place) => {
        const other = this.find(place.query);
        if (other) jumpTo(other);
        return true;
      },
      close: () => clearTimeout(this.timer),
    };
  }

  /** @param {Detail} detail */
  cards(detail) {
    const { row, case: record } = detail;
    const score = this.scoreCard(detail);
    const times = timesView(row, this.calls, this.evaluatorAddress);
    const card = (/** @type {string} */ title, /** @type {import("./dom.js").Child[]} */ ...children) => el("section", { class: "card" }, el("h2", null, title), children);
    return [
      ...caseHead(this.model, this.index, detail, this.list),
      this.conversation ?? el("div", { class: "beside" }, questionView(record), el("div", { class: "cards" }, answerView(row), contextView(record?.metadata ?? row.metadata ?? {}))),
      ...(this.conversation ? [expectedView(record), contextView(record?.metadata ?? row.metadata ?? {})] : []),
      score,
      this.steps && card("Trajectory", el("p", { class: "muted" }, this.steps.summary), this.steps),
      times && card("Time", times),
      card("History", this.history(detail)),
      card("Commands", commandsView(detail), el("p", { class: "no-print" }, button("Copy case as JSON", () => copy(pretty(detail), "Case")))),
    ];
  }

  /** @param {Detail} detail */
  scoreCard(detail) {
    const { row, judge_calls: calls, arithmetic } = detail;
    this.calls = latestCalls(detail);
    const records = allRecords(detail.case?.evaluators);
    this.evaluators = byLoss(this.results).map(({ result, lost }) => evaluatorView(result, { records, calls: this.calls, lost, open: Boolean(result.error) || result.verdict !== "pass" || isLoss(lost), href: this.evaluatorAddress, turn: (turn) => this.here({ turn }) }));
    const known = allResults(this.results).map((result) => result.name);
    const others = (/** @type {string} */ title, /** @type {JudgeCall[]} */ rest) => rest.length > 0 && fold(`${title}: ${rest.length}`, () => rest.map((call) => judgeCall(call, { named: true })));
    return el(
      "section",
      { class: "card" },
      el("h2", null, "How the score was made"),
      arithmetic.map((sentence) => el("p", null, sentence)),
      this.evaluators.length > 1 && el("div", { class: "scroll" }, pointsTable(row, thresholdOf(detail))),
      el("div", { class: "evaluators" }, this.evaluators),
      others("Other judge calls", this.calls.filter((call) => !known.includes(call.evaluator))),
      others("Judge calls of earlier executions, which were replaced after an error", calls.filter((call) => !this.calls.includes(call))),
    );
  }

  /** @param {Detail} detail */
  history({ row }) {
    const { source } = this.view;
    const body = el("div", { class: "history" }, el("p", { class: "muted" }, "Loading…"));
    const load = async () => {
      const [entries, { runs }] = await Promise.all([source.history(this.model.run, this.index), source.runs()]);
      show(body, historyView(entries, row, (address) => runs.some((run) => run.address === address)));
    };
    // Other runs are searched for it, which is not worth it for a reader who is already at the next case.
    const begin = () => {
      // The page that is being opened must not wait for it.
      if (this.element.closest("[aria-busy]")) this.timer = window.setTimeout(begin, HISTORY_MS);
      else void this.loadNext().then(load).catch((error) => show(body, `The history cannot be shown: ${error.message}`));
    };
    this.timer = window.setTimeout(begin, HISTORY_MS);
    return body;
  }

  /** Load the cases to which j and n lead. */
  async loadNext() {
    const { after, failing } = await this.near;
    this.model.ahead(after);
    this.model.ahead(failing);
  }

  /** What the columns of the run know, if the file does not have the row. */
  columnsOnly() {
    const { model, index } = this;
    const command = `agentv report ${model.run} --format html --with all -o report.html`;
    return [
      verdictLine(model.outcome[index], model.score[index], model.threshold[index]),
      el("p", { class: "lead" }, model.question.at(index)),
      el("p", null, model.reason.at(index)),
      el("p", { class: "note" }, "This file does not contain the answer and the judge calls of this case. To get them, open the run with ", el("code", null, "agentv view"), ", or write the file with all cases:"),
      commandsView({ commands: [{ title: "with all cases", command }] }),
    ];
  }

  /** The address of this page with another state. @param {Record<string, string|number|undefined>} state */
  here(state) {
    return address(this.place.parts, { ...this.list, ...state });
  }

  /** @type {(evaluator: string, call?: number) => string} */
  evaluatorAddress = (evaluator, call) => this.here({ evaluator, call });

  /**
   * The turn, step, evaluator or judge call that the address names, which is opened.
   * @param {Record<string, string>} query
   * @returns {HTMLElement|null}
   */
  find({ step, turn, evaluator, call }) {
    if (turn) return this.conversation?.turn(Number(turn)) ?? null;
    if (step) return (this.conversation ?? this.steps)?.built(Number(step)) ?? null;
    // Without an evaluator, calls are counted over all of them, as in `agentv show`.
    const counted = evaluator ? null : this.calls[Number(call) - 1];
    const wanted = evaluator ?? counted?.evaluator;
    /** @type {HTMLElement|null} */
    let found = null;
    const open = (/** @type {Element} */ root, /** @type {string} */ selector) => {
      const details = /** @type {HTMLDetailsElement|null} */ (root.querySelector(selector));
      if (details) openFold((found = details));
    };
    // Composites are opened before their members, which are built then.
    for (const result of allResults(this.results)) {
      if (allResults([result]).some((one) => one.name === wanted)) open(this.element, `[data-evaluator="${CSS.escape(result.name)}"]`);
    }
    if (found && call) open(found, `:scope > .fold-body > [data-call="${CSS.escape(String(counted?.index ?? call))}"]`);
    return found;
  }

  /** @param {Neighbours} near */
  showNeighbours({ before, after, failing, place, count }) {
    const { model } = this;
    const link = (/** @type {number|undefined} */ row, /** @type {string} */ text, /** @type {string} */ key) =>
      row === undefined ? el("span", { class: "muted" }, text) : el("a", { href: model.caseAddress(row, this.list), "aria-keyshortcuts": key, title: `${model.eval_id.at(row)} (${key})` }, text);
    show(this.nav, link(before, "← Previous", "k"), el("span", { class: "muted" }, `${place < 0 ? "not one" : formatCount(place + 1)} of ${formatCount(count)}`), link(after, "Next →", "j"), link(failing, "Next failing", "n"));
  }

  /** @returns {import("./keys.js").Key[]} */
  keys() {
    const { model, index, evaluators, commands } = this;
    const { cases } = model;
    const rows = cases.rows(cases.of[index]);
    const to = (/** @type {(near: Neighbours) => number|undefined} */ row) => async () => {
      const at = row(await this.near);
      if (at === undefined) announce("There are no more");
      else go(model.caseAddress(at, this.list));
    };
    const attempt = (/** @type {number} */ by) => to(() => rows[rows.indexOf(index) + by]);
    return [
      { key: "j", does: "next case", press: to((near) => near.after) },
      { key: "k", does: "previous case", press: to((near) => near.before) },
      { key: "n", does: "next case that did not pass", press: to((near) => near.failing) },
      ...(rows.length > 1 ? [{ key: "ArrowRight", does: "next attempt", press: attempt(1) }, { key: "ArrowLeft", does: "previous attempt", press: attempt(-1) }] : []),
      ...evaluators.slice(0, 9).map((evaluator, i) => ({ key: String(i + 1), does: `evaluator ${evaluator.dataset.evaluator}`, press: () => (openFold(evaluator), jumpTo(evaluator)) })),
      { key: "e", does: "expand or collapse everything", press: () => unfold(this.element, (this.isOpen = !this.isOpen)) },
      { key: "c", does: "copy the command that runs this case again", press: () => commands[0] && copy(commands[0].command, "Command") },
    ];
  }
}
