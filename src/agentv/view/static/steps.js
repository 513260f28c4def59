// @ts-check
// The trajectory of a target: its messages and tool calls as numbered steps.

import { el } from "./dom.js";
import { formatMs, plural } from "./format.js";
import { gradually } from "./letters.js";
import { contentBlocks, roleOf } from "./message_view.js";
import { textBlock } from "./text_view.js";

/** @typedef {import("./types.js").Message} Message */
/** @typedef {import("./types.js").ToolCall} ToolCall */

/**
 * A message, or one of its tool calls.
 * @typedef {Object} Step
 * @property {number} number From 1.
 * @property {Message} message
 * @property {ToolCall|null} call
 * @property {string} name The tool, or the role.
 * @property {number} at Milliseconds since 1970; NaN if unknown.
 * @property {number} after Milliseconds since the last step whose time is known.
 * @property {number} [same] The number of the first step with the same tool and input.
 */

const MOST_NAMES = 12;

/**
 * @param {Message[]} [messages]
 * @returns {Step[]}
 */
export function stepsOf(messages = []) {
  /** @type {Map<string, number>} */
  const seen = new Map();
  /** @type {Step[]} */
  const steps = [];
  let known = NaN;
  const add = (/** @type {Message} */ message, /** @type {ToolCall|null} */ call) => {
    const at = Date.parse(call?.timestamp ?? message.timestamp ?? "");
    const number = steps.length + 1;
    const key = call && keyOf(call);
    steps.push({ number, message, call, name: call ? call.tool : roleOf(message), at, after: at - known, same: key ? seen.get(key) : undefined });
    if (key && !seen.has(key)) seen.set(key, number);
    if (!Number.isNaN(at)) known = at;
  };
  for (const message of messages) {
    const calls = message.tool_calls ?? [];
    if (calls.length === 0 || ![null, undefined, ""].includes(message.content)) add(message, null);
    for (const call of calls) add(message, call);
  }
  return steps;
}

/** The same for calls of the same tool with the same input; null if the input is nested too deeply. @param {ToolCall} call */
function keyOf(call) {
  try {
    return JSON.stringify([call.tool, call.input]);
  } catch {
    return null;
  }
}

/** `3 tool calls: find_order, refund x2`; '' without one. @param {Step[]} steps */
export function toolsOf(steps) {
  const names = steps.flatMap(({ call }) => (call ? [call.tool] : []));
  if (names.length === 0) return "";
  const counts = [...new Set(names)].map((name) => {
    const count = names.filter((other) => other === name).length;
    return count > 1 ? `${name} x${count}` : name;
  });
  return `${plural(names.length, "tool call")}: ${counts.slice(0, MOST_NAMES).join(", ")}${counts.length > MOST_NAMES ? ", …" : ""}`;
}

/**
 * The trajectory; null if there is only an answer. Long ones are built a few steps at a time; `built` is one of them.
 * @param {Message[]} [messages]
 * @param {(number: number) => string} [href] The address of a step.
 */
export function trajectory(messages, href) {
  const steps = stepsOf(messages);
  if (steps.length < 2 && !steps[0]?.call) return null;
  const list = el("ol", { class: "steps" });
  const next = () => {
    const step = steps[list.childElementCount];
    if (step) list.append(stepItem(step, href));
    return Boolean(step);
  };
  gradually(next);
  return Object.assign(list, {
    summary: toolsOf(steps) || plural(steps.length, "message"),
    /** The element of a step, which is built now. @param {number} number */
    built: (number) => {
      while (list.childElementCount < number && next());
      return /** @type {HTMLElement|undefined} */ (list.children[number - 1]);
    },
  });
}

/**
 * One step.
 * @param {Step} step
 * @param {(number: number) => string} [href]
 */
export function stepItem({ number, call, message, name, at, after, same }, href) {
  const parts = call ? [["input", call.input], ["output", call.output]].flatMap(([part, value]) => (value ?? null) === null ? [] : [textBlock(value, { title: part, name: `${part} of step ${number}` })]) : contentBlocks(message.content, "", `step ${number}`);
  return el(
    "li",
    { class: call ? "step call" : "step", tabindex: "-1", "aria-label": `Step ${number}: ${call ? "call" : "message"} of ${name}` },
    el(
      "div",
      { class: "step-head" },
      el(href ? "a" : "span", { class: "step-number", href: href?.(number), "aria-label": href && `Link to step ${number}` }, number),
      el("strong", { class: call && "mono" }, name),
      same && el("span", { class: "badge warn" }, `same call as step ${same}`),
      !Number.isNaN(after) && el("span", { class: "muted small", title: "Since the last step whose time is known" }, `${after < 0 ? "-" : "+"}${formatMs(Math.abs(after))}`),
      !Number.isNaN(at) && el("time", { class: "muted small" }, new Date(at).toISOString().slice(11, 23)),
    ),
    parts.length > 0 || call ? parts : el("p", { class: "muted" }, "(empty)"),
  );
}
