// @ts-check
// What was asked and expected, what was answered, and what the case brings along.

import { el } from "./dom.js";
import { fold } from "./letters.js";
import { contentBlocks, roleOf, textOf } from "./message_view.js";
import { textBlock } from "./text_view.js";
import { stepItem, stepsOf } from "./steps.js";

/** @typedef {import("./types.js").CaseRecord} CaseRecord */
/** @typedef {import("./types.js").Row} Row */
/** @typedef {import("./types.js").Message} Message */

const WITHOUT_CASES = "The question is not in this record, which is of an older version of agentv.";
const MOST_CONTEXT = 40;
const LONGEST_FACT = 60;

/**
 * The question and what is expected, as cards.
 * @param {CaseRecord|null} record
 */
export function questionView(record) {
  return el("div", { class: "cards" }, el("section", { class: "card" }, record ? asked(record) : [el("h2", null, "Question"), el("p", { class: "muted" }, WITHOUT_CASES)]), expectedView(record));
}

/** What is expected, as a card; null if nothing is. @param {CaseRecord|null} record */
export function expectedView(record) {
  const { expected_outcome: outcome, reference_answer: reference, expected_messages: expected = [] } = record ?? {};
  const isRepeated = expected.length === 1 && !expected[0].tool_calls?.length && textOf(expected[0]) === reference;
  const messages = isRepeated ? [] : expected;
  return (
    (outcome || reference || messages.length > 0) &&
    el(
      "section",
      { class: "card" },
      el("h2", null, "Expected"),
      outcome && textBlock(outcome, { title: "Outcome" }),
      reference && textBlock(reference, { title: "Reference answer" }),
      messages.length > 0 && fold("Expected messages", () => stepList(messages), { open: messages.length < 6 }),
    )
  );
}

/** What was sent, with the prompt inserted. @param {CaseRecord} record */
function asked({ input_messages: messages, prompt }) {
  const title = el("h2", null, "Question", prompt && el("span", { class: "muted" }, ` prompt ${prompt}`));
  const [{ role, content } = { role: "", content: "" }] = messages;
  if (messages.length < 2 && typeof content === "string" && (role === "user" || !role)) return [textBlock(content, { title, name: "question" })];
  return [title, ...messages.flatMap((message) => [...contentBlocks(message.content, roleOf(message)), message.tool_calls?.length ? stepList([{ ...message, content: null }]) : null])];
}

/** @param {Message[]} messages */
function stepList(messages) {
  return el("ol", { class: "steps" }, stepsOf(messages).map((step) => stepItem(step)));
}

/** @param {Row} row */
export function answerView({ candidate_answer: answer, finish_reason: reason }) {
  return el(
    "section",
    { class: "card answer" },
    ["length", "max_tokens"].includes(reason ?? "") && el("p", { class: "note" }, `The answer ended at the token limit (finish reason ${reason}).`),
    textBlock(answer, { title: el("h2", null, "Answer"), name: "answer" }),
  );
}

/** Metadata that fits into a line: name and value. @param {Record<string, any>} metadata @returns {[string, string][]} */
export function shortMetadata(metadata) {
  return Object.entries(metadata).flatMap(([key, value]) => (isShort(value) ? [[key, String(value)]] : []));
}

/** @param {any} value */
function isShort(value) {
  return value === null || (typeof value !== "object" && String(value).length <= LONGEST_FACT && !String(value).includes("\n"));
}

/**
 * Metadata that is longer, such as retrieved passages; null if there is none.
 * @param {Record<string, any>} metadata
 */
export function contextView(metadata) {
  const long = Object.entries(metadata).filter(([, value]) => !isShort(value));
  const passages = (/** @type {any} */ value) => Array.isArray(value) && value.length <= MOST_CONTEXT && value.every((one) => typeof one === "string");
  return (
    long.length > 0 &&
    el(
      "section",
      { class: "card" },
      el("h2", null, "Context"),
      long.flatMap(([title, value]) => (passages(value) ? [el("h3", null, title), el("ol", { class: "context" }, value.map((/** @type {string} */ text) => el("li", null, textBlock(text, { bare: true, lines: 6 }))))] : [textBlock(value, { title })])),
    )
  );
}
