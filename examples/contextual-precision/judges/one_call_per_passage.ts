/** Contextual precision with one judge call per passage, made concurrently. */

import { defineCodeJudge } from "@agentv/eval";

import { isYes, passagesOf, result } from "./ranking.js";

const ASK = "Does the passage help to answer the question? Answer yes or no, and nothing else.";

defineCodeJudge(async (input, judge) => {
  if (!judge) throw new Error("this judge asks a model: add `judge: {max_calls: 10}` to its evaluator");
  const passages = passagesOf(input);
  if (passages.length === 0) return { score: 0, misses: ["the search found nothing"] };
  const replies = await judge.invokeBatch(
    passages.map((passage) => ({ question: `${ASK}\n\nQuestion: ${input.question}\n\nPassage: ${passage}` })),
  );
  for (const reply of replies) {
    if (reply.error) throw new Error(`a passage could not be judged: ${reply.error}`);
  }
  return result(passages, replies.map((reply) => isYes(reply.rawText)));
});
