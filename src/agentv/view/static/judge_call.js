// @ts-check
// One judge call: who was asked, what it cost, the prompt and the reply.

import { el } from "./dom.js";
import { facts } from "./facts.js";
import { formatCost, formatMs, formatTime, formatTokens, plural } from "./format.js";
import { fold } from "./letters.js";
import { contentBlocks, roleOf } from "./message_view.js";
import { textBlock } from "./text_view.js";

/** @typedef {import("./types.js").JudgeCall} JudgeCall */

const WITHOUT_IO = "The prompt and the reply were not recorded. Run again with --judge-io all to record them.";

/** Whether an answer ended as usual. @param {string|null|undefined} reason */
export const isUsualEnd = (reason) => !reason || ["stop", "end_turn"].includes(reason);

/** What is unusual about a call, in words. @param {JudgeCall} call */
export function remarks({ retries, cache_hit, replayed, batch, asked_model, waited_ms = 0, finish_reason: reason }) {
  return [
    retries && plural(retries, "retry", "retries"),
    cache_hit && "from the cache",
    replayed && "replayed from the record",
    batch && "in a batch",
    asked_model && `asked for ${asked_model}`,
    waited_ms >= 50 && `waited ${formatMs(waited_ms)}`,
    !isUsualEnd(reason) && `finish reason ${reason}`,
  ].filter(Boolean);
}

/**
 * @param {JudgeCall} call
 * @param {{href?: string, named?: boolean}} [options] The address of the call; whether its evaluator is named.
 */
export function judgeCall(call, { href, named } = {}) {
  const { status, code, model, target } = call;
  const made = fold(
    [
      el("strong", null, `${named ? call.evaluator : "Call"} ${call.index}`),
      el("span", { class: "mono" }, model ? `${target} (${model})` : target),
      el("span", { class: status !== "ok" && "verdict error" }, code && status !== "ok" ? `${status} (${code})` : status),
      ...remarks(call).map((text) => el("span", { class: "badge" }, text)),
      el("span", { class: "muted small" }, [formatMs(call.duration_ms), call.token_usage && formatTokens(call.token_usage), costOf(call)].filter(Boolean).join(" · ")),
    ],
    () => el("div", { class: "fold-body" }, callBody(call, href)),
    { class: "call" },
  );
  made.dataset.call = String(call.index);
  return made;
}

/** @param {{cost_usd?: number|null}} spent */
export function costOf({ cost_usd: cost }) {
  return typeof cost === "number" ? formatCost(cost) : "cost unknown";
}

/**
 * @param {JudgeCall} call
 * @param {string} [href]
 */
function callBody({ messages = [], question, reply = null, ...call }, href) {
  const asked = messages.length || !question ? messages : [{ role: "user", content: question }];
  const text = reply?.rawText;
  return [
    call.error && el("div", { class: "note is-error" }, textBlock(call.error, { title: "Error" })),
    facts([
      ["Started", call.started_at && formatTime(call.started_at)],
      ["Request", call.request_sha256 && el("code", null, call.request_sha256.slice(0, 12))],
      ["Address", href && el("a", { href }, "Link to this call")],
    ]),
    asked.length === 0 && reply === null && el("p", { class: "muted" }, WITHOUT_IO),
    call.system_prompt && textBlock(call.system_prompt, { title: "System prompt", lines: 4 }),
    ...asked.flatMap((message) => contentBlocks(message.content, asked.length < 2 && message.role === "user" ? "Prompt" : `Prompt · ${roleOf(message)}`)),
    call.options && textBlock(call.options, { title: "Options" }),
    call.dropped_options && textBlock(call.dropped_options, { title: "Options that were not sent" }),
    reply !== null && textBlock(text || reply, { title: "Reply" }),
    text && fold("Whole reply as JSON", () => textBlock(reply, { name: "whole reply" })),
  ];
}
