// @ts-check
// Commands to copy.

import { button, copy, el } from "./dom.js";

/** @param {Pick<import("./types.js").Detail, "commands">} detail */
export function commandsView({ commands }) {
  return el(
    "ul",
    { class: "commands" },
    commands.map(({ title, command }) => el("li", null, el("span", { class: "muted" }, title), el("code", null, command), button("Copy", () => copy(command, title), { class: "quiet no-print", "aria-label": `Copy: ${title}` }))),
  );
}
