/** `createTargetClient` and its errors, as scripts written for AgentV use them. */

import assert from "node:assert/strict";
import { describe, test } from "node:test";

import { environ, eval_, http, reply, runJudge, serve, TOKEN } from "./support.mjs";

const { createTargetClient, TargetInvocationError, TargetNotAvailableError } = eval_;

function targetEnviron(port) {
  return { AGENTV_TARGET_PROXY_URL: `http://127.0.0.1:${port}`, AGENTV_TARGET_PROXY_TOKEN: TOKEN };
}

/** Creates a client with these variables. */
function clientFor(t, variables) {
  const names = Object.keys({ ...targetEnviron(1), ...environ(1) });
  const before = names.map((name) => [name, process.env[name]]);
  t.after(() => before.forEach(([name, value]) => (value === undefined ? delete process.env[name] : null)));
  for (const name of names) delete process.env[name];
  Object.assign(process.env, variables);
  return createTargetClient();
}

test("it is undefined when judge access is off", (t) => {
  assert.equal(clientFor(t, {}), undefined);
});

test("a URL without a token throws TargetNotAvailableError", (t) => {
  const { AGENTV_TARGET_PROXY_URL } = targetEnviron(1);
  assert.throws(() => clientFor(t, { AGENTV_TARGET_PROXY_URL }), (error) => {
    assert.ok(error instanceof TargetNotAvailableError);
    assert.equal(error.name, "TargetNotAvailableError");
    return true;
  });
});

for (const [name, variables] of Object.entries({ AgentV: targetEnviron, "the judge proxy": environ })) {
  test(`it calls the judge with the variables of ${name}`, async (t) => {
    const server = await serve(t, () => reply("yes"));
    const client = clientFor(t, variables(server.port));
    assert.equal((await client.invoke({ question: "q", systemPrompt: undefined, target: undefined })).rawText, "yes");
    assert.equal(server.seen[0].path, "/invoke");
  });
}

test("information is the same as that of the judge client", async (t) => {
  const waiting = { waitingCalls: 0, waitedMs: 0 };
  const info = { targetName: "strict", maxCalls: 5, callCount: 1, availableTargets: ["strict"], ...waiting };
  const server = await serve(t, () => ({ data: http(200, info) }));
  assert.deepEqual({ ...(await clientFor(t, targetEnviron(server.port)).getInfo()) }, info);
});

describe("a failed call throws TargetInvocationError", () => {
  for (const [status, code] of [
    [400, "unknown_target"],
    [429, "max_calls_exceeded"],
    [502, "judge_failed"],
  ]) {
    test(`with status ${status}`, async (t) => {
      const server = await serve(t, () => ({ data: http(status, { error: "what to do", code }) }));
      const client = clientFor(t, targetEnviron(server.port));
      for (const call of [() => client.invoke({ question: "q" }), () => client.invokeBatch([{ question: "q" }])]) {
        await assert.rejects(call, (error) => {
          assert.ok(error instanceof TargetInvocationError && error instanceof Error);
          assert.deepEqual([error.name, error.statusCode, error.message], ["TargetInvocationError", status, "what to do"]);
          return true;
        });
      }
    });
  }

  test("without a status if there is no response", async (t) => {
    const client = clientFor(t, targetEnviron(1));
    await assert.rejects(client.getInfo(), (error) => {
      assert.ok(error instanceof TargetInvocationError);
      assert.equal(error.statusCode, undefined);
      return true;
    });
  });
});

test("a failed item of a batch is never mistaken for an empty reply", async (t) => {
  const failed = { outputMessages: [], error: "the judge failed", code: "judge_failed" };
  const answered = { outputMessages: [{ role: "assistant", content: "yes" }], rawText: "yes" };
  const server = await serve(t, () => ({ data: http(200, { responses: [answered, failed] }) }));
  const replies = await clientFor(t, targetEnviron(server.port)).invokeBatch([{ question: "a" }, { question: "b" }]);
  assert.deepEqual([replies[0].rawText, replies[1].outputMessages], ["yes", []]);
  assert.throws(() => replies[1].rawText ?? "{}", TargetInvocationError);
});

test("a script for AgentV runs unchanged", async (t) => {
  const server = await serve(t, () => reply('{"correct": true}'));
  const source = `
    export default defineCodeJudge(async ({ outputMessages, traceSummary, expectedOutcome }) => {
      const target = createTargetClient();
      if (!target) return { score: 0, misses: ["Target not available"] };
      const tools = (outputMessages ?? []).flatMap((message) => message.toolCalls ?? []).map((call) => call.tool);
      const { correct } = JSON.parse((await target.invoke({ question: expectedOutcome })).rawText ?? "{}");
      const { eventCount, toolCallsByName, tokenUsage } = traceSummary;
      return { score: correct ? 1 : 0, hits: tools, details: { eventCount, toolCallsByName, tokenUsage } };
    });`;
  const summary = { event_count: 1, tool_calls_by_name: { search_it: 1 }, token_usage: { input: 1, output: 2 } };
  const messages = [{ role: "assistant", content: "yes", tool_calls: [{ tool: "search_it", input: { top_k: 1 } }] }];
  const stdin = JSON.stringify({ expected_outcome: "Paris", output_messages: messages, trace_summary: summary });
  const done = await runJudge(source, { stdin, env: targetEnviron(server.port) });
  assert.deepEqual(
    [done.result.score, done.result.hits, done.result.details],
    [1, ["search_it"], { eventCount: 1, toolCallsByName: { search_it: 1 }, tokenUsage: { input: 1, output: 2 } }],
  );
});

test("a second spelling does not change the data", () => {
  const messages = [{ role: "assistant", tool_calls: [{ tool: "a" }] }, { role: "user", content: "b" }];
  const before = JSON.stringify(messages);
  const { outputMessages } = eval_.createCodeJudgeInput({ output_messages: messages });
  assert.equal(outputMessages[0].toolCalls, outputMessages[0].tool_calls);
  assert.equal(outputMessages[1].toolCalls, undefined);
  assert.equal(JSON.stringify(outputMessages), before);
  assert.deepEqual(Object.keys(outputMessages[0]), ["role", "tool_calls"]);
});

test("tool calls of the judge have both spellings", async (t) => {
  const message = { role: "assistant", content: "yes", toolCalls: [{ tool: "search" }] };
  const server = await serve(t, () => ({ data: http(200, { outputMessages: [message], rawText: "yes" }) }));
  const { outputMessages } = await clientFor(t, targetEnviron(server.port)).invoke({ question: "q" });
  assert.equal(outputMessages[0].tool_calls, outputMessages[0].toolCalls);
  assert.deepEqual(outputMessages[0], message);
});
