import { readFileSync } from "node:fs";

const input = JSON.parse(readFileSync(0, "utf8"));
const response = await fetch(`${process.env.AGENTV_TARGET_PROXY_URL}/invoke`, {
  method: "POST",
  headers: {
    Authorization: `Bearer ${process.env.AGENTV_TARGET_PROXY_TOKEN}`,
    "Content-Type": "application/json",
  },
  body: JSON.stringify({ question: `Does the answer name the capital? Answer yes or no.\n\n${input.output}` }),
});
const reply = await response.json();
if (!response.ok) throw new Error(reply.error);
console.log(JSON.stringify({ score: /^yes\.?$/i.test(reply.rawText.trim()) ? 1 : 0 }));
