/** Scripts written with the SDKs of AgentV 4 and 5. */

import assert from "node:assert/strict";
import { describe, test } from "node:test";

import { eval_, http, runJudge, serve, TOKEN } from "./support.mjs";

const CALLS = [{ tool: "get_weather", input: { top_k: 3, Place: "Paris" } }];
const PAYLOAD = {
  criteria: "names 21 degrees",
  input: [{ role: "user", content: "?" }],
  expected_output: [],
  output: "21 degrees",
  messages: [{ role: "assistant", content: "21 degrees", tool_calls: CALLS }],
  input_files: [],
  trace: { event_count: 1, tool_calls: { get_weather: 1 }, error_count: 0, messages: [], events: [] },
  cost_usd: 0.5,
  config: { min_words: 2 },
};

async function graded(source, payload = PAYLOAD, env = {}) {
  return await runJudge(source, { stdin: JSON.stringify(payload), env });
}

for (const define of ["defineCodeGrader", "defineScriptGrader", "defineAssertion"]) {
  test(`${define} gives camelCase at every depth, and clamps the score`, async () => {
    const done = await graded(`
      export default ${define}(async ({ trace, messages, costUsd, config, output, criteria }) => {
        console.log("log");
        const details = { trace, call: messages[0].toolCalls[0].input, costUsd, words: config.minWords };
        return { score: 1.5, reason: output + criteria, details };
      });`);
    const trace = { eventCount: 1, toolCalls: { getWeather: 1 }, errorCount: 0, messages: [], events: [] };
    assert.deepEqual(done.result, {
      score: 1,
      reason: "21 degreesnames 21 degrees",
      details: { trace, call: { topK: 3, Place: "Paris" }, costUsd: 0.5, words: 2 },
    });
  });
}

test("an assertion may return only pass or checks", async () => {
  assert.deepEqual((await graded("defineAssertion(() => ({ pass: true }))")).result, { pass: true });
  const assertions = [{ text: "a", passed: false }];
  const done = await graded(`defineAssertion(() => ({ assertions: ${JSON.stringify(assertions)} }))`);
  assert.deepEqual(done.result, { assertions });
});

describe("a grader fails", () => {
  const sources = {
    "when it throws": ["defineCodeGrader(() => { throw new TypeError('boom') })", "TypeError: boom"],
    "without a score": ["defineAssertion(() => ({ details: {} }))", "the result has no 'score', only [details]"],
    "with NaN": ["defineCodeGrader(() => ({ score: 0 / 0 }))", "score must be a number from 0 to 1"],
    "with a prompt that is no string": ["definePromptTemplate(() => 5)", "the prompt must be a string, got a number"],
  };
  for (const [name, [source, message]] of Object.entries(sources)) {
    test(name, async () => {
      const done = await graded(source);
      assert.deepEqual([done.code, done.stdout], [1, ""]);
      assert.ok(done.lastLine.includes(message), done.lastLine);
    });
  }

  test("when a required key is missing", async () => {
    const { criteria, ...payload } = PAYLOAD;
    const done = await graded("defineCodeGrader(() => ({ score: 1 }))", payload);
    assert.ok(criteria !== undefined && done.lastLine.includes("must have a string in 'criteria', got nothing"));
  });
});

test("a prompt template prints its prompt unchanged", async () => {
  const done = await graded('definePromptTemplate(({ output }) => `Answer:\\n"${output}"`)');
  assert.deepEqual([done.code, done.stdout], [0, 'Answer:\n"21 degrees"\n']);
});

test("runScriptGrader resolves after the result is printed", async () => {
  const done = await graded('await runScriptGrader(() => ({ score: 1 })); console.error("afterwards");');
  assert.deepEqual([done.result, done.lastLine], [{ score: 1 }, "afterwards"]);
});

test("createProviderClient asks for a provider and replies in the words of AgentV 5", async (t) => {
  const output = [{ role: "assistant", content: "yes" }];
  const usage = { input: 1, output: 2 };
  const info = { targetName: "strict", maxCalls: 5, callCount: 1, availableTargets: ["strict"] };
  const server = await serve(t, ({ path }) => ({
    data: http(200, path === "/info" ? info : { outputMessages: output, rawText: "yes", usage }),
  }));
  const env = {
    AGENTV_PROVIDER_PROXY_URL: `http://127.0.0.1:${server.port}`,
    AGENTV_PROVIDER_PROXY_TOKEN: TOKEN,
  };
  const source = `defineScriptGrader(async () => {
    const client = createProviderClient();
    const reply = await client.invoke({ question: "q", provider: "strict" });
    return { pass: true, score: 1, reason: "r", details: { reply, info: await client.getInfo() } };
  })`;
  const { reply, info: seen } = (await graded(source, PAYLOAD, env)).result.details;
  assert.deepEqual(reply, { outputMessages: output, output, rawText: "yes", tokenUsage: usage });
  assert.deepEqual([seen.providerLabel, seen.availableProviderLabels], ["strict", ["strict"]]);
  assert.deepEqual(JSON.parse(server.seen[0].body), { question: "q", target: "strict" });
});

test("a failed call of a provider client throws ProviderInvocationError", async (t) => {
  const server = await serve(t, () => ({ data: http(502, { error: "no reply", code: "judge_failed" }) }));
  const url = `http://127.0.0.1:${server.port}`;
  Object.assign(process.env, { AGENTV_PROVIDER_PROXY_URL: url, AGENTV_PROVIDER_PROXY_TOKEN: TOKEN });
  t.after(() => ["URL", "TOKEN"].forEach((part) => delete process.env[`AGENTV_PROVIDER_PROXY_${part}`]));
  await assert.rejects(eval_.createProviderClient().invoke({ question: "q" }), (error) => {
    assert.ok(error instanceof eval_.ProviderInvocationError);
    assert.deepEqual([error.name, error.statusCode, error.message], ["ProviderInvocationError", 502, "no reply"]);
    return true;
  });
  delete process.env.AGENTV_PROVIDER_PROXY_TOKEN;
  assert.throws(() => eval_.createProviderClient(), eval_.ProviderNotAvailableError);
});

test("the config of a code judge can be read in both spellings", () => {
  const config = { max_calls: 1, inner: { some_list: [{ a_b: 2 }] } };
  const before = JSON.stringify(config);
  const read = eval_.createCodeJudgeInput({ config }).config;
  assert.deepEqual([read.maxCalls, read.inner.someList[0].aB, JSON.stringify(read)], [1, 2, before]);
});

test("schemas accept the input of a grader, and z is loaded when it is used", async () => {
  const { CodeGraderInputSchema, ScriptGraderResultSchema } = await import("../../sdk/typescript/dist/zod.js");
  const input = CodeGraderInputSchema.parse(eval_.createGraderInput(PAYLOAD));
  assert.deepEqual(input.messages[0].toolCalls[0].input, { topK: 3, Place: "Paris" });
  assert.equal(ScriptGraderResultSchema.safeParse({ score: 1 }).success, false);
  assert.equal(eval_.z.object({ a: eval_.z.string() }).safeParse({ a: 1 }).success, false);
});
