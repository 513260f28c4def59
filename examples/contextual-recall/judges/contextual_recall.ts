/** Contextual recall: the share of statements of the expected answer that a retrieved passage supports. */

import { defineCodeJudge } from "@agentv/eval";

const ASK =
  "Which passage supports each statement? Answer with the number of the passage, or 0 when none does, in order.";

const numbered = (lines: string[]) => lines.map((line, index) => `${index + 1}. ${line}`).join("\n");

defineCodeJudge(async (input, judge) => {
  if (!judge) throw new Error("this judge asks a model: add `judge: {max_calls: 3}` to its evaluator");
  const statements = (input.referenceAnswer ?? "").trim().split(/(?<=[.!?])\s+/);
  const calls = input.outputMessages.flatMap((message) => message.tool_calls ?? []);
  const passages = calls.filter((call) => call.tool === "search").flatMap((call) => call.output as string[]);
  if (passages.length === 0) return { score: 0, misses: statements, reasoning: "the search found nothing" };

  const sources = await judge.verdict<number[]>({
    question: ASK,
    material: { question: input.question ?? "", statements: numbered(statements), passages: numbered(passages) },
    schema: {
      type: "array",
      items: { type: "integer", minimum: 0, maximum: passages.length },
      minItems: statements.length,
      maxItems: statements.length,
    },
  });
  return {
    score: sources.filter((source) => source > 0).length / sources.length,
    hits: statements.flatMap((statement, index) => (sources[index] ? [`${statement} (passage ${sources[index]})`] : [])),
    misses: statements.filter((_, index) => sources[index] === 0),
  };
});
