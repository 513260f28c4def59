// @ts-check
// How the mean score of each suite and target changed over runs.

import { trend } from "./charts.js";
import { el } from "./dom.js";
import { formatDelta, formatTime, plural } from "./format.js";
import { fold } from "./letters.js";
import { address } from "./router.js";

/** @typedef {import("./types.js").TrendLine} TrendLine */

/** Lines above the list: more would push it out of view. */
const FIRST = 2;
/** @type {Record<string, string>} */
const WORDS = { worse: "significantly worse", better: "significantly better", same: "the same", unclear: "no significant difference", too_few: "too few cases" };

/**
 * @param {TrendLine[]} all
 * @param {(run: string) => string} nameOf
 */
export function trendCard(all, nameOf) {
  const lines = all.toSorted((one, other) => Number(other.degrading) - Number(one.degrading) || other.points.length - one.points.length);
  if (!lines.length) return el("p", { class: "muted" }, "A trend needs at least two runs of the same suite with the same target.");
  const drawn = (/** @type {TrendLine[]} */ some) => el("div", { class: "trend-lines" }, some.map((line) => trendLine(line, nameOf)));
  return el("section", { class: "card trends", "aria-label": "Trend" }, el("h2", null, "Trend"), drawn(lines.slice(0, FIRST)), lines.length > FIRST && fold(`${lines.length - FIRST} more`, () => drawn(lines.slice(FIRST))));
}

/** @param {TrendLine} line @param {(run: string) => string} nameOf */
function trendLine({ suite, target, points, tests, left_out: leftOut, note, degrading }, nameOf) {
  const notes = [
    ...tests.map(({ against, mean_delta: delta, interval, conclusion }) => `Latest against ${against}: ${formatDelta(delta)}${interval ? ` (${interval.map(formatDelta).join(" to ")})` : ""}, ${WORDS[conclusion] ?? conclusion}.`),
    ...leftOut.map(({ run_id: run, reason }) => `${nameOf(run)} is left out: ${reason}.`),
    ...(note && !leftOut.length ? [`Note: ${note}.`] : []),
  ];
  return el(
    "div",
    null,
    trend(
      points.map((point) => ({
        label: formatTime(point.started_at).slice(5, 10),
        name: `${nameOf(point.run_id)}, ${formatTime(point.started_at)}, ${plural(point.shared_cases, "case")}`,
        mean: point.mean_score,
        interval: point.mean_interval,
        changed: point.changed,
        href: address(["run", point.run_id]),
      })),
      { title: `${suite}, target ${target}` },
    ),
    degrading && el("p", { class: "note bad" }, "Degrading: the latest run is significantly worse."),
    el("ul", { class: "muted small" }, notes.map((one) => el("li", null, one))),
  );
}
