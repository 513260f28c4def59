// @ts-check
// Small tables, whose first cells name the rows.

import { el } from "./dom.js";

/** @typedef {import("./dom.js").Child} Child */

/**
 * Columns whose first cell is a number, or unknown, are aligned to the right.
 * @param {string} caption For screen readers.
 * @param {string[]} head
 * @param {(Child|Child[])[][]} rows
 * @param {string} [kind] A class.
 */
export function sheet(caption, head, rows, kind = "") {
  const cells = rows.map((row) => head.map((_, i) => el(i ? "td" : "th", { scope: i ? null : "row" }, row[i])));
  for (const row of cells) row.forEach((cell, i) => cell.classList.toggle("number", i > 0 && /^([-+<≥$p= ]*\d|–|unknown$|$)/.test(cells[0][i].textContent ?? "")));
  return el(
    "div",
    { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    el("table", { class: `sheet ${kind}` }, el("thead", null, el("tr", null, head.map((name, i) => el(name ? "th" : "td", { scope: name ? "col" : null, class: cells[0]?.[i].className }, name)))), el("tbody", null, cells.map((row) => el("tr", null, row)))),
  );
}
