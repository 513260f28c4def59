// @ts-check
// Two trajectories side by side, aligned by tool call.

import { alignSteps } from "./diff.js";
import { el } from "./dom.js";
import { plural } from "./format.js";
import { fold } from "./letters.js";
import { textOf } from "./message_view.js";
import { stepItem, stepsOf } from "./steps.js";

/** @typedef {import("./types.js").Message} Message */
/** @typedef {ReturnType<typeof comparable>[number]} AlignedStep */
/** @typedef {{kind: 'same'|'changed'|'one'|'two', one: AlignedStep|null, two: AlignedStep|null}} AlignedPair */

const WORDS = { same: "same", changed: "changed", one: "only in the baseline", two: "only in the candidate" };
/** Steps that are drawn; trajectories can have thousands. */
const PAGE = 100;

/**
 * null if neither has a tool call: then the answers say it all.
 * @param {Message[]} [one]
 * @param {Message[]} [two]
 */
export function alignedSteps(one = [], two = []) {
  const pairs = alignSteps(comparable(one), comparable(two));
  if (!pairs.some((pair) => (pair.one ?? pair.two)?.isCall)) return null;
  const counts = Object.entries(WORDS).flatMap(([kind, words]) => {
    const count = pairs.filter((pair) => pair.kind === kind).length;
    return count ? [`${count} ${words}`] : [];
  });
  return el("section", { class: "card", "aria-label": "Trajectories" }, el("h2", null, "Trajectories"), el("p", { class: "muted" }, `${plural(pairs.length, "step")}: ${counts.join(", ")}.`), stepPairs(pairs));
}

/** @param {Message[]} messages */
function comparable(messages) {
  return stepsOf(messages).map((step) => ({ name: step.name, isCall: step.call !== null, input: step.call ? step.call.input : textOf(step.message), output: step.call?.output, step }));
}

/** @param {AlignedPair[]} pairs @returns {HTMLElement} */
function stepPairs(pairs) {
  const rest = pairs.slice(PAGE);
  return el("div", { class: "stack" }, pairs.slice(0, PAGE).map(stepPair), rest.length > 0 && fold(plural(rest.length, "more step"), () => stepPairs(rest)));
}

/** @param {AlignedPair} pair */
function stepPair({ kind, one, two }) {
  const badge = el("span", { class: "badge" }, WORDS[kind]);
  const item = (/** @type {AlignedStep|null} */ side) => el("ol", { class: "steps" }, side && stepItem(side.step));
  return el("div", { class: `step-pair ${kind}` }, kind === "same" ? fold([badge, ` ${two?.name}`], () => item(two)) : [badge, el("div", { class: "sides" }, item(one), item(two))]);
}
