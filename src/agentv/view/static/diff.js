// @ts-check
// What differs between two texts, word by word as in src/agentv/report/word_diff.py (held together by
// conformance/word_diff.json), and between two trajectories, tool call by tool call.

/** How texts are cut: into words or, if they are long, into lines. */
const UNITS = [/\n|[^\S\n]+|[\p{L}\p{N}_]+|[^\p{L}\p{N}_\s]+/gu, /[^\n]*\n|[^\n]+/g];
const MOST_UNITS = 4000;
const MOST_WORK = 3e7;

/** A stretch of both lists: whether it is equal, start and end in the first, start and end in the second. @typedef {[boolean, number, number, number, number]} Stretch */
/** A part of both texts. If it is not equal, either may be empty. @typedef {{equal: boolean, one: string, two: string}} Run */

/**
 * The differences between two texts; null if they are too long.
 * @param {string} one
 * @param {string} two
 * @returns {Run[]|null}
 */
export function wordDiff(one, two) {
  for (const unit of UNITS) {
    const [left, right] = [one.match(unit) ?? [], two.match(unit) ?? []];
    const stretches = Math.max(left.length, right.length) <= MOST_UNITS && stretchesOf(left, right);
    if (stretches) return stretches.map(([equal, a, b, c, d]) => ({ equal, one: left.slice(a, b).join(""), two: right.slice(c, d).join("") }));
  }
  return null;
}

/**
 * Equal and different stretches of two lists, as difflib.SequenceMatcher finds them; null if it takes too long.
 * @param {string[]} one
 * @param {string[]} two
 */
function stretchesOf(one, two) {
  /** @type {Map<string, number[]>} */
  const places = new Map(two.map((item) => [item, []]));
  for (let j = two.length - 1; j >= 0; j--) places.get(two[j])?.push(j);
  const found = one.map((item) => places.get(item) ?? []);
  /** @type {Stretch[]} */
  const stretches = [];
  // How many items are equal up to a place of the second list, and in which row that was found.
  const [lengths, rows] = [new Int32Array(two.length + 1), new Int32Array(two.length + 1)];
  let [row, work] = [1, 0];

  /** The longest equal stretch (of several, the first) is between what is matched before it and after it. @param {number} a @param {number} b @param {number} c @param {number} d */
  function match(a, b, c, d) {
    while (a < b || c < d) {
      let [i, j, size, best] = [b, d, 0, 0];
      row++;
      for (let k = a; k < b && work < MOST_WORK; k++) {
        row++;
        work++;
        for (const at of found[k]) {
          if (at >= d) continue;
          if (at < c) break;
          work++;
          const length = (rows[at] === row - 1 ? lengths[at] : 0) + 1;
          [lengths[at + 1], rows[at + 1]] = [length, row];
          if (length > size || (length === size && best === row)) [i, j, size, best] = [k - length + 1, at - length + 1, length, row];
        }
      }
      if (size) match(a, i, c, j);
      else stretches.push([false, a, b, c, d]);
      const last = stretches.at(-1);
      if (size && last?.[0]) [last[2], last[4]] = [i + size, j + size];
      else if (size) stretches.push([true, i, i + size, j, j + size]);
      [a, c] = [i + size, j + size];
    }
  }

  match(0, one.length, 0, two.length);
  return work < MOST_WORK ? stretches : null;
}

/**
 * A step of a trajectory: a tool call, or a text.
 * @typedef {Object} Step
 * @property {string} name The tool, or the role of the text.
 * @property {boolean} isCall
 * @property {any} input The input of the tool, or the text.
 * @property {any} output
 */

/** JSON with sorted keys, so that the order of keys is not a difference. @param {any} value */
function canonical(value) {
  const sorted = (/** @type {any} */ part) => (part && typeof part === "object" && !Array.isArray(part) ? Object.fromEntries(Object.entries(part).sort(([x], [y]) => (x < y ? -1 : 1))) : part);
  try {
    return JSON.stringify(value, (_key, part) => sorted(part));
  } catch {
    return "(nested too deeply)";
  }
}

/**
 * Two trajectories side by side: first the calls that are the same, then, between them, the same tool with another input.
 * @template {Step} S
 * @param {S[]} one
 * @param {S[]} two
 */
export function alignSteps(one, two) {
  const tool = (/** @type {S} */ step) => `${step.isCall} ${step.name}`;
  const call = (/** @type {S} */ step) => `${tool(step)} ${canonical(step.input)}`;
  /** @type {{kind: 'same'|'changed'|'one'|'two', one: S|null, two: S|null}[]} */
  const pairs = [];
  const align = (/** @type {S[]} */ left, /** @type {S[]} */ right, /** @type {((step: S) => string)[]} */ [key, ...coarser]) => {
    for (const [equal, a, b, c, d] of (key && stretchesOf(left.map(key), right.map(key))) ?? [[false, 0, left.length, 0, right.length]]) {
      const [some, others] = [left.slice(a, b), right.slice(c, d)];
      if (equal) some.forEach((step, i) => pairs.push({ kind: call(step) === call(others[i]) && canonical(step.output) === canonical(others[i].output) ? "same" : "changed", one: step, two: others[i] }));
      else if (coarser.length) align(some, others, coarser);
      else pairs.push(...some.map((step) => ({ kind: /** @type {const} */ ("one"), one: step, two: null })), ...others.map((step) => ({ kind: /** @type {const} */ ("two"), one: null, two: step })));
    }
  };
  align(one, two, [call, tool]);
  return pairs;
}
