// @ts-check
// What can be asked about a case: the names of filters and of columns. A case with several attempts has the mean of its
// scores and durations, and the sum of its costs and calls. Unknown numbers are NaN.

import { OUTCOMES, PASS } from "./run_model.js";
import { variantParts } from "./variants.js";

/** @typedef {import("./run_model.js").RunModel} RunModel */

/**
 * The baseline: for each case the case there (-1 if there is none), and the difference of the scores.
 * @typedef {Object} Against
 * @property {RunModel} model
 * @property {Int32Array} match
 * @property {Float64Array} delta
 */

/**
 * Numbers, or text. A case may have several texts, such as its tags.
 * @typedef {(c: number) => any} Value
 */

/**
 * @typedef {Object} Field
 * @property {string} about
 * @property {boolean} isText
 * @property {(model: RunModel, against: Against|null, rest: string) => Value} of `rest` is what follows the dot.
 * @property {(model: RunModel) => string[]} [values] Texts that the field can have, or names that can follow its dot.
 */

/** @type {(about: string, of: Field["of"], values?: Field["values"]) => Field} */
const text = (about, of, values) => ({ about, isText: true, of, values });
/** @type {(about: string, of: Field["of"], values?: Field["values"]) => Field} */
const number = (about, of, values) => ({ about, isText: false, of, values });
/** @type {(column: (model: RunModel, name: string) => ArrayLike<number>|undefined, summed?: boolean) => Field["of"]} */
const attempts = (column, summed) => (model, _, name) => {
  const numbers = column(model, name) ?? [];
  return (c) => model.cases.value(numbers, c, summed);
};
/** @type {(hasPassed: boolean) => Field["of"]} */
const flipped = (hasPassed) => (model, against) => (c) =>
  against && !Number.isNaN(against.delta[c]) && (model.cases.outcome[c] === PASS) === hasPassed && (against.model.cases.outcome[against.match[c]] === PASS) !== hasPassed ? 1 : 0;

/** @type {Record<string, Field>} */
export const FIELDS = {
  id: text("", (model) => (c) => model.eval_id.at(model.cases.first[c])),
  suite: text("", (model) => (c) => model.suiteOf(model.cases.first[c]), (model) => model.suites),
  tag: text(
    "",
    (model) => {
      const sets = model.dictionaries.tag_sets.map((set) => set.map((tag) => model.tags[tag]));
      return (c) => sets[model.tag_set[model.cases.first[c]]] ?? [];
    },
    (model) => model.tags,
  ),
  "metadata.": text("dots lead into mappings", metadata, (model) => Object.keys(model.metadata)),
  target: text("", targets, (model) => [...new Set([...variantParts(model, 0).values, ...model.targets])]),
  prompt: text("", ({ cases, target, variants }) => (c) => variants[target[cases.first[c]]][1] ?? "", (model) => variantParts(model, 1).values),
  verdict: text(OUTCOMES.join(", "), ({ cases }) => (c) => OUTCOMES[cases.outcome[c]], () => OUTCOMES),
  score: number("0 to 1, unknown for errors", ({ cases }) => (c) => cases.score[c]),
  "evaluator.": number("score of one evaluator", attempts((model, name) => model.evaluator_scores[model.evaluators.indexOf(name)]), (model) => model.evaluators),
  tools: number("calls", (model) => (c) => model.tool_calls.reduce((sum, calls) => sum + model.cases.value(calls, c, true), 0)),
  "tools.": number("calls of one tool", attempts((model, name) => model.tool_calls[model.tools.indexOf(name)], true), (model) => model.tools),
  question: text("", (model) => (c) => model.question.at(model.cases.first[c])),
  reason: text("why points were lost, or the error", (model) => (c) => model.reason.at(worstRow(model, c))),
  stage: text("of an error", (model) => (c) => model.dictionaries.stages[model.stage[worstRow(model, c)]] ?? "", (model) => model.dictionaries.stages),
  cost: number("US dollars", attempts((model) => model.cost_usd, true)),
  judge_cost: number("US dollars", attempts((model) => model.judge_cost_usd, true)),
  judge_calls: number("", attempts((model) => model.judge_calls, true)),
  tokens: number("", attempts((model) => model.tokens, true)),
  duration: number("seconds", ({ cases, duration_ms: ms }) => (c) => cases.value(ms, c) / 1000),
  answer_length: number("characters", attempts((model) => model.answer_length)),
  attempts: number("", ({ cases }) => (c) => cases.attempts[c]),
  passes: number("attempts that passed", ({ cases }) => (c) => cases.passes[c]),
  flaky: number("only some attempts passed", ({ cases }) => (c) => Number(cases.isFlaky(c))),
  delta: number("score minus that of the baseline", (_, against) => (c) => against?.delta[c] ?? NaN),
  newly_failed: number("passed in the baseline", flipped(false)),
  newly_passed: number("did not pass in the baseline", flipped(true)),
};

/** A field, and what follows its dot. @param {string} name @returns {[Field|undefined, string]} */
export function fieldOf(name) {
  const [, known, rest] = /** @type {string[]} */ (/^([^.]*\.?)(.*)$/s.exec(name));
  return [Object.hasOwn(FIELDS, known) && known.endsWith(".") === (rest !== "") ? FIELDS[known] : undefined, rest];
}

/** What a name means for each case of a run. @param {string} name @param {RunModel} model @param {Against|null} [against] @returns {Value} */
export function fieldValue(name, model, against = null) {
  const [field, rest] = fieldOf(name);
  return field ? field.of(model, against, rest) : () => NaN;
}

/** The first attempt that did not pass: an error if there is one. @param {RunModel} model @param {number} c */
export function worstRow(model, c) {
  const { first, next } = model.cases;
  let worst = first[c];
  for (let row = worst; row >= 0; row = next[row]) if (model.outcome[row] > model.outcome[worst]) worst = row;
  return worst;
}

/** @type {Record<string, (one: number, other: number) => boolean>} */
const COMPARE = {
  "": (one) => one > 0,
  "=": (one, other) => one === other || (Number.isNaN(one) && Number.isNaN(other)),
  "!=": (one, other) => !COMPARE["="](one, other),
  "<": (one, other) => one < other,
  "<=": (one, other) => one <= other,
  ">": (one, other) => one > other,
  ">=": (one, other) => one >= other,
};

/** @type {Record<string, (one: string, other: string) => boolean>} */
const COMPARE_TEXT = {
  "": (one) => one !== "",
  "=": (one, other) => one === other || (one !== "" && other !== "" && Number(one) === Number(other)),
  "~": (one, other) => one.toLowerCase().includes(other),
};

/** What is wrong with a condition, or null. @param {string} name @param {string} operator @param {string} value */
export function problemOf(name, operator, value) {
  const [field] = fieldOf(name);
  if (!field) return `unknown name \`${name.slice(0, 40)}\`; names are ${Object.keys(FIELDS).join(", ")}`;
  if (!field.isText && operator && value !== "unknown" && !(value && Number.isFinite(Number(value)))) return `expected a number or \`unknown\` after ${name}${operator}, got \`${value}\``;
  if (!((operator === "!=" ? "=" : operator) in (field.isText ? COMPARE_TEXT : COMPARE))) return `\`${name}\` is ${field.isText ? "text: use =, != or ~ (contains)" : "a number: use =, !=, <, <=, > or >="}`;
  return name === "verdict" && operator.endsWith("=") && !OUTCOMES.includes(value) ? `expected ${OUTCOMES.join(", ")}, got \`${value}\`` : null;
}

/**
 * Whether a case fulfils a condition.
 * @param {string} name
 * @param {string} operator '' for a name alone: whether it is known, not empty and not 0.
 * @param {string} value
 * @param {RunModel} model
 * @param {Against|null} against
 * @returns {(c: number) => boolean}
 */
export function matcher(name, operator, value, model, against) {
  const get = fieldValue(name, model, against);
  if (!fieldOf(name)[0]?.isText) {
    const [compare, wanted] = [COMPARE[operator], value === "unknown" ? NaN : Number(value)];
    return (c) => compare(get(c), wanted);
  }
  const isNegated = operator === "!=";
  const compare = COMPARE_TEXT[isNegated ? "=" : operator];
  const wanted = operator === "~" ? value.toLowerCase() : value;
  return (c) => {
    const found = get(c);
    return (typeof found === "string" ? compare(found, wanted) : found.some((/** @type {string} */ one) => compare(one, wanted))) !== isNegated;
  };
}

/** The target, and with a prompt also the variant, such as `assistant [short]`. @type {Field["of"]} */
function targets({ cases, target, targets: names, variants }) {
  const values = variants.map(([name, prompt], i) => (prompt === null ? name : [name, names[i]]));
  return (c) => values[target[cases.first[c]]];
}

/** The metadata at a path. Keys may contain dots; the items of a list count as values, and so does the whole list. @type {Field["of"]} */
function metadata(model, _, path) {
  const keys = Object.keys(model.metadata).filter((key) => key === path || path.startsWith(`${key}.`));
  const columns = keys.map((key) => ({ index: model.metadata_index[key], values: model.metadata[key].map((written) => valuesAt(written, path.slice(key.length + 1))) }));
  const { first } = model.cases;
  return (c) => columns.flatMap(({ index, values }) => values[index[first[c]]] ?? []);
}

/** The values in a metadata value: it is JSON if it is not a string. @param {string} written @param {string} path @returns {string[]} */
function valuesAt(written, path) {
  let value;
  try {
    value = /^[[{]/.test(written) ? JSON.parse(written) : written;
  } catch {
    value = written;
  }
  for (const part of path ? path.split(".") : []) value = typeof value === "object" && value !== null && Object.hasOwn(value, part) ? value[part] : undefined;
  const values = (Array.isArray(value) ? value : value === undefined ? [] : [value]).map((one) => (typeof one === "string" ? one : JSON.stringify(one)));
  return Array.isArray(value) && !path ? [...values, written] : values;
}
