// Run it with:  node --test NAME.test.ts

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { test } from "node:test";

function runJudge(payload: Record<string, unknown>) {
  const { AGENTV_JUDGE_PROXY_URL, AGENTV_JUDGE_PROXY_TOKEN, ...env } = process.env; // no judge access
  const script = fileURLToPath(new URL("./NAME.ts", import.meta.url));
  const completed = spawnSync(process.execPath, [script], { input: JSON.stringify(payload), encoding: "utf8", env });
  assert.equal(completed.status, 0, completed.stderr);
  return JSON.parse(completed.stdout);
}

test("short answer passes", () => {
  const result = runJudge({ candidate_answer: "Paris." });
  assert.equal(result.score, 1);
  assert.deepEqual(result.misses, []);
});

test("long answer is a miss", () => {
  const result = runJudge({ candidate_answer: "one two three four", config: { max_words: 3 } });
  assert.equal(result.score, 0);
  assert.deepEqual(result.misses, ["at most 3 words"]);
});
