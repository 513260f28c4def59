// @ts-check
// What a message says: its text, its files, and anything else as JSON.

import { el } from "./dom.js";
import { textBlock } from "./text_view.js";

/** @typedef {import("./types.js").Message} Message */

/**
 * The parts of the content of a message: a title such as `file docs/prices.md`, or '' for plain text, and the value.
 * @param {any} content
 * @returns {[string, any][]}
 */
function partsOf(content) {
  return [content ?? []].flat().map((part) => {
    const { type = "text", value, text, ...rest } = Object(part);
    if (typeof part !== "object") return ["", part];
    if (type === "text" && typeof (value ?? text) === "string") return ["", value ?? text];
    return typeof value === "string" && Object.keys(rest).length === 0 ? [`${type} ${value}`, text ?? ""] : [type, part];
  });
}

/** All text of a message. @param {Message} message */
export function textOf(message) {
  return partsOf(message.content)
    .map(([, value]) => (typeof value === "string" ? value : ""))
    .join("");
}

/** `user`, `user (ada)`. @param {Message} message */
export function roleOf(message) {
  return message.name ? `${message.role} (${message.name})` : message.role;
}

/**
 * The parts of a message as blocks.
 * @param {any} content
 * @param {string} [title]
 * @param {string} [name]
 * @returns {HTMLElement[]}
 */
export function contentBlocks(content, title, name = title) {
  return partsOf(content).map(([kind, value]) => (kind && value === "" ? el("p", { class: "mono" }, kind) : textBlock(value, { title: [title, kind].filter(Boolean).join(" · "), name })));
}
