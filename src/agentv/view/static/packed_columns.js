// @ts-check
// The columns of a run, from the bytes that packed_columns.py writes. Numbers are used where they are; texts are decoded
// when the first of them is shown.

import { inflatedText } from "./inflate.js";

/** @typedef {import("./types.js").ColumnsData} ColumnsData */
/** @typedef {import("./types.js").Numbers} Numbers */
/** @typedef {[kind: keyof typeof KINDS, place: number, length: number]} Place Of a column in the bytes. */
/** @typedef {["t", numbers: Place, table: Place]} TablePlace Of one whose values are in a table. */

const KINDS = { b: Int8Array, h: Int16Array, i: Int32Array, d: Float64Array, u: Uint8Array, z: Uint8Array };
export const NUMBERS = /** @type {const} */ ([
  "suite", "target", "attempt", "score", "outcome", "threshold", "trial", "stage", "duration_ms", "started_at",
  "cost_usd", "judge_cost_usd", "judge_calls", "tokens", "answer_length", "answer", "tag_set",
]);
export const STRINGS = /** @type {const} */ (["eval_id", "question", "reason"]);

/**
 * The columns in a stream, when all but the questions and reasons were read. `complete` reads these: they are half of
 * the bytes, and a table can be shown before.
 * @param {ReadableStream<Uint8Array<ArrayBuffer>>} stream
 * @returns {Promise<ColumnsData>}
 */
export async function readColumns(stream) {
  const reader = stream.getReader();
  let bytes = new Uint8Array(1 << 16);
  let length = 0;
  /** Read on, until there are so many bytes. @param {number} wanted */
  const until = async (wanted) => {
    while (length < wanted) {
      const { done, value } = await reader.read();
      if (done) throw new Error("The columns are incomplete.");
      if (length + value.length > bytes.length) bytes = enlarged(bytes, length + value.length);
      bytes.set(value, length);
      length += value.length;
    }
  };
  const number = () => new DataView(bytes.buffer).getUint32(0, true);
  await until(4);
  await until(4 + number());
  const start = 4 + number();
  const data = JSON.parse(new TextDecoder().decode(bytes.subarray(4, start)));
  const [first, all] = data.parts;
  bytes = enlarged(bytes, start + all);
  await until(start + first);

  /** @param {Place|TablePlace} place @returns {Numbers} */
  const column = ([kind, place, count]) => (kind === "t" ? looked(column(place), column(count)) : new KINDS[kind](bytes.buffer, start + place, count));
  for (const name of NUMBERS) data[name] = column(data[name]);
  for (const name of STRINGS) {
    const { index, first: known, ends, text } = data[name];
    data[name] = new TextColumn(column(index), column(ends), /** @type {Uint8Array} */ (column(text)), known);
  }
  for (const name of ["evaluator_scores", "tool_calls"]) data[name] = data[name].map(column);
  data.metadata_index = Object.fromEntries(Object.entries(data.metadata_index).map(([key, place]) => [key, column(/** @type {Place} */ (place))]));
  const later = [data.question, data.reason];
  for (const one of later) one.isThere = false;
  /** @type {Promise<unknown>|null} */
  let complete = null;
  data.complete = () => (complete ??= until(start + all).then(() => Promise.all(later.map((one) => one.inflate()))));
  return data;
}

/** The values of rows. @param {Numbers} numbers @param {Numbers} table */
function looked(numbers, table) {
  const values = new Float64Array(numbers.length);
  for (let row = 0; row < values.length; row++) values[row] = table[numbers[row]];
  return values;
}

/** @param {Uint8Array<ArrayBuffer>} bytes @param {number} length */
function enlarged(bytes, length) {
  const larger = new Uint8Array(Math.max(bytes.length, length));
  larger.set(bytes);
  return larger;
}

/** The texts of rows. A text that several rows have is there once, with a number. */
export class TextColumn {
  /**
   * @param {Numbers} index The number of the text of each row.
   * @param {Numbers} ends Where each text ends in the bytes, as characters.
   * @param {Uint8Array} bytes
   * @param {number} first The number of the first text: rows that are appended may have texts that are known.
   */
  constructor(index, ends, bytes, first = 0) {
    this.index = index;
    this.ends = ends;
    this.bytes = bytes;
    this.first = first;
    this.isThere = true; // Whether its bytes were read.
    /** @type {string|null} */ this.all = null;
    /** @type {string[]} Texts of rows that were appended. */ this.added = [];
    /** @type {Map<string, number>} */ this.numbers = new Map();
  }

  async inflate() {
    this.all = await inflatedText(/** @type {Uint8Array<ArrayBuffer>} */ (this.bytes));
    this.isThere = true;
  }

  /** How many texts there are. */
  get count() {
    return this.ends.length + this.added.length;
  }

  /** The text with a number, counted from 0; '' if it is not there yet. @param {number} number */
  text(number) {
    const { ends } = this;
    if (!this.isThere) return "";
    if (number >= ends.length) return this.added[number - ends.length];
    this.all ??= new TextDecoder("utf-8", { ignoreBOM: true }).decode(this.bytes);
    return this.all.slice(number ? ends[number - 1] : 0, ends[number]);
  }

  /** The text of a row. @param {number} row */
  at(row) {
    return this.text(this.index[row]);
  }

  /** Whether any row has a text that is not empty. */
  some() {
    return this.count > 1 || (this.count === 1 && this.text(0) !== "");
  }

  /** The number of a text; undefined if no row has it. @param {string} text */
  find(text) {
    for (let number = this.numbers.size; number < this.count; number++) this.numbers.set(this.text(number), number);
    return this.numbers.get(text);
  }

  /** Add rows. @param {number} start The number of the first one. @param {TextColumn} later */
  append(start, later) {
    this.index = extended(this.index, start, later.index, 0);
    for (let number = 0; number < later.count; number++) this.added.push(later.text(number));
  }
}

/**
 * A column with values from `start` on; places that were never filled are `unknown`. Memory grows in steps.
 * @param {Numbers} column
 * @param {number} start
 * @param {Numbers} values
 * @param {number} unknown
 * @returns {Numbers}
 */
export function extended(column, start, values, unknown) {
  if (start === 0) return values;
  const longer = resized(column, start + values.length, values);
  longer.fill(unknown, column.length, start);
  longer.set(values, start);
  return longer;
}

/**
 * A column of another length, whose numbers have as many bytes as those of `like` if they have more.
 * @template {Numbers} T
 * @param {T} column
 * @param {number} length
 * @param {Numbers} [like]
 * @returns {T}
 */
export function resized(column, length, like = column) {
  const Kind = /** @type {any} */ (like.BYTES_PER_ELEMENT > column.BYTES_PER_ELEMENT ? like : column).constructor;
  // Columns that were unpacked are somewhere in the bytes of all of them.
  if (column instanceof Kind && column.byteOffset === 0 && length * column.BYTES_PER_ELEMENT <= column.buffer.byteLength) return new Kind(column.buffer, 0, length);
  const longer = new Kind(column.length ? Math.ceil(length * 1.5) : length);
  longer.set(column);
  return new Kind(longer.buffer, 0, length);
}
