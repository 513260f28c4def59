// Run it with:  node --test NAME.test.ts

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { test } from "node:test";

function judged(payload: Record<string, unknown>) {
  const { AGENTV_JUDGE_PROXY_URL, AGENTV_JUDGE_PROXY_TOKEN, ...env } = process.env; // nobody is asked here
  const script = fileURLToPath(new URL("./NAME.ts", import.meta.url));
  const done = spawnSync(process.execPath, [script], { input: JSON.stringify(payload), encoding: "utf8", env });
  assert.equal(done.status, 0, done.stderr);
  return JSON.parse(done.stdout);
}

test("a short answer passes", () => {
  const result = judged({ candidate_answer: "Paris." });
  assert.equal(result.score, 1);
  assert.deepEqual(result.misses, []);
});

test("a long answer is a miss", () => {
  const result = judged({ candidate_answer: "one two three four", config: { max_words: 3 } });
  assert.equal(result.score, 0);
  assert.deepEqual(result.misses, ["at most 3 words"]);
});
