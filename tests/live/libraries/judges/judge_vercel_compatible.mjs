import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateObject } from "ai";
import { z } from "zod";
import { run } from "./scenario.mjs";

const judge = createOpenAICompatible({
  name: "judge",
  baseURL: process.env.OPENAI_BASE_URL,
  apiKey: process.env.OPENAI_API_KEY,
  supportsStructuredOutputs: true,
});

await run(async (given) => {
  const { object } = await generateObject({
    model: judge("gpt-4o"),
    schema: z.object({ score: z.number() }),
    prompt: `How good is this answer? ${given.candidate_answer}`,
  });
  return object.score;
});
