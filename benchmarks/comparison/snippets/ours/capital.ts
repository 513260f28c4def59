import { defineCodeJudge } from "@agentv/eval";

defineCodeJudge(async (input, judge) => {
  const verdict = await judge!.verdict({
    question: "Does the answer name the capital?", material: input.candidateAnswer, choices: ["yes", "no"],
  });
  return verdict === "yes" ? 1 : 0;
});
