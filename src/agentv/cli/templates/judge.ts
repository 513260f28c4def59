// NAME: a judge script for agentv.
//
// In a suite:
//
//     evaluators:
//       - name: NAME
//         type: code_judge
//         script: [node, judges/NAME.ts]   # relative to the suite
//         judge: {max_calls: 5}            # may ask the judge target; leave it out for a script that asks nobody
//         config: {max_words: 50}          # passed on as input.config
//
// Needs @agentv/eval (its README, in sdk/typescript of agentv, says how to install it), and Node 22.18 or newer, which
// runs TypeScript as it is (also Bun and Deno); with an older Node compile it with `tsc` first.
// While you write it:  agentv judge run NAME.ts --suite SUITE --case ID --watch

import { createJudgeProxyClient, defineCodeJudge } from "@agentv/eval";

defineCodeJudge(async (input) => {
  const hits: string[] = [];
  const misses: string[] = [];
  const check = (good: boolean, what: string) => (good ? hits : misses).push(what);
  const answer = input.candidateAnswer ?? "";

  // What code can decide, code decides: exact, free, the same every time.
  const limit = Number(input.config?.max_words ?? 50);
  check(answer.split(/\s+/).filter(Boolean).length <= limit, `at most ${limit} words`);

  // What needs reading is asked. Without judge access there is nobody to ask: the client is absent.
  let reasoning = "no judge was asked";
  const judge = createJudgeProxyClient();
  if (judge) {
    const expected = input.expectedOutcome ?? input.referenceAnswer ?? "a correct answer";
    const reply = await judge.invoke({
      question:
        "Does the answer do what is asked for? Begin with yes or no, then say why.\n\n" +
        `Asked: ${input.question}\nExpected: ${expected}\nAnswer: ${answer}`,
    });
    reasoning = reply.rawText;
    check(/^\s*yes/i.test(reasoning), "does what is asked for");
  }

  console.error(`${hits.length} of ${hits.length + misses.length} checks passed`); // stderr is the script's log
  // An exception is a failure of the judge and never a low score: there is no need to catch it.
  return { score: hits.length / (hits.length + misses.length), hits, misses, reasoning };
});
