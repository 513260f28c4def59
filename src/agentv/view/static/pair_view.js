// @ts-check
// One case in both runs: what was asked, both answers, both trajectories, and how each was judged.

import { expectedView, questionView } from "./case_texts.js";
import { deltaMark } from "./compare_pairs.js";
import { wordDiff } from "./diff.js";
import { el } from "./dom.js";
import { allRecords, evaluatorView } from "./evaluator_view.js";
import { runName } from "./format.js";
import { fold, visible } from "./letters.js";
import { dots, scoreBar, verdictMark } from "./marks.js";
import { alignedSteps } from "./pair_steps.js";
import { textBlock } from "./text_view.js";
import { conversationView } from "./turns_view.js";

/** @typedef {import("./types.js").CompareData} CompareData */
/** @typedef {import("./types.js").Detail} Detail */
/** @typedef {import("./types.js").EvaluatorResult} EvaluatorResult */
/** @typedef {import("./run_model.js").RunModel} RunModel */

const NAMES = ["Baseline", "Candidate"];
/** Characters of both answers; longer ones are shown without marks. */
const LONGEST = 200_000;

/**
 * @param {CompareData} data
 * @param {number} index The pair.
 * @param {RunModel[]} models
 * @param {(Detail|null)[]} details
 */
export function pairView(data, index, models, details) {
  const [one, two] = details;
  const isByPrompt = data.prompts[0] !== data.prompts[1];
  const talks = details.map((detail, which) => detail && conversationView(detail, { note: data.prompts[which] ?? NAMES[which].toLowerCase() }));
  const isEdited = one?.case && two?.case && one.case.sha256 !== two.case.sha256;
  return el(
    "article",
    { class: "stack" },
    pairHead(data, index, models),
    !(one && two) && el("p", { class: "note" }, "This file does not contain the details of this case in both runs. `agentv report --with all` adds those of all cases."),
    isEdited && !isByPrompt && el("p", { class: "note bad" }, "This case was edited between the runs. The candidate's version is shown."),
    talks.some(Boolean) ? [el("div", { class: "sides" }, talks), expectedView(two?.case ?? null)] : isByPrompt ? el("div", { class: "sides" }, details.map((detail) => questionView(detail?.case ?? null))) : questionView(two?.case ?? one?.case ?? null),
    isEdited && !isByPrompt && !talks[0] && fold("The baseline's version", () => questionView(one.case)),
    one && two && [answers(one, two), alignedSteps(one.row.output_messages, two.row.output_messages), evaluators(one, two)],
  );
}

/** @param {CompareData} data @param {number} index @param {RunModel[]} models */
function pairHead(data, index, models) {
  const { pairs } = data;
  const targets = [...new Set([pairs.target1[index], pairs.target2[index]])].join(" → ");
  const side = (/** @type {RunModel} */ model, /** @type {number} */ which) => {
    const row = which ? pairs.row2[index] : pairs.row1[index];
    const c = model.cases.of[row];
    const attempts = model.cases.rows(c);
    const links = dots(attempts.map((at) => model.outcome[at]), attempts.map((at) => model.caseAddress(at)));
    // In a table, arrow keys move between them; here they are links as others.
    for (const link of links.querySelectorAll("a")) link.removeAttribute("tabindex");
    return el(
      "div",
      null,
      el("dt", null, NAMES[which]),
      el("dd", null, scoreBar(which ? pairs.score2[index] : pairs.score1[index], model.cases.threshold[c]), verdictMark(model.cases.outcome[c])),
      attempts.length > 1 && el("dd", null, el("span", { class: "muted" }, "mean of "), links),
      el("dd", null, el("a", { href: model.caseAddress(row) }, `${attempts.length > 1 ? "Attempt 1" : "Case"} in ${runName(which ? data.b : data.a)}`)),
    );
  };
  return el(
    "header",
    { class: "card pair-head" },
    el("h2", null, visible(pairs.eval_id[index]), " ", el("span", { class: "muted" }, `${pairs.suite[index]} · ${targets}`)),
    el("dl", { class: "pair-scores" }, models.map(side), el("div", null, el("dt", null, "Difference"), el("dd", null, deltaMark(pairs.score1[index], pairs.score2[index])))),
  );
}

/** Both answers with the words that differ marked. @param {Detail} one @param {Detail} two */
function answers(one, two) {
  const texts = [one, two].map(({ row }) => row.candidate_answer ?? "");
  const isSame = texts[0] === texts[1];
  const runs = !isSame && texts[0].length + texts[1].length <= LONGEST && wordDiff(texts[0], texts[1]);
  const side = (/** @type {string} */ text, /** @type {number} */ which) => {
    const marked = runs && text && runs.map((run) => (run.equal ? visible(run.one) : (which ? run.two : run.one) && [el(which ? "ins" : "del", null, visible(which ? run.two : run.one))]));
    return el("div", null, marked ? [el("h3", null, NAMES[which]), el("pre", { class: "letters", tabindex: "0", role: "region", "aria-label": NAMES[which] }, marked.flat())] : textBlock(text, { title: NAMES[which] }));
  };
  return el(
    "section",
    { class: "card diff", "aria-label": "Answers" },
    el("h2", null, "Answers"),
    [one, two].map(({ row: { error } }, which) => error && el("p", { class: "note bad" }, `${NAMES[which]}: error in the ${error.stage}: `, visible(error.message))),
    isSame ? [el("p", { class: "muted" }, "Both are the same."), textBlock(texts[0], { bare: true })] : el("div", { class: "sides" }, texts.map(side)),
  );
}

/** How both answers were judged. Evaluators that differ are open. @param {Detail} one @param {Detail} two */
function evaluators(one, two) {
  const results = [one, two].map((detail) => new Map(detail.row.evaluator_results?.map((result) => [result.name, result])));
  const names = new Set([...results[1].keys(), ...results[0].keys()]);
  const said = (/** @type {EvaluatorResult|undefined} */ result) => JSON.stringify([result?.score, result?.reasoning, result?.hits, result?.misses, result?.error]);
  return (
    names.size > 0 &&
    el(
      "section",
      { class: "card", "aria-label": "Evaluators" },
      el("h2", null, "Evaluators"),
      [...names].map((name) => {
        const [left, right] = results.map((some) => some.get(name));
        const open = said(left) !== said(right);
        const side = (/** @type {Detail} */ detail, /** @type {number} */ which) => {
          const result = results[which].get(name);
          return el("div", null, el("span", { class: "muted small" }, NAMES[which]), result ? evaluatorView(result, { open, records: allRecords(detail.case?.evaluators), calls: detail.judge_calls }) : el("p", { class: "muted" }, "This evaluator did not judge the case."));
        };
        return el("div", { class: "evaluator-pair" }, el("strong", null, name), " ", left && right && !left.error && !right.error && deltaMark(left.score, right.score), el("div", { class: "sides" }, [one, two].map(side)));
      }),
    )
  );
}
