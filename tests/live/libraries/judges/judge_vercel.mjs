import { openai } from "@ai-sdk/openai";
import { generateObject } from "ai";
import { z } from "zod";
import { run } from "./scenario.mjs";

await run(async (given) => {
  const { object } = await generateObject({
    model: openai("gpt-4o"),
    schema: z.object({ score: z.number() }),
    prompt: `How good is this answer? ${given.candidate_answer}`,
  });
  return object.score;
});
