// @ts-check
// Elements are built here and nowhere else. There is no HTML string in the viewer: text becomes text nodes, and the
// content security policy makes the browser refuse anything else. Characters that cannot be seen are marked.

import { isPlain, marked, spelled } from "./unseen.js";

/** @typedef {Node|string|number|null|undefined|false} Child */
/** @typedef {Record<string, any>} Attributes */

// The shell of every page contains an empty <svg>: so the name of its namespace, which is an address, is not in the code.
const SVG = document.querySelector("svg")?.namespaceURI ?? null;
const LINK = /^#/;
const TYPING_MS = 200;
/** Elements in which only text is shown. */
const ONLY_TEXT = "option, textarea, title";
const REFUSED = /^(on|style$|srcdoc$|src$|action$|formaction$)/i;

/**
 * Create an element: `el("button", {class: "quiet", onclick: save}, "Save")`.
 *
 * Functions are listeners, `true` is an attribute without a value, `false`, null and undefined are left out.
 * @template {keyof HTMLElementTagNameMap} T
 * @param {T} tag
 * @param {Attributes|null} [attributes]
 * @param {...(Child|Child[])} children
 * @returns {HTMLElementTagNameMap[T]}
 */
export function el(tag, attributes, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/**
 * Create an SVG element, like `el`.
 * @template {keyof SVGElementTagNameMap} T
 * @param {T} tag
 * @param {Attributes|null} [attributes]
 * @param {...(Child|Child[])} children
 * @returns {SVGElementTagNameMap[T]}
 */
export function svg(tag, attributes, ...children) {
  return fill(/** @type {any} */ (document.createElementNS(SVG, tag)), attributes, children);
}

/**
 * @template {Element} T
 * @param {T} element
 * @param {Attributes|null|undefined} attributes
 * @param {(Child|Child[])[]} children
 * @returns {T}
 */
function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) set(element, name, value);
  append(element, children);
  return element;
}

/**
 * Set one attribute or listener, as in `el`.
 * @param {Element} element
 * @param {string} name
 * @param {any} value
 */
export function set(element, name, value) {
  if (typeof value === "function" && name.startsWith("on")) {
    element.addEventListener(name.slice(2), value);
  } else if (value === false || value === null || value === undefined) {
    element.removeAttribute(name);
  } else if (REFUSED.test(name)) {
    throw new Error(`the attribute ${name} is not allowed`);
  } else if (name === "href" && !LINK.test(String(value))) {
    throw new Error("links must begin with #");
  } else {
    element.setAttribute(name, value === true ? "" : String(value));
  }
}

/**
 * @param {Element|DocumentFragment} parent
 * @param {(Child|Child[])[]} children
 */
export function append(parent, children) {
  for (const child of children.flat()) {
    if (child === null || child === undefined || child === false) continue;
    if (child instanceof Node) parent.append(child);
    else if (parent instanceof SVGElement || (parent instanceof Element && parent.matches(ONLY_TEXT))) parent.append(spelled(String(child)));
    else parent.append(...marked(String(child), false));
  }
}

/**
 * Replace what an element contains.
 * @template {Element} T
 * @param {T} parent
 * @param {...(Child|Child[])} children
 * @returns {T}
 */
export function show(parent, ...children) {
  parent.replaceChildren();
  append(parent, children);
  return parent;
}

/**
 * Show something in an element. Text replaces text, which is much faster than new nodes.
 * @template {Element} T
 * @param {T} parent
 * @param {Child|Child[]} content
 * @returns {T}
 */
export function showText(parent, content) {
  const only = parent.firstChild;
  if (typeof content !== "string" || !isPlain(content) || !(only instanceof Text) || only.nextSibling) return content === only && only ? parent : show(parent, content);
  if (only.data !== content) only.data = content;
  return parent;
}

/**
 * Replace what an element contains, with the focus on the same link or control as before.
 * @param {Element} parent
 * @param {...(Child|Child[])} children
 */
export function showAgain(parent, ...children) {
  const stops = () => /** @type {HTMLElement[]} */ ([...parent.querySelectorAll("a, button, select, input, [tabindex]")]);
  const focused = stops().indexOf(/** @type {HTMLElement} */ (document.activeElement));
  show(parent, ...children);
  stops()[focused]?.focus({ preventScroll: true });
}

/**
 * Set a CSS variable of one element, such as the width of a bar. Where it changes often, set the property itself: then
 * the browser does not compute the others again, which takes eight times as long.
 * @template {HTMLElement|SVGElement} T
 * @param {T} element
 * @param {string} name
 * @param {string|number} value
 * @returns {T}
 */
export function vary(element, name, value) {
  element.style.setProperty(name, String(value));
  return element;
}

/**
 * A button.
 * @param {string} label
 * @param {(event: Event) => void} press
 * @param {Attributes} [attributes]
 */
export function button(label, press, attributes) {
  return el("button", { type: "button", onclick: press, ...attributes }, label);
}

/**
 * A box for text. `changed` is called when the reader stops typing, and on Enter.
 * @param {Attributes} attributes
 * @param {(text: string, isTyping: boolean) => void} changed
 */
export function typedInput(attributes, changed) {
  let timer = 0;
  const input = el("input", { type: "search", ...attributes });
  const stop = () => clearTimeout(timer);
  const change = (/** @type {boolean} */ isTyping) => (stop(), changed(input.value, isTyping));
  input.addEventListener("input", () => {
    stop();
    timer = window.setTimeout(change, TYPING_MS, true);
    addEventListener("hashchange", stop, { once: true }); // The reader has gone elsewhere.
  });
  input.addEventListener("keydown", (event) => event.key === "Enter" && change(false));
  return input;
}

/**
 * Tell a screen reader what has just happened.
 * @param {string} text
 */
export function announce(text) {
  const place = document.getElementById("announcements");
  if (place) place.textContent = text;
}

/**
 * Copy text, and say so.
 * @param {string} text
 * @param {string} what
 */
export async function copy(text, what) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = el("textarea", { class: "off-screen", "aria-hidden": "true" });
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
  announce(`${what} copied`);
}

/**
 * Save text as a file.
 * @param {string} name
 * @param {string} text
 */
export function download(name, text) {
  const link = el("a", { download: name });
  link.href = URL.createObjectURL(new Blob([text]));
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}
