/** Judges a letter to a customer: the checks run first, and only letters that pass them need a judge call. */

import { defineCodeJudge } from "@agentv/eval";

defineCodeJudge(async (input, judge) => {
  if (!judge) throw new Error("this judge asks a model: add `judge: {max_calls: 3}` to its evaluator");
  const text = input.candidateAnswer ?? "";
  const forbidden: string[] = input.config?.forbidden;
  const problems = forbidden.filter((word) => text.toLowerCase().includes(word)).map((word) => `says '${word}'`);
  if (!text.includes(input.metadata?.order)) problems.push("does not name the order");
  if (text.split(/\s+/).length > input.config?.max_words) problems.push("is too long");
  if (/\[[A-Z ]+\]/.test(text)) problems.push("has a gap that was not filled in");
  if (problems.length > 0) return { score: 0, misses: problems, reasoning: "the judge was not asked" };

  const grade = await judge.verdict<number>({
    question: "How kind and helpful is this letter to a customer, from 1 (rude) to 5 (kind and helpful)?",
    material: { "the customer": input.question ?? "", "the letter": text },
    schema: { type: "integer", minimum: 1, maximum: 5 },
  });
  return { score: (grade - 1) / 4, reasoning: `kind and helpful: ${grade} of 5` };
});
