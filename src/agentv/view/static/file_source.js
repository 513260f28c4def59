// @ts-check
// The data of the HTML file: blocks of compressed JSON in inert script elements, opened when a page needs them.

import { sha256 } from "./hash.js";
import { inflated, inflatedText } from "./inflate.js";
import { readColumns } from "./packed_columns.js";

/** @typedef {import("./types.js").Source} Source */
/** @typedef {import("./types.js").Detail} Detail */
/** @typedef {import("./types.js").Label} Label */

/**
 * What the file says about itself, in a block that is not compressed.
 * @typedef {Object} Contents
 * @property {string} version
 * @property {string} first
 * @property {import("./types.js").AboutFile} about
 * @property {{address: string, starts: number[], complete: boolean}[]} runs `starts`: the first row of each block of
 *   details; `complete`: whether all rows have details.
 * @property {[string, string][]} compared Baselines and candidates.
 */

/**
 * A row in a block of details.
 * @typedef {Object} Entry
 * @property {number} row
 * @property {Detail} detail
 * @property {import("./types.js").HistoryEntry[]} history
 * @property {string} [answer_sha256] Of the recorded answer, if the one here is masked.
 */

const KEPT_BLOCKS = 8;

/** @implements {Source} */
export class FileSource {
  constructor() {
    this.kind = /** @type {const} */ ("file");
    /** @type {Contents} */
    this.contents = JSON.parse(new TextDecoder().decode(bytesOf(elementOf("contents"))));
    this.version = this.contents.version;
    this.first = this.contents.first;
    this.about = this.contents.about;
    /** @type {Map<string, Uint8Array<ArrayBuffer>>} */
    this.packed = new Map();
    /** @type {Map<string, Promise<string>>} */
    this.opened = new Map();
    /** @type {Map<string, Label[]>} */
    this.added = new Map();
  }

  /** @param {string} run */
  place(run) {
    const at = this.contents.runs.findIndex((one) => one.address === run);
    if (at < 0) throw new Error(`This file does not contain the run ${run}.`);
    return at;
  }

  runs() {
    return this.json("runs");
  }

  trend() {
    return this.json("trend");
  }

  /** @param {string} run */
  async run(run) {
    return this.json(`info-${this.place(run)}`);
  }

  /**
   * @param {string} run
   * @param {number} [start]
   */
  async columns(run, start = 0) {
    if (start > 0) throw new Error("a file has all rows in one block");
    return readColumns(inflated(await this.bytes(`columns-${this.place(run)}`)));
  }

  /**
   * @param {string} run
   * @param {number} row
   */
  async detail(run, row) {
    return (await this.entry(run, row))?.detail ?? null;
  }

  /**
   * @param {string} run
   * @param {number} row
   */
  async history(run, row) {
    return (await this.entry(run, row))?.history ?? [];
  }

  /**
   * Everything about a row; null if the file does not have it.
   * @param {string} run
   * @param {number} row
   * @returns {Promise<Entry|null>}
   */
  async entry(run, row) {
    const at = this.place(run);
    const starts = this.contents.runs[at]?.starts ?? [];
    const block = starts.findLastIndex((start) => start <= row);
    if (block < 0) return null;
    /** @type {Entry[]} */
    const entries = await this.json(`details-${at}-${block}`);
    return entries.find((entry) => entry.row === row) ?? null;
  }

  /**
   * Rows that contain a text, in upper or lower case.
   * @param {string} run
   * @param {string} text
   * @param {AbortSignal} [signal]
   * @param {(share: number) => void} [progress]
   */
  async search(run, text, signal, progress) {
    const at = this.place(run);
    const { starts = [], complete = true } = this.contents.runs[at] ?? {};
    const needle = text.toLowerCase();
    const written = JSON.stringify(needle).slice(1, -1);
    /** @type {number[]} */
    const rows = [];
    for (let block = 0; block < starts.length; block++) {
      if (signal?.aborted) return { rows, complete: false };
      const json = await inflatedText(await this.bytes(`details-${at}-${block}`));
      // Most blocks are not parsed: the text must be in their JSON, too.
      if (json.toLowerCase().includes(written)) {
        /** @type {Entry[]} */
        const entries = JSON.parse(json);
        for (const { row, detail } of entries) if (mentions([detail.row, detail.case, detail.judge_calls], needle)) rows.push(row);
      }
      progress?.((block + 1) / starts.length);
    }
    return { rows, complete };
  }

  /**
   * @param {string} a
   * @param {string} b
   */
  async compare(a, b) {
    const at = this.contents.compared.findIndex(([one, other]) => one === a && other === b);
    return at < 0 ? null : this.json(`compare-${at}`);
  }

  /** @param {string} run */
  async judges(run) {
    return this.json(`judges-${this.place(run)}`);
  }

  async user() {
    return "";
  }

  /** @param {string} run */
  async labels(run) {
    /** @type {Label[]} */
    const recorded = await this.json(`labels-${this.place(run)}`);
    const all = new Map(recorded.map((label) => [labelKey(label), label]));
    for (const label of this.added.get(run) ?? []) {
      all.delete(labelKey(label));
      if (label.label !== null) all.set(labelKey(label), label);
    }
    return [...all.values()];
  }

  /**
   * Keep a label until the page is closed; `savedLabels` has it.
   * @param {string} run
   * @param {Label} label
   */
  async addLabel(run, label) {
    const saved = { ...label, at: new Date().toISOString(), answer_sha256: await this.answerHash(run, label), current: true };
    this.added.set(run, [...(this.added.get(run) ?? []), saved]);
    return saved;
  }

  /**
   * The hash of the answer that is labelled.
   * @param {string} run
   * @param {Label} label
   */
  async answerHash(run, label) {
    const columns = await this.columns(run); // without questions, which are not needed
    const [suite, wanted, target] = [columns.suites.indexOf(label.suite), columns.eval_id.find(label.eval_id), columns.targets.indexOf(label.target)];
    const row = columns.eval_id.index.findIndex((/** @type {number} */ id, /** @type {number} */ at) => id === wanted && columns.suite[at] === suite && columns.target[at] === target && columns.attempt[at] === label.attempt);
    const entry = await this.entry(run, row);
    if (!entry) throw new Error("This file does not have the answer, so it cannot be labelled.");
    if (entry.answer_sha256) return entry.answer_sha256;
    return sha256(entry.detail.row.candidate_answer ?? "");
  }

  /**
   * The labels that were added in this page, as lines of labels.jsonl.
   * @param {string} run
   */
  savedLabels(run) {
    return (this.added.get(run) ?? []).map(({ current, ...label }) => `${JSON.stringify(label)}\n`).join("");
  }

  follow() {
    return () => {};
  }

  /**
   * The JSON of a small block, which is opened once.
   * @param {string} id
   */
  async json(id) {
    return JSON.parse(await this.text(id));
  }

  /**
   * The text of a block. A few that were opened last are kept.
   * @param {string} id
   */
  text(id) {
    const text = this.opened.get(id) ?? this.bytes(id).then(inflatedText);
    this.opened.delete(id);
    this.opened.set(id, text);
    for (const old of this.opened.keys()) {
      if (this.opened.size <= KEPT_BLOCKS) break;
      this.opened.delete(old);
    }
    return text;
  }

  /**
   * The compressed bytes of a block. Its element is removed when it is read.
   * @param {string} id
   */
  async bytes(id) {
    let bytes = this.packed.get(id);
    if (!bytes) {
      const element = await arrived(id);
      bytes = this.packed.get(id) ?? bytesOf(element);
      this.packed.set(id, bytes);
    }
    return bytes;
  }
}

/**
 * The element of a block, when the parser has read all of it: the script starts before most blocks are there.
 * @param {string} id
 */
async function arrived(id) {
  while (document.readyState === "loading" && !found(id)) await new Promise((done) => setTimeout(done, 20));
  return elementOf(id);
}

/** @param {string} id */
function elementOf(id) {
  const element = found(id);
  if (!element) throw new Error(`This file is incomplete: it has no block "${id}".`);
  return element;
}

/** An element with something after it is complete. @param {string} id */
function found(id) {
  const element = document.getElementById(`data-${id}`);
  return element?.nextSibling ? element : null;
}

/** @param {HTMLElement} element */
function bytesOf(element) {
  const text = element.textContent ?? "";
  element.remove();
  const decoded = atob(text);
  const bytes = new Uint8Array(decoded.length);
  for (let at = 0; at < decoded.length; at++) bytes[at] = decoded.charCodeAt(at);
  return bytes;
}

/** @param {Label} label */
function labelKey(label) {
  return JSON.stringify([label.suite, label.eval_id, label.target, label.attempt, label.by]);
}

/**
 * Whether a string in a JSON value contains a text in lower case.
 * @param {any} value
 * @param {string} needle
 * @returns {boolean}
 */
function mentions(value, needle) {
  if (typeof value === "string") return value.toLowerCase().includes(needle);
  return typeof value === "object" && value !== null && Object.values(value).some((part) => mentions(part, needle));
}
