// @ts-check
// Small marks for verdicts and scores, used by several pages.

import { el, set, showText, vary } from "./dom.js";
import { formatScore } from "./format.js";
import { OUTCOMES } from "./run_model.js";

const BAR = 4.5; // The width of a score of 1, in rem.
const SHAPES = ["●", "◐", "✕", "▲", "◌"];

/**
 * A verdict as shape and word.
 * @param {number} outcome
 * @param {string} [more] Follows the word, such as `2/3`.
 * @param {Element} [mark] Used again.
 */
export function verdictMark(outcome, more, mark = el("span")) {
  mark.className = `verdict ${OUTCOMES[outcome]}`;
  return showText(mark, `${OUTCOMES[outcome]}${more ? ` ${more}` : ""}`);
}

/**
 * A score as a bar with its number, and the pass line drawn if it is known. NaN and null are shown as a dash.
 * @param {number|null} score
 * @param {number|null} [threshold]
 * @param {HTMLElement|null} [used] In a table: the bar that the cell has, null if it has none.
 */
export function scoreBar(score, threshold, used) {
  const bar = used ?? el("span");
  const [known, needs] = [score ?? NaN, threshold ?? NaN];
  const hasLine = !Number.isNaN(needs);
  bar.className = `score number${hasLine ? " line" : ""}${known < needs ? " is-low" : ""}`;
  // A changed title makes browsers compute its style again: in a table, it is set when the pointer is on it.
  bar.removeAttribute("title");
  set(bar, used !== undefined ? "data-title" : "title", hasLine ? `${formatScore(known)}, needs ${formatScore(needs)}` : null);
  showText(bar, formatScore(known));
  const size = `${BAR * Math.min(1, known || 0)}rem 0.5rem, ${BAR}rem 0.5rem`;
  vary(bar, "background-size", hasLine ? `2px 0.875rem, ${size}` : size);
  return hasLine ? vary(bar, "background-position", `calc(${BAR * Math.min(1, needs)}rem - 1px) 50%, 0 50%, 0 50%`) : bar;
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
