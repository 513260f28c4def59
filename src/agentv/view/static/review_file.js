// @ts-check
// Labels that were given in the HTML file: they are kept until the page is closed, so they can be saved as a file.

import { button, download, el } from "./dom.js";
import { plural } from "./format.js";

/** @type {Map<string, string>} Labels that were downloaded, by run. */
const TAKEN = new Map();

/**
 * @param {import("./types.js").Source} source
 * @param {string} run
 */
export function keptInFile(source, run) {
  const lines = /** @type {import("./file_source.js").FileSource} */ (source).savedLabels(run);
  return {
    unsaved: lines !== (TAKEN.get(run) ?? ""),
    element: el(
      "p",
      { class: "note no-print" },
      "Labels are kept in this page until you close it; agentv view saves them directly. ",
      lines && [button(`Download labels.jsonl (${plural(lines.split("\n").length - 1, "line")})`, () => (TAKEN.set(run, lines), download("labels.jsonl", lines))), " and append it to ", el("code", null, `.agentv/runs/${run}/labels.jsonl`)],
    ),
  };
}
