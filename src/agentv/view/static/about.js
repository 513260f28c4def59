// @ts-check
// The foot of the HTML file: which version wrote it, from which record, and what is not in it.

import { el } from "./dom.js";
import { formatTime } from "./format.js";

/**
 * @param {import("./types.js").AboutFile} about
 * @param {string} version
 */
export function aboutFile({ written_at: written, notes, ledger }, version) {
  const sums = ledger.flatMap(({ run, files }) => files.map((file) => `${file.sha256}  ${run}/${file.name}\n`)).join("");
  return el(
    "footer",
    { class: "about" },
    el("p", null, `Written by agentv ${version}, ${formatTime(written)}. `, notes.join(" ")),
    sums && el("details", null, el("summary", null, "SHA-256 of the record"), el("pre", null, sums)),
  );
}
