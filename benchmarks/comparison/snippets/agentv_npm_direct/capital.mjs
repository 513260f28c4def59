import { readFileSync } from "node:fs";

const input = JSON.parse(readFileSync(0, "utf8"));
const content = `Does the answer name the capital? Answer yes or no.\n\n${input.output}`;
const response = await fetch(`${process.env.OPENAI_BASE_URL}/chat/completions`, {
  method: "POST",
  headers: { Authorization: `Bearer ${process.env.OPENAI_API_KEY}`, "Content-Type": "application/json" },
  body: JSON.stringify({ model: process.env.JUDGE_MODEL, messages: [{ role: "user", content }] }),
});
const reply = await response.json();
if (!response.ok) throw new Error(reply.error.message);
console.log(JSON.stringify({ score: /^yes\.?$/i.test(reply.choices[0].message.content.trim()) ? 1 : 0 }));
