// NAME: a judge script for agentv.
//
// In a suite:
//
//     evaluators:
//       - name: NAME
//         type: code_judge
//         script: [node, judges/NAME.ts]   # relative to the suite
//         judge: {max_calls: 5}            # lets the script call the judge target; optional
//         config: {max_words: 50}          # available as input.config
//
// Needs @agentv/eval (see sdk/typescript/README.md in the agentv repository), and Node 22.18 or newer, Bun or Deno, which
// run TypeScript directly. With an older Node, compile it with `tsc` first.
// Develop it with:  agentv judge run NAME.ts --suite SUITE --case ID --watch

import { createJudgeProxyClient, defineCodeJudge } from "@agentv/eval";

defineCodeJudge(async (input) => {
  const hits: string[] = [];
  const misses: string[] = [];
  const check = (passed: boolean, label: string) => (passed ? hits : misses).push(label);
  const answer = input.candidateAnswer ?? "";

  // Check in code whatever code can decide: it is exact, free and reproducible.
  const limit = Number(input.config?.max_words ?? 50);
  check(answer.split(/\s+/).filter(Boolean).length <= limit, `at most ${limit} words`);

  // Ask the judge model about the rest. Without judge access, the client is undefined.
  let reasoning = "no judge was called";
  const judge = createJudgeProxyClient();
  if (judge) {
    const expected = input.expectedOutcome ?? input.referenceAnswer ?? "a correct answer";
    const reply = await judge.invoke({
      question:
        "Does the answer do what the question asks? Begin with yes or no, then explain why.\n\n" +
        `Question: ${input.question}\nExpected: ${expected}\nAnswer: ${answer}`,
    });
    reasoning = reply.rawText;
    check(/^\s*yes/i.test(reasoning), "does what the question asks");
  }

  console.error(`${hits.length} of ${hits.length + misses.length} checks passed`); // stderr is the script's log
  // Let exceptions propagate: they are reported as errors, not as low scores.
  return { score: hits.length / (hits.length + misses.length), hits, misses, reasoning };
});
