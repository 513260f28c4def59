import OpenAI from "openai";
import { zodResponseFormat } from "openai/helpers/zod";
import { z } from "zod";
import { run } from "./scenario.mjs";

const Verdict = z.object({ score: z.number() });

await run(async (given) => {
  const reply = await new OpenAI().chat.completions.parse({
    model: "gpt-4o",
    messages: [{ role: "user", content: `How good is this answer? ${given.candidate_answer}` }],
    response_format: zodResponseFormat(Verdict, "verdict"),
  });
  return reply.choices[0].message.parsed.score;
});
