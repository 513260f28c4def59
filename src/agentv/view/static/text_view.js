// @ts-check
// A block of text from a model, a tool or a file, letter for letter, with a button that copies it.

import { button, copy, el } from "./dom.js";
import { letters } from "./letters.js";

/**
 * @typedef {Object} TextOptions
 * @property {import("./dom.js").Child} [title] What the text is, shown above it: a string, or a heading.
 * @property {string} [name] What the text is, for the copy button; the title if that is a string.
 * @property {number} [lines] Lines that are shown before it is folded; 20.
 * @property {boolean} [bare] No line above the text.
 */

const DEEPEST = 60;
const SHORT = 80;

/** A JSON value as text: in one line if that is short, or if it is nested so deeply that most of it would be spaces. @param {any} value */
export function pretty(value) {
  let level = [value];
  let depth = 0;
  for (; level.length > 0 && depth <= DEEPEST; depth++) level = level.flatMap((one) => (typeof one === "object" && one ? Object.values(one) : []));
  try {
    const line = JSON.stringify(value);
    return depth > DEEPEST || line.length <= SHORT ? line : JSON.stringify(value, null, 2);
  } catch {
    return "(nested too deeply to be shown)";
  }
}

/**
 * @param {any} value Text; anything else is shown as JSON.
 * @param {TextOptions} [options]
 * @returns {HTMLElement}
 */
export function textBlock(value, { title, name = typeof title === "string" ? title : "text", lines, bare } = {}) {
  const isText = typeof (value ?? "") === "string";
  const text = isText ? (value ?? "") : pretty(value);
  // Line breaks in strings are shown as such; what is copied is still JSON.
  const shown = isText ? text : text.replace(/(?<!\\)((\\\\)*)\\n/g, "$1\n");
  // A few words without a title need no line above them.
  const head = !bare && (title || text.length > 200 || text.includes("\n"));
  return el(
    "div",
    { class: "text-block" },
    head && el("div", { class: "text-head" }, typeof title === "string" ? el("strong", null, title) : title, text && button("Copy", () => copy(text, name), { class: "quiet no-print", "aria-label": `Copy ${name}` })),
    text ? letters(shown, { lines }) : el("p", { class: "muted" }, "(empty)"),
  );
}
