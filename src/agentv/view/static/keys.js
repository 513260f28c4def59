// @ts-check
// The keyboard: pages register their keys, `?` lists them.

import { button, el, show } from "./dom.js";

/**
 * @typedef {Object} Key
 * @property {string} key As in `KeyboardEvent.key`, such as `j` or `Enter`.
 * @property {string} does What it does, in words.
 * @property {(event: KeyboardEvent) => void} press
 */

const TYPING = "input:not([type=checkbox]):not([type=radio]), textarea, select, [contenteditable]";

const MOVING = ["j", "k", "ArrowLeft", "ArrowRight"]; // The others do nothing while they are held.

/** The keys of the whole viewer, then those of the open page. */
export class Keyboard {
  constructor() {
    /** @type {Key[]} */
    this.everywhere = [{ key: "?", does: "show the keys of this page", press: () => this.help() }];
    /** @type {Key[]} */
    this.page = [];
    this.dialog = el("dialog", { class: "keys", "aria-labelledby": "keys-title" });
    document.body.append(this.dialog);
    addEventListener("keydown", (event) => this.pressed(event));
  }

  /** @param {KeyboardEvent} event */
  pressed(event) {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || this.dialog.open) return;
    const target = event.target instanceof Element ? event.target : null;
    if (target?.closest(TYPING)) {
      if (event.key !== "Escape" || !(target instanceof HTMLElement)) return;
      event.preventDefault(); // Browsers would empty the box, without an event that says so.
      target.blur();
      return;
    }
    if (event.key === "Enter" && target?.closest("a, button, summary")) return;
    const found = [...this.page, ...this.everywhere].find((key) => key.key === event.key);
    if (!found) return;
    event.preventDefault();
    if (!event.repeat || MOVING.includes(event.key)) found.press(event);
  }

  help() {
    const line = (/** @type {Key} */ key) => [el("dt", null, el("kbd", null, shown(key.key))), el("dd", null, key.does)];
    show(
      this.dialog,
      el("h2", { id: "keys-title" }, "Keys"),
      this.page.length > 0 && el("dl", null, this.page.flatMap(line)),
      el("h3", null, "Everywhere"),
      el("dl", null, this.everywhere.flatMap(line)),
      button("Close", () => this.dialog.close()),
    );
    this.dialog.showModal();
  }
}

/** @param {string} key */
function shown(key) {
  return { ArrowUp: "↑", ArrowDown: "↓", ArrowLeft: "←", ArrowRight: "→", " ": "Space" }[key] ?? key;
}
