// @ts-check
// Expressions that choose cases: `score<0.6 and not (tag=policy or tools.search=0)`. Names and operators are those of
// `agentv eval --where`, and more. filter_fields.js says what the names mean.

import { matcher, problemOf } from "./filter_fields.js";

/** @typedef {import("./run_model.js").RunModel} RunModel */
/** @typedef {import("./filter_fields.js").Against} Against */
/** @typedef {(c: number) => boolean} Test */

/**
 * @typedef {Object} Node
 * @property {"and"|"or"|"not"|"test"} kind
 * @property {Node[]} parts
 * @property {boolean} [isGroup] Whether it is in parentheses.
 * @property {string} name Of a test, with its prefix: `metadata.language`.
 * @property {string} operator '' for a name alone.
 * @property {string} value
 */

const WORDS = { and: /\s*and(?![^\s(])/iy, or: /\s*or(?![^\s(])/iy, not: /\s*not(?![^\s(])/iy };
const OPEN = /\s*\(/y;
const CLOSE = /\s*\)/y;
const END = /\s*$/y;
/** A name, an operator and a value; names after a dot and values may be in quotation marks. */
const TEST = /\s*([^\s()=!<>~".]+\.?)("(?:\\.|[^"\\])*"|[^\s()=!<>~"]+|)(?:\s*([=!<>~]+)\s*("(?:\\.|[^"\\])*"|[^\s()"][^\s()]*|))?/y;
const LONGEST = 4000; // Nesting needs a stack.
const PLAIN = /^[^\s()=!<>~"]+$/;

/** A filter that was understood: conditions that must all be true. */
export class Filter {
  /** @param {Node[]} terms */
  constructor(terms = []) {
    this.terms = terms;
    /** @type {WeakMap<object, Test[]>} Tests by the dictionaries of a run, which are others after rows were added. */
    this.bound = new WeakMap();
  }

  /** A test for each term. @param {RunModel} model @param {Against|null} [against] */
  tests(model, against = null) {
    return this.terms.map((term) => compiled(term, model, against));
  }

  /** Whether a case is chosen. @param {RunModel} model @param {number} c */
  test(model, c) {
    let tests = this.bound.get(model.dictionaries);
    if (!tests) this.bound.set(model.dictionaries, (tests = this.tests(model)));
    return tests.every((test) => test(c));
  }

  /** The text of the filter with another term in place of one, or added. @param {Node|undefined} term @param {string} text */
  replaced(term, text) {
    return [...this.terms.filter((one) => one !== term).map(printed), text].filter(Boolean).join(" and ");
  }

  /** The term that only asks for some of these conditions: `tag=a`, or `(tag=a or tag=b)`. @param {string[]} conditions */
  among(conditions) {
    return this.terms.find((term) => alternatives(term).every((one) => conditions.includes(one)));
  }

  /**
   * The text of the filter after one of several conditions was clicked: it is added as an alternative to the others, or
   * removed if it is there.
   * @param {string} clicked
   * @param {string[]} conditions
   */
  toggled(clicked, conditions) {
    const term = this.among(conditions);
    const before = term ? alternatives(term) : [];
    const chosen = before.includes(clicked) ? before.filter((one) => one !== clicked) : [...before, clicked];
    return this.replaced(term, chosen.length > 1 ? `(${chosen.join(" or ")})` : chosen.join(""));
  }
}

/** The conditions of which a term needs one. @param {Node} term */
export function alternatives(term) {
  return (term.kind === "or" ? term.parts : [term]).map(printed);
}

/** @param {string} text @returns {Filter|{error: string}} */
export function parseFilter(text) {
  let at = 0;
  const read = (/** @type {RegExp} */ pattern) => {
    pattern.lastIndex = at;
    const found = pattern.exec(text);
    if (found) at = pattern.lastIndex;
    return found;
  };
  const expected = (/** @type {string} */ what) => new Error(`expected ${what}, got ${at < text.length ? `\`${text.slice(at, at + 30).trim()}\`` : "the end"}`);
  /** @type {(kind: "and"|"or") => Node} */
  const list = (kind) => {
    const parts = [];
    do parts.push(kind === "or" ? list("and") : item());
    while (read(WORDS[kind]));
    return parts.length > 1 ? node(kind, parts) : parts[0];
  };
  /** @returns {Node} */
  const item = () => {
    if (read(WORDS.not)) return node("not", [item()]);
    if (read(OPEN)) {
      const inner = list("or");
      if (!read(CLOSE)) throw expected("`)`");
      return { ...inner, isGroup: true };
    }
    const found = read(TEST);
    if (!found) throw expected("a condition such as score<0.6");
    const [, prefix, rest, operator = "", value = ""] = found;
    const test = { ...node("test", []), name: prefix + unquoted(rest), operator: operator.replace("==", "="), value: unquoted(value) };
    if (operator && !value) throw expected(`a value after ${test.name}${operator}`);
    const problem = problemOf(test.name, test.operator, test.value);
    if (problem) throw new Error(problem);
    return test;
  };
  try {
    if (text.length > LONGEST) throw new Error(`a filter can have ${LONGEST} characters`);
    if (read(END)) return new Filter();
    const tree = list("or");
    if (!read(END)) throw expected("`and` or `or`");
    return new Filter(tree.kind === "and" && !tree.isGroup ? tree.parts : [tree]);
  } catch (error) {
    return { error: /** @type {Error} */ (error).message };
  }
}

/** `metadata.language=de`, with quotes where they are needed. @param {string} name @param {string} value @param {string} [operator] */
export function condition(name, value, operator = "=") {
  return fieldName(name) + operator + quoted(value);
}

/** The name of a field as it is written in a filter. @param {string} name */
export function fieldName(name) {
  const dot = name.indexOf(".") + 1;
  return dot ? name.slice(0, dot) + quoted(name.slice(dot)) : name;
}

/** A value as it is written in a filter. @param {string} text */
function quoted(text) {
  return PLAIN.test(text) ? text : JSON.stringify(text);
}

/** @param {string} text @returns {string} */
function unquoted(text) {
  return text.startsWith('"') ? JSON.parse(text) : text;
}

/** @param {Node["kind"]} kind @param {Node[]} parts @returns {Node} */
function node(kind, parts) {
  return { kind, parts, name: "", operator: "", value: "" };
}

/** @param {Node} node @returns {string} */
function printed({ kind, parts, name, operator, value }) {
  if (kind === "test") return operator ? condition(name, value, operator) : fieldName(name);
  return kind === "not" ? `not ${printed(parts[0])}` : `(${parts.map(printed).join(` ${kind} `)})`;
}

/** @param {Node} node @param {RunModel} model @param {Against|null} against @returns {Test} */
function compiled({ kind, parts, name, operator, value }, model, against) {
  if (kind === "test") return matcher(name, operator, value, model, against);
  const tests = parts.map((part) => compiled(part, model, against));
  if (kind === "not") return (c) => !tests[0](c);
  return kind === "and" ? (c) => tests.every((test) => test(c)) : (c) => tests.some((test) => test(c));
}
