// @ts-check
// Small marks for verdicts and scores, used by several pages.

import { el, vary } from "./dom.js";
import { formatScore } from "./format.js";
import { OUTCOMES } from "./run_model.js";

const SHAPES = ["●", "◐", "✕", "▲", "◌"];

/**
 * A verdict as shape and word.
 * @param {number} outcome
 * @param {string} [more] Follows the word, such as `2/3`.
 */
export function verdictMark(outcome, more) {
  return el("span", { class: `verdict ${OUTCOMES[outcome]}` }, `${OUTCOMES[outcome]}${more ? ` ${more}` : ""}`);
}

/**
 * A score as a bar with its number, and the pass line drawn if it is known. NaN and null are shown as a dash.
 * @param {number|null} score
 * @param {number|null} [threshold]
 */
export function scoreBar(score, threshold) {
  const [known, needs] = [score ?? NaN, threshold ?? NaN];
  const hasLine = !Number.isNaN(needs);
  const bar = el("span", { class: `score number${hasLine ? " line" : ""}${known < needs ? " is-low" : ""}`, title: hasLine ? `${formatScore(known)}, needs ${formatScore(needs)}` : null }, formatScore(known));
  vary(bar, "--score", Math.min(1, known || 0));
  return vary(bar, "--needs", Math.min(1, needs || 0));
}

/**
 * A rate as a tick on a track from 0 to 1, with its interval.
 * @param {number|null} rate
 * @param {[number, number]|null} interval
 */
export function rateBar(rate, interval) {
  const bar = el("span", { class: "rate-bar", "aria-hidden": "true" }, rate !== null && el("i"));
  vary(bar, "--rate", rate ?? 0);
  vary(bar, "--low", interval?.[0] ?? 0);
  return vary(bar, "--high", interval?.[1] ?? 0);
}

/**
 * Attempts as dots, each a link if addresses are given.
 * @param {ArrayLike<number>} outcomes
 * @param {(string|null)[]} [links]
 * @param {number} [current] The position of the attempt that is open.
 * @param {number[]} [numbers] Of the attempts, if some are missing.
 */
export function dots(outcomes, links, current, numbers) {
  return el(
    "span",
    { class: "dots" },
    Array.from(outcomes, (outcome, i) => {
      const title = `attempt ${numbers?.[i] ?? i + 1}: ${OUTCOMES[outcome]}`;
      const href = links?.[i];
      return el(href ? "a" : "span", { class: `dot ${OUTCOMES[outcome]}`, title, "aria-current": i === current && "true", href, tabindex: href && "-1" }, el("span", { "aria-hidden": "true" }, SHAPES[outcome]), el("span", { class: "off-screen" }, title));
    }),
  );
}
