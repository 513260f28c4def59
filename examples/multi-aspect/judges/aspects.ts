/** Aspects of an answer, each graded by the target that the suite names for it; the score is their weighted mean. */

import { defineCodeJudge } from "@agentv/eval";

interface Aspect {
  name: string;
  weight: number;
  ask: string;
  target?: string;
}

defineCodeJudge(async (input, judge) => {
  if (!judge) throw new Error("this judge asks a model: add `judge: {max_calls: 9}` to its evaluator");
  const aspects: Aspect[] = input.config?.aspects;
  const material = {
    question: input.question ?? "",
    "expected answer": input.referenceAnswer ?? "",
    answer: input.candidateAnswer ?? "",
  };
  const grades = await judge.verdicts<number>(
    aspects.map(({ ask, target }) => ({ question: `${ask} 0: no, 10: fully.`, material, target })),
    { schema: { type: "integer", minimum: 0, maximum: 10 } },
  );
  const graded = aspects.map((aspect, index) => ({ ...aspect, grade: grades[index]! }));
  const total = graded.reduce((sum, { weight }) => sum + weight, 0);
  return {
    score: graded.reduce((sum, { weight, grade }) => sum + (weight * grade) / 10, 0) / total,
    reasoning: graded.map(({ name, grade }) => `${name} ${grade}/10`).join(", "),
  };
});
