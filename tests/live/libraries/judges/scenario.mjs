// Runs the metric of a judge script: `parallel` (three at the same time) or `failing` (two, one after the other).
import { text } from "node:stream/consumers";

const COUNT = 3;

export async function run(metric) {
  const given = JSON.parse(await text(process.stdin));
  const secrets = Object.keys(process.env).filter((name) => process.env[name] === "the-key-of-the-judge");
  if (given.metadata.mode === "parallel") {
    const outcomes = await Promise.allSettled(Array.from({ length: COUNT }, () => metric(given)));
    for (const { reason } of outcomes) if (reason) throw reason;
    const scores = outcomes.map((outcome) => outcome.value);
    console.log(JSON.stringify({ score: scores[0], details: { scores, secrets } }));
    return;
  }
  const score = await metric(given).catch(() => metric(given));
  console.log(JSON.stringify({ score }));
}
