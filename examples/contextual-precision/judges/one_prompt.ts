/** Contextual precision with one judge call for all passages: the reply is an array of judgments. */

import { defineCodeJudge } from "@agentv/eval";

import { isYes, passagesOf, result } from "./ranking.js";

const ASK =
  'Which passages help to answer the question? Answer with a JSON array: "yes" or "no" for each passage, in order.';

defineCodeJudge(async (input, judge) => {
  if (!judge) throw new Error("this judge asks a model: add `judge: {max_calls: 1}` to its evaluator");
  const passages = passagesOf(input);
  if (passages.length === 0) return { score: 0, misses: ["the search found nothing"] };
  const listed = passages.map((passage, index) => `${index + 1}. ${passage}`).join("\n");
  const reply = await judge.invoke({ question: `${ASK}\n\nQuestion: ${input.question}\n\nPassages:\n${listed}` });
  // Many models put the array in a code fence, or a sentence before it.
  const array = /\[[^[\]]*\]/.exec(reply.rawText);
  if (!array) throw new Error(`the judge's reply contains no JSON array: ${reply.rawText.slice(0, 200)}`);
  const judgments: string[] = JSON.parse(array[0]);
  return result(passages, judgments.map(isYes));
});
