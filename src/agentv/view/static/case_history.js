// @ts-check
// The same case in other runs.

import { trend } from "./charts.js";
import { el } from "./dom.js";
import { formatTime, runName } from "./format.js";
import { address } from "./router.js";
import { ERROR, PASS } from "./run_model.js";
import { variantOf } from "./variants.js";

/** @typedef {import("./types.js").HistoryEntry} HistoryEntry */
/** @typedef {import("./types.js").Row} Row */

/**
 * Since when a case passes or not, in a sentence.
 * @param {HistoryEntry[]} entries Oldest first.
 */
function historySentence(entries) {
  const here = entries.findIndex((entry) => entry.is_this);
  const scored = entries.slice(0, here + 1).filter((entry) => entry.outcome !== ERROR);
  if (scored.length < 2 || !scored.at(-1)?.is_this) return "";
  const passes = entries[here].outcome === PASS;
  const before = scored.findLastIndex((entry) => (entry.outcome === PASS) !== passes);
  if (before < 0) {
    const [all, none] = scored.length === 2 ? ["both", "neither of the 2"] : [`all ${scored.length}`, `none of the ${scored.length}`];
    return `It passed in ${passes ? all : none} runs up to this one.`;
  }
  const [last, since] = scored.slice(before);
  // Also what changed in runs between the two that have no score of this case.
  const changed = entries.slice(entries.indexOf(last) + 1, entries.indexOf(since) + 1).flatMap((entry) => entry.changed);
  return `${passes ? "Passes" : "Does not pass"} since ${since.is_this ? "this run" : runName(since)}; ${runName(last)} was the last run in which it ${passes ? "did not pass" : "passed"}. What changed: ${changed.join("; ") || "nothing that is recorded"}.`;
}

/**
 * @param {HistoryEntry[]} entries
 * @param {Row} row
 * @param {(run: string) => boolean} isHere Whether the pages of a run can be opened.
 */
export function historyView(entries, row, isHere) {
  if (entries.length < 2) return el("p", { class: "muted" }, "No other run of this project has this case with this target.");
  const points = entries.map((entry) => ({
    label: formatTime(entry.started_at).slice(5, 10),
    name: `${runName(entry)}, ${formatTime(entry.started_at)}${entry.attempts > 1 ? `, ${entry.passes} of ${entry.attempts} attempts passed` : ""}`,
    mean: entry.outcome === ERROR ? null : entry.score,
    outcome: entry.outcome,
    changed: entry.changed,
    current: entry.is_this,
    href: isHere(entry.address) && !entry.is_this ? address(["run", entry.address, "case", row.suite, row.eval_id, variantOf(row.target, row.prompt), 1]) : undefined,
  }));
  return [el("p", null, historySentence(entries)), trend(points, { title: "Score of this case in each run", quiet: true, passLine: row.threshold })];
}
