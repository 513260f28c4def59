// @ts-check
// Labels of people, one answer after the other in random order: #/run/ID/review?row=12
// Verdicts, scores and labels of others are not in the page until the answer is labelled.

import { answerView, contextView, expectedView, questionView } from "./case_texts.js";
import { announce, button, el, set, show } from "./dom.js";
import { formatCount, plural, runName } from "./format.js";
import { fold } from "./letters.js";
import { keptInFile } from "./review_file.js";
import { ReviewLabels } from "./review_labels.js";
import { reviewRows } from "./review_rows.js";
import { agreement, judgedView } from "./review_verdict.js";
import { address, go } from "./router.js";
import { trajectory } from "./steps.js";
import { conversationView } from "./turns_view.js";

/** @typedef {import("./types.js").Detail} Detail */
/** @typedef {import("./types.js").Label["label"]} Said */

/** @type {[Said, string][]} */
const CHOICES = [["pass", "Pass"], ["fail", "Fail"], ["unsure", "Unsure"]];

/** @type {import("./app.js").Page} */
export const page = {
  matches: (parts) => parts[0] === "run" && parts[2] === "review" && parts.length === 3,
  async open(view, place) {
    const review = new ReviewPage(view, await view.runs.get(place.parts[1]), place);
    await review.labels.open();
    await review.update(place);
    return review.opened();
  },
};

class ReviewPage {
  /**
   * @param {import("./app.js").View} view
   * @param {import("./run_model.js").RunModel} model
   * @param {import("./router.js").Place} place
   */
  constructor(view, model, place) {
    this.source = view.source;
    this.model = model;
    this.place = place;
    this.labels = new ReviewLabels(view.source, model, () => this.render());
    this.rows = reviewRows(model);
    this.at = -1;
    /** @type {Detail|null} */
    this.detail = null;
    /** @type {Map<number, string>} Notes that were typed and are not saved. */
    this.drafts = new Map();
    this.done = el("p", { class: "review-done muted", role: "status" });
    this.count = el("span", { class: "muted" });
    this.body = el("div", { class: "review-body" });
    this.verdict = el("div");
    this.saving = el("div");
    this.note = el("textarea", { rows: "2", maxlength: "2000", "aria-label": "Note", placeholder: "Why? (optional)", oninput: () => this.drafts.set(this.row, this.note.value), onchange: () => this.saveNote() });
    this.name = el("input", { maxlength: "80", autocomplete: "off", onchange: () => (this.labels.rename(this.name.value), this.render()) });
    this.choices = CHOICES.map(([said, label]) => button(label, () => this.say(said), { class: `choice ${said}`, "aria-keyshortcuts": label[0].toLowerCase() }));
    this.removal = button("Remove", () => this.say(null), { class: "quiet", "aria-keyshortcuts": "0" });
    this.back = button("←", () => this.step(-1), { "aria-keyshortcuts": "k", "aria-label": "Previous answer" });
    this.on = button("→", () => this.step(1), { "aria-keyshortcuts": "j", "aria-label": "Next answer" });
    const left = model.count - this.rows.length;
    this.element = el(
      "section",
      { class: "page review" },
      el("div", { class: "head" }, el("h1", null, "Review"), this.count, el("a", { href: address(["run", model.run, "judges"]) }, "Judges"), el("label", { class: "no-print" }, "Your name ", this.name)),
      left > 0 && el("p", { class: "muted" }, `${plural(left, "row")} not shown: no answer, or the same answer to the same case.`),
      this.saving,
      this.body,
      this.verdict,
      el("div", { class: "label-bar no-print", role: "group", "aria-label": "Label of this answer" }, this.done, this.back, this.choices, this.on, this.note, this.removal),
    );
  }

  get row() {
    return this.rows[this.at] ?? -1;
  }

  /** @returns {import("./app.js").OpenPage} */
  opened() {
    const { model } = this;
    const leave = (/** @type {Event} */ event) => void (this.isUnsaved() && event.preventDefault());
    addEventListener("beforeunload", leave);
    return {
      element: this.element,
      title: "Review",
      trail: [
        { label: "Runs", to: address([]) },
        { label: runName(model.info.head), to: address(["run", model.run]) },
      ],
      keys: [
        ...CHOICES.map(([said, label]) => ({ key: label[0].toLowerCase(), does: `label: ${said}`, press: () => this.say(said) })),
        { key: "0", does: "remove the label", press: () => this.say(null) },
        { key: "j", does: "next answer", press: () => this.step(1) },
        { key: "k", does: "previous answer", press: () => this.step(-1) },
        { key: "i", does: "write a note (Escape leaves it)", press: () => this.note.focus() },
      ],
      update: (place) => {
        void this.update(place);
        return true;
      },
      close: () => removeEventListener("beforeunload", leave),
    };
  }

  /** Labels that would be lost with the page. */
  isUnsaved() {
    return this.labels.pending.size > 0 || (this.source.kind === "file" && keptInFile(this.source, this.model.run).unsaved);
  }

  /** Show the answer that the address names, or the first one without a label. @param {import("./router.js").Place} place */
  async update({ query: { row } }) {
    const at = row ? this.rows.indexOf(Number(row)) : this.rows.findIndex((one) => !this.labels.mine(one));
    this.at = Math.max(0, at);
    const shown = this.row;
    this.detail = null;
    let problem = "There are no answers to label.";
    if (shown >= 0) {
      try {
        const detail = await this.model.detail(shown);
        if (shown !== this.row) return;
        this.detail = detail;
        problem = "This file does not contain this answer. Open the run with `agentv view`, or write the file with `--with all`.";
      } catch (error) {
        problem = error instanceof Error ? error.message : String(error);
      }
    }
    show(this.body, this.detail ? this.texts(this.detail) : el("p", { class: "note" }, problem));
    this.note.value = this.drafts.get(shown) ?? this.labels.mine(shown)?.note ?? "";
    this.render();
  }

  /** What was asked, expected and answered: nothing that says how it was judged, and not the names of target and prompt. @param {Detail} detail */
  texts(detail) {
    const { row, case: record } = detail;
    const talk = conversationView(detail, { note: "" });
    if (talk) return [el("h2", { class: "mono" }, row.eval_id), talk, expectedView(record), contextView(record?.metadata ?? row.metadata ?? {})];
    const steps = trajectory(row.output_messages);
    return [
      el("h2", { class: "mono" }, row.eval_id),
      el("div", { class: "beside" }, questionView(record && { ...record, prompt: null }), el("div", { class: "cards" }, answerView(row), steps && el("section", { class: "card" }, fold(`Trajectory: ${steps.summary}`, () => steps)), contextView(record?.metadata ?? row.metadata ?? {}))),
    ];
  }

  /** Draw everything that depends on labels. */
  render() {
    const { labels, row, rows, detail, source } = this;
    const mine = labels.mine(row);
    show(this.count, `${formatCount(labels.count)} of ${formatCount(rows.length)} labelled`);
    if (document.activeElement !== this.name) this.name.value = labels.by;
    this.choices.forEach((choice, i) => {
      set(choice, "aria-pressed", String(mine?.label === CHOICES[i][0]));
      choice.disabled = !detail;
    });
    this.removal.disabled = !mine;
    this.back.disabled = this.at <= 0;
    this.on.disabled = this.at >= rows.length - 1;
    show(this.verdict, detail && mine && judgedView(detail, mine, labels.others(row), this.model.caseAddress(row)));
    const [failed] = labels.failed;
    show(
      this.saving,
      failed && el("p", { class: "note bad", role: "alert" }, `${plural(labels.failed.length, "label")} not saved: ${failed.problem} `, button("Retry", () => labels.retry())),
      source.kind === "file" && keptInFile(source, this.model.run).element,
    );
  }

  /** Label the answer and go to the next one, or remove the label. @param {Said} said */
  say(said) {
    const { row, labels, detail } = this;
    if (!detail || (!said && !labels.mine(row))) return;
    if (!labels.by) {
      announce("Enter your name first: labels are saved with it");
      this.name.focus();
      return;
    }
    labels.give(row, said, said ? this.note.value : "", detail.row.candidate_answer ?? "");
    this.drafts.delete(row);
    const isLast = this.on.disabled;
    show(this.done, `${detail.row.eval_id}: ${said ? `${said}. ${agreement(said, detail)}` : "label removed."}${said && isLast ? " This was the last answer." : ""}`);
    if (said && !isLast) this.step(1);
    else this.render();
  }

  /** @param {number} by */
  step(by) {
    const next = this.rows[this.at + by];
    if (next === undefined) return;
    this.saveNote();
    this.note.blur();
    go(address(this.place.parts, { row: next }), { replace: true });
    announce(`Answer ${this.at + 1} of ${this.rows.length}`);
    scrollTo(0, 0);
  }

  /** Save a note that was changed after its answer was labelled. */
  saveNote() {
    const { row, labels, detail } = this;
    const mine = labels.mine(row);
    if (!mine || !detail || !this.drafts.has(row) || mine.note === this.note.value) return;
    labels.give(row, mine.label, this.note.value, detail.row.candidate_answer ?? "");
    this.drafts.delete(row);
  }
}
