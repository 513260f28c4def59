// @ts-check
// Sections that Python wrote: words, links, lists, tables and charts. See src/agentv/view/sections.py.

import { commandsView } from "./case_share.js";
import { forest, histogram } from "./charts.js";
import { el } from "./dom.js";
import { fold } from "./letters.js";
import { address, go } from "./router.js";
import { sheet } from "./sheet.js";

/** @typedef {import("./types.js").Block} Block */
/** @typedef {import("./types.js").Cell} Cell */

/** @param {Cell} cell */
function words(cell) {
  return [cell].flat().map((part) => (typeof part === "string" ? part : el(part.href ? "a" : "span", { href: part.href, class: part.kind, title: part.title }, part.text)));
}

/** @param {Block} block @returns {HTMLElement} */
function blockView(block) {
  const { kind, title = "", blocks = [] } = block;
  if (block.text) return el("p", { class: kind }, words(block.text));
  if (block.items) return el("ul", { class: kind }, block.items.map((item) => el("li", null, words(item))));
  if (block.rows) return sheet(block.caption ?? "", block.head ?? [], block.rows.map((row) => row.map(words)), kind);
  if (block.commands) return commandsView({ commands: block.commands });
  if (block.effects) return forest(block.effects, { title, axis: block.axis ?? "" });
  if (block.counts) return histogram({ counts: block.counts }, { title, noun: "row", onSelect: block.field ? filterBy(block) : undefined });
  if (block.summary) return fold(block.summary, () => blocks.map(blockView), { open: block.open });
  return el("div", { class: kind ?? "stack" }, title && el("h3", null, title), blocks.map(blockView));
}

/** A card of a page. @param {Block} section */
export function sectionView({ kind = "", title, blocks = [] }) {
  return el("section", { class: `card ${kind}` }, title && el("h2", null, title), blocks.map(blockView));
}

/** Show the rows of the chosen bins of a histogram. @param {Block} block */
function filterBy({ run = "", field }) {
  return (/** @type {[number, number]|null} */ range) => {
    if (range) go(address(["run", run], { f: `${field}>=${range[0]}${range[1] < 1 ? ` and ${field}<${range[1]}` : ""}` }));
  };
}
