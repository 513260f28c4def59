/** The client against the real judge proxy; the Python to run it with is in AGENTV_TEST_PYTHON. */

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { after, test } from "node:test";

import { eval_, failure, ROOT, runJudge } from "./support.mjs";

const { JudgeFailedError, JudgeLimitError, JudgeNotAvailableError, JudgeProxyError, UnknownTargetError } = eval_;
const PYTHON = process.env.AGENTV_TEST_PYTHON;
assert.ok(PYTHON, "AGENTV_TEST_PYTHON must name the Python that has agentv; pytest sets it");

const python = spawn(PYTHON, ["-m", "tests.sdk_typescript.proxy"], { cwd: ROOT, stdio: ["pipe", "pipe", "inherit"] });
const lines = createInterface(python.stdout)[Symbol.asyncIterator]();
after(async () => {
  python.stdin.end();
  await once(python, "exit");
});

async function order(what) {
  python.stdin.write(`${JSON.stringify(what)}\n`);
  const { value, done } = await lines.next();
  assert.ok(!done, "the process with the proxies has ended");
  return JSON.parse(value);
}

/** A proxy of its own for this test; `end` closes it and gives its ledger. */
async function openProxy(t, { maxCalls = 50, timeout = 20 } = {}) {
  const { url, token } = await order({ max_calls: maxCalls, timeout });
  const env = { AGENTV_JUDGE_PROXY_URL: url, AGENTV_JUDGE_PROXY_TOKEN: token };
  const judge = eval_.createJudgeProxyClient({ env, timeoutMs: 20_000 });
  t.after(() => judge.close());
  return { judge, env, end: () => order({ close: url }) };
}

test("info, one question, another target and a batch return the fields of the proxy", async (t) => {
  const { judge, end } = await openProxy(t);
  const info = { targetName: "strict", maxCalls: 50, callCount: 0, availableTargets: ["mild", "strict"] };
  assert.deepEqual(await judge.getInfo(), { ...info, waitingCalls: 0, waitedMs: 0 });

  const question = "naïve 🙂 </script>";
  const reply = await judge.invoke({ question, systemPrompt: "be strict", evalCaseId: "c", attempt: 2 });
  assert.equal(reply.rawText, "strict: [be strict] naïve 🙂 </script>");
  assert.deepEqual(reply.outputMessages, [{ role: "assistant", content: reply.rawText }]);
  assert.deepEqual([reply.error, reply.code], [null, null]);
  assert.equal((await judge.invoke({ question: "q", target: "mild", systemPrompt: null })).rawText, "mild: q");

  const [first, failed, last] = await judge.invokeBatch([
    { question: "a" },
    { question: '{"fail": "no model today"}' },
    { question: "c", target: "mild" },
  ]);
  assert.deepEqual([first.rawText, last.rawText], ["strict: a", "mild: c"]);
  assert.equal(failed.code, "judge_failed");
  assert.match(failed.error, /no model today/);
  assert.throws(() => failed.rawText, JudgeFailedError);

  assert.equal((await judge.getInfo()).callCount, 5);
  assert.deepEqual(await end(), { calls: 5, refused: 0, failed: 1 });
});

test("a refused call is not counted and throws a typed error", async (t) => {
  const { judge, env, end } = await openProxy(t, { maxCalls: 1 });
  const wrong = { ...env, AGENTV_JUDGE_PROXY_TOKEN: "wrong" };
  const expected = [
    [() => judge.invoke({ question: "" }), JudgeProxyError, 400, "invalid_request"],
    [() => judge.invoke({ question: 5 }), JudgeProxyError, 400, "invalid_request"],
    [() => judge.invokeBatch([]), JudgeProxyError, 400, "invalid_request"],
    [() => judge.invoke({ question: "q", target: "nobody" }), UnknownTargetError, 400, "unknown_target"],
    [() => judge.invoke({ question: "x".repeat(9 * 1024 * 1024) }), JudgeProxyError, 413, "payload_too_large"],
    [() => eval_.createJudgeProxyClient({ env: wrong }).getInfo(), JudgeNotAvailableError, 401, "unauthorized"],
  ];
  for (const [call, kind, status, code] of expected) {
    const error = await failure(call);
    assert.equal(error.constructor, kind, error.stack);
    assert.deepEqual([error.status, error.code], [status, code]);
  }
  assert.match((await failure(expected[3][0])).message, /mild, strict/);
  assert.equal((await judge.invoke({ question: "q" })).rawText, "strict: q");
  assert.deepEqual(await end(), { calls: 1, refused: 0, failed: 0 });
});

test("exceeding the limit throws JudgeLimitError, for a batch as a whole", async (t) => {
  const { judge, end } = await openProxy(t, { maxCalls: 2 });
  const batch = Array(3).fill({ question: "q" });
  assert.ok((await failure(() => judge.invokeBatch(batch))) instanceof JudgeLimitError);
  assert.equal((await judge.invokeBatch(batch.slice(1))).length, 2);
  const error = await failure(() => judge.invoke({ question: "q" }));
  assert.ok(error instanceof JudgeLimitError);
  assert.match(error.message, /judge call limit of 2 for evaluator 'precision'/);
  assert.deepEqual(await end(), { calls: 2, refused: 4, failed: 0 });
});

test("concurrent calls are never made twice and never exceed the limit", async (t) => {
  const { judge, end } = await openProxy(t, { maxCalls: 150 });
  const calls = Array.from({ length: 200 }, (_, n) => judge.invoke({ question: `${n}` }));
  const settled = await Promise.allSettled(calls);
  const answered = settled.flatMap((one, n) => (one.status === "fulfilled" ? [[n, one.value.rawText]] : []));
  assert.equal(answered.length, 150);
  for (const [n, text] of answered) assert.equal(text, `strict: ${n}`);
  for (const one of settled) assert.ok(one.status === "fulfilled" || one.reason instanceof JudgeLimitError);
  assert.deepEqual(await end(), { calls: 150, refused: 50, failed: 0 });
});

test("a judge that fails or times out throws JudgeFailedError", async (t) => {
  const { judge, end } = await openProxy(t, { timeout: 2 });
  const failed = await failure(() => judge.invoke({ question: '{"fail": "no model today"}' }));
  assert.ok(failed instanceof JudgeFailedError);
  assert.deepEqual([failed.status, failed.code], [502, "judge_failed"]);
  const late = await failure(() => judge.invoke({ question: '{"wait": true}' }));
  assert.ok(late instanceof JudgeFailedError);
  assert.deepEqual([late.status, late.code], [504, "judge_timeout"]);
  assert.deepEqual(await end(), { calls: 2, refused: 0, failed: 2 });
});

test("a call after the proxy has stopped throws JudgeNotAvailableError", async (t) => {
  const { judge, end } = await openProxy(t);
  await judge.invoke({ question: "q" });
  await end();
  const error = await failure(() => judge.invoke({ question: "q" }));
  assert.ok(error instanceof JudgeNotAvailableError, error.stack);
  assert.equal(error.code, "unreachable");
});

test("a verdict, and retries that stay within the limit", async (t) => {
  const { judge, end } = await openProxy(t, { maxCalls: 3 });
  const ask = { criteria: "Say yes.", material: { answer: "Say no." }, choices: ["yes", "no"], attempts: 5 };
  const error = await failure(() => judge.verdict(ask));
  assert.ok(error instanceof eval_.JudgeVerdictError);
  assert.match(error.message, /limit of 3 calls/);
  assert.deepEqual(await end(), { calls: 3, refused: 0, failed: 0 });
});

test("a judge script gets a verdict", async (t) => {
  const { env, end } = await openProxy(t);
  const source = `defineCodeJudge(async (input, judge) => {
    const said = await judge.verdict({
      question: input.question,
      choices: ["yes", "no"],
      systemPrompt: '{"say": "Yes."}',
    });
    const [rated] = await judge.verdicts(["How good is it?"], {
      schema: { type: "object", required: ["score"] },
      systemPrompt: JSON.stringify({ say: '{"score": 4}' }),
    });
    return { score: said === "yes" ? rated.score / 4 : 0 };
  });`;
  const done = await runJudge(source, { stdin: '{"question": "Is it?"}', env });
  assert.equal(done.result.score, 1);
  assert.deepEqual(await end(), { calls: 2, refused: 0, failed: 0 });
});
