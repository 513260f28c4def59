// @ts-check
// The labels of a run while answers are reviewed: those of the reviewer, those of others, and those that are not saved.

import { sha256 } from "./hash.js";

/** @typedef {import("./types.js").Label} Label */
/** @typedef {import("./types.js").Source} Source */
/** @typedef {import("./run_model.js").RunModel} RunModel */

const NAME = "agentv-reviewer";

/**
 * A label of the reviewer that is being saved, or could not be saved.
 * @typedef {Object} Pending
 * @property {number} row
 * @property {Label} label
 * @property {string} answer
 * @property {string} problem '' while it is being saved.
 */

export class ReviewLabels {
  /**
   * @param {Source} source
   * @param {RunModel} model
   * @param {() => void} changed
   */
  constructor(source, model, changed) {
    this.source = source;
    this.model = model;
    this.changed = changed;
    this.by = "";
    /** @type {Map<number, Label[]>} By row. */
    this.saved = new Map();
    /** @type {Map<number, Pending>} */
    this.pending = new Map();
    /** @type {Promise<void>} */
    this.saving = Promise.resolve();
  }

  async open() {
    const [user, labels] = await Promise.all([this.source.user(), this.source.labels(this.model.run)]);
    for (const label of labels) {
      // Labels of an earlier answer of the row are not used.
      if (label.current !== false) this.add(this.model.indexOf(label.suite, label.eval_id, label.target, label.attempt), label);
    }
    try {
      this.by = localStorage.getItem(NAME) || user;
    } catch {
      // A file may not have storage.
    }
  }

  /** @param {number} row @param {Label} label */
  add(row, label) {
    this.saved.set(row, [...this.of(row).filter((other) => other.by !== label.by), label]);
  }

  /** @param {string} name */
  rename(name) {
    this.by = name.trim().replace(/\s+/g, " ");
    try {
      localStorage.setItem(NAME, this.by);
    } catch {
      // See above.
    }
  }

  /** The label of the reviewer for the answer of a row. @param {number} row */
  mine(row) {
    const label = this.pending.get(row)?.label ?? this.of(row).find(({ by }) => by === this.by);
    return label?.label ? label : null;
  }

  /** What other people say about the answer of a row. @param {number} row */
  others(row) {
    return this.of(row).filter(({ by, label }) => label && by !== this.by);
  }

  /** @param {number} row */
  of(row) {
    return this.saved.get(row) ?? [];
  }

  /** How many rows the reviewer has labelled. */
  get count() {
    return [...new Set([...this.saved.keys(), ...this.pending.keys()])].filter((row) => this.mine(row)).length;
  }

  /** Labels that could not be saved. */
  get failed() {
    return [...this.pending.values()].filter((one) => one.problem);
  }

  /**
   * Label a row, or remove the label. What the page shows changes immediately; labels are sent one after the other.
   * @param {number} row
   * @param {Label["label"]} said
   * @param {string} note
   * @param {string} answer
   */
  give(row, said, note, answer) {
    const { model } = this;
    /** @type {Label} */
    const label = { suite: model.suiteOf(row), eval_id: model.eval_id.at(row), target: model.targetOf(row), attempt: model.attempt[row], label: said, note, by: this.by, at: "", answer_sha256: "" };
    this.send({ row, label, answer, problem: "" });
  }

  /** Try again to save everything that could not be saved. */
  retry() {
    for (const pending of this.failed) this.send(pending);
  }

  /** @param {Pending} pending */
  send(pending) {
    const { row, label, answer } = pending;
    pending.problem = "";
    this.pending.set(row, pending);
    this.saving = this.saving.then(async () => {
      if (this.pending.get(row) !== pending) return; // a later one replaces it
      try {
        label.answer_sha256 = await sha256(answer);
        const saved = await this.source.addLabel(this.model.run, label);
        this.add(row, saved);
        if (this.pending.get(row) === pending) this.pending.delete(row);
        if (label.by === this.by) this.by = saved.by; // the server may have cleaned it
      } catch (error) {
        pending.problem = error instanceof Error ? error.message : String(error);
      }
      this.changed();
    });
  }
}
