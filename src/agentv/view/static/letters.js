// @ts-check
// Text from models, tools and files, letter for letter, and folds: what is long or seldom needed is built when it is
// opened.

import { append, el } from "./dom.js";
import { plural } from "./format.js";
import { marked } from "./unseen.js";

/** The nodes of a text. Unlike other text, also spaces that look like others are marked. @param {string} text */
export const visible = (text) => marked(text, true);

const PART = 4000;
const FRAME_MS = 8;

/** Builders that wait for the next frame. @type {Set<() => boolean>} */
const WAITING = new Set();

/**
 * Call a builder until it returns false, a few milliseconds in each frame, so that long text does not stop the page.
 * @param {() => boolean} build
 */
export function gradually(build) {
  WAITING.delete(build);
  const began = performance.now();
  while (build()) {
    if (performance.now() - began < FRAME_MS) continue;
    WAITING.add(build);
    requestAnimationFrame(() => WAITING.has(build) && gradually(build));
    return;
  }
}

/**
 * The end of the first lines of a text: limited by lines and characters. A few more are not worth a fold.
 * @param {string} text
 * @param {number} lines
 * @param {number} limit
 */
function foldEnd(text, lines, limit) {
  let end = 0;
  for (let line = 0; line < lines && end >= 0 && end <= limit; line++) end = text.indexOf("\n", end) + 1 || -1;
  if (end < 0 || end > limit) end = text.length > limit * 1.2 ? partEnd(text, 0, limit) : text.length;
  return text.length - end < limit / 4 && lineCount(text.slice(end)) < 3 ? text.length : end;
}

/**
 * The end of a part of a text, which is not in the middle of a character. Parts are laid out on their own, so that a
 * line of 5 MB does not stop the browser.
 * @param {string} text
 * @param {number} from
 * @param {number} size
 */
function partEnd(text, from, size) {
  if (text.length - from <= size) return text.length;
  const line = text.slice(from, from + size).lastIndexOf("\n");
  if (line > size / 2) return from + line + 1;
  return from + size - (/[\udc00-\udfff]/.test(text[from + size]) ? 1 : 0);
}

/** @param {string} text */
function lineCount(text) {
  return text.replace(/\n$/, "").split("\n").length;
}

/**
 * A text, with a fold for what follows its first lines.
 * @param {string} text
 * @param {{lines?: number, limit?: number}} [options]
 */
export function letters(text, { lines = 20, limit = 4000 } = {}) {
  let end = foldEnd(text, lines, limit);
  const rest = text.slice(end);
  const count = lineCount(rest);
  return el(
    "div",
    { class: "letters mono" },
    visible(text.slice(0, end)),
    rest &&
      fold(plural(count > 1 ? count : rest.length, count > 1 ? "more line" : "more character"), () => {
        const parts = el("div");
        gradually(() => {
          const from = end;
          end = partEnd(text, from, PART);
          parts.append(el("div", { class: "part" }, visible(text.slice(from, end))));
          return end < text.length;
        });
        return parts;
      }),
  );
}

/**
 * Scroll to an element and give it the focus. What is above may get its real height only when it is drawn, so the
 * position is corrected for some frames.
 * @param {HTMLElement} element
 * @param {HTMLElement|null} [focused]
 */
export function jumpTo(element, focused = element.hasAttribute("tabindex") ? element : element.querySelector("summary") ?? element, frames = 6) {
  element.scrollIntoView({ block: "start" });
  focused?.focus({ preventScroll: true });
  if (frames > 0) requestAnimationFrame(() => jumpTo(element, null, frames - 1));
}

/** @type {WeakMap<Element, () => void>} */
const BUILDERS = new WeakMap();

/**
 * A `<details>` whose content is built when it is opened for the first time.
 * @param {import("./dom.js").Child|import("./dom.js").Child[]} summary
 * @param {() => import("./dom.js").Child|import("./dom.js").Child[]} build
 * @param {{open?: boolean, class?: string}} [options]
 */
export function fold(summary, build, { open = false, ...attributes } = {}) {
  // A click builds it before it is drawn; `toggle` comes after that, and also if the browser opens it.
  const details = el("details", attributes, el("summary", { onclick: () => BUILDERS.get(details)?.() }, summary));
  BUILDERS.set(details, () => BUILDERS.delete(details) && append(details, [build()]));
  details.addEventListener("toggle", () => details.open && openFold(details));
  if (open) openFold(details);
  return details;
}

/** Open a fold, and build what it contains now. @param {HTMLDetailsElement} details */
export function openFold(details) {
  BUILDERS.get(details)?.();
  details.open = true;
}

/**
 * Open or close all folds below an element.
 * @param {Element} root
 * @param {boolean} open
 * @param {boolean} [whole] Build everything now: for printing.
 */
export function unfold(root, open, whole) {
  const others = () => root.querySelectorAll(open ? "details:not([open])" : "details[open]");
  for (let folds = others(); folds.length > 0; folds = others()) {
    for (const details of /** @type {NodeListOf<HTMLDetailsElement>} */ (folds)) {
      if (open) openFold(details);
      else details.open = false;
    }
  }
  if (whole) for (const build of WAITING) while (build());
  if (whole) WAITING.clear();
}
