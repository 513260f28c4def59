// @ts-check
// What the judges, and other people, said about an answer that was labelled.

import { thresholdOf, verdictLine } from "./case_head.js";
import { el } from "./dom.js";
import { allRecords, evaluatorView, outcomeOf } from "./evaluator_view.js";
import { variantOf } from "./variants.js";

/** @typedef {import("./types.js").Detail} Detail */
/** @typedef {import("./types.js").Label} Label */

/**
 * Whether the verdict on an answer is that of a label, in a sentence.
 * @param {Label["label"]} label
 * @param {Detail} detail
 */
export function agreement(label, { row }) {
  if (row.error) return "The answer could not be judged.";
  return label === "unsure" ? "" : `The verdict is ${(label === "pass") === (row.verdict === "pass") ? "the same" : "different"}.`;
}

/**
 * @param {Detail} detail
 * @param {Label} mine
 * @param {Label[]} others
 * @param {string} href The address of the case.
 */
export function judgedView(detail, mine, others, href) {
  const { row } = detail;
  const records = allRecords(detail.case?.evaluators);
  return el(
    "section",
    { class: "card judged" },
    el("h2", null, "What the judges say"),
    verdictLine(outcomeOf(row), row.score, thresholdOf(detail)),
    el("p", null, `You say ${mine.label}. ${agreement(mine.label, detail)}`),
    el("div", { class: "evaluators" }, (row.evaluator_results ?? []).map((result) => evaluatorView(result, { records, calls: detail.judge_calls }))),
    others.map(({ by, label, note }) => el("p", null, el("strong", null, by), `: ${label}`, note && ` – ${note}`)),
    el("p", null, el("a", { href }, "Open the case"), el("span", { class: "muted" }, ` ${variantOf(row.target, row.prompt)}, attempt ${row.attempt}`)),
  );
}
