import { Factuality } from "autoevals";
import { run } from "./scenario.mjs";

await run(async (given) => {
  const input = "What is the capital of France?";
  const result = await Factuality({ input, output: given.candidate_answer, expected: "It is Paris." });
  return result.score;
});
