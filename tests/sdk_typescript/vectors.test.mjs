/** Every conformance vector, against a real loopback server and real judge processes. */

import assert from "node:assert/strict";
import { describe, test } from "node:test";

import { checkError, clientFor, environ, eval_, failure, http, runJudge, SDK, serve, TOKEN, vectors } from "./support.mjs";

const { fence, MARK_LENGTH } = await import(`${SDK}dist/fence.js`);

const MANY = { concurrency: 4 };

describe("environment vectors", () => {
  for (const vector of vectors("environment.json")) {
    test(vector.name, async (t) => {
      if (vector.error) {
        checkError(await failure(() => eval_.createJudgeProxyClient({ env: vector.environ })), vector);
      } else if (vector.client === null) {
        assert.equal(eval_.createJudgeProxyClient({ env: vector.environ }), undefined);
      } else {
        const { inspect } = await import("node:util");
        const judge = eval_.createJudgeProxyClient({ env: vector.environ });
        t.after(() => judge.close());
        const { host, port } = vector.client;
        const shown = host.includes(":") ? `[${host}]` : host;
        assert.equal(inspect(judge), `JudgeProxyClient(http://${shown}:${port}, timeoutMs=120000)`);
      }
    });
  }
});

function call(judge, name, given) {
  if (name === "getInfo") return judge.getInfo();
  return name === "invoke" ? judge.invoke(given) : judge.invokeBatch(given.requests);
}

describe("request vectors", MANY, () => {
  for (const vector of vectors("requests.json")) {
    test(vector.name, async (t) => {
      const item = { outputMessages: [], rawText: "" };
      const count = vector.arguments.requests?.length ?? 0;
      const answers = {
        "/info": { targetName: "t", maxCalls: 1, callCount: 0, availableTargets: [] },
        "/invoke": item,
        "/invokeBatch": { responses: Array(count).fill(item) },
      };
      const server = await serve(t, ({ path }) => ({ data: http(200, answers[path]) }));
      const judge = clientFor(t, server);
      if (vector.error) {
        checkError(await failure(() => call(judge, vector.call, vector.arguments)), vector);
        assert.deepEqual(server.seen, []);
        return;
      }
      await call(judge, vector.call, vector.arguments);
      assert.equal(server.seen.length, 1);
      const [{ method, path, headers, body }] = server.seen;
      assert.deepEqual({ method, path }, { method: vector.method, path: vector.path });
      assert.deepEqual(body === "" ? null : JSON.parse(body), vector.body);
      assert.equal(headers.authorization, `Bearer ${TOKEN}`);
      assert.equal(headers.host, `127.0.0.1:${server.port}`);
      assert.ok(!("origin" in headers) && !("content-encoding" in headers) && !("transfer-encoding" in headers));
    });
  }
});

function checkReply(got, expected) {
  const { rawText, ...rest } = expected;
  if (typeof rawText === "string") assert.deepEqual(got, expected);
  else {
    assert.deepEqual(JSON.parse(JSON.stringify(got)), rest);
    assert.throws(
      () => got.rawText,
      (error) => {
        checkError(error, { error: rawText.raises, message_has: [rest.error] });
        return true;
      },
    );
  }
}

describe("reply vectors", MANY, () => {
  for (const vector of vectors("replies.json")) {
    test(vector.name, async (t) => {
      const silent = vector.raw === null;
      const answer = () => {
        if (silent) return { then: "silence" };
        if ("raw" in vector) return { data: vector.raw, then: "close" };
        return { data: http(vector.status, vector.body, vector.headers), then: "close" };
      };
      const server = await serve(t, answer);
      const judge = clientFor(t, server, silent ? 500 : 20_000);
      const given = { question: "q", requests: Array(vector.questions ?? 0).fill({ question: "q" }) };
      const ask = () => call(judge, vector.call, vector.call === "invoke" ? { question: "q" } : given);
      if (vector.error) {
        checkError(await failure(ask), vector);
      } else {
        const got = await ask();
        if (vector.info) assert.deepEqual(got, vector.info);
        else if (vector.reply) checkReply(got, vector.reply);
        else {
          assert.equal(got.length, vector.replies.length);
          got.forEach((one, index) => checkReply(one, vector.replies[index]));
        }
      }
      const afterTimeout = silent ? ["/info"] : [];
      assert.deepEqual(server.seen.slice(1).map(({ path }) => path), afterTimeout);
    });
  }
});

const camel = (name) => name.replace(/_([a-z])/g, (_, letter) => letter.toUpperCase());

const SHOW_INPUT = `
const refused = process.argv.slice(1);
defineCodeJudge((input) => {
  const { raw, ...attributes } = input;
  return { score: 1, details: { attributes, raw, missing: refused.filter((name) => !(name in input)) } };
});`;

describe("payload vectors", MANY, () => {
  for (const vector of vectors("payloads.json")) {
    test(vector.name, async () => {
      const refused = vector.not_attributes ?? [];
      const done = await runJudge(SHOW_INPUT, { stdin: vector.stdin, args: refused });
      if (vector.error) {
        assert.deepEqual([done.code, done.stdout], [1, ""]);
        assert.match(done.lastLine, /stdin must contain one JSON object/);
        return;
      }
      const expected = Object.entries(vector.attributes).map(([name, value]) => [camel(name), value]);
      const { attributes, raw, missing } = done.result.details;
      assert.deepEqual(attributes, Object.fromEntries(expected));
      assert.deepEqual(raw, JSON.parse(vector.stdin));
      assert.deepEqual(missing, refused);
    });
  }
});

const RETURN_VECTOR = `
const numbers = { nan: NaN, inf: Infinity };
const returned = JSON.parse(process.argv[1], (_, value) => (value?.$number ? numbers[value.$number] : value));
defineCodeJudge(() => returned);`;

describe("handler result vectors", MANY, () => {
  for (const vector of vectors("results.json").handlers) {
    test(vector.name, async () => {
      const done = await runJudge(RETURN_VECTOR, { args: [JSON.stringify(vector.returns)] });
      if (vector.failure_has) {
        assert.deepEqual([done.code, done.stdout], [1, ""]);
        for (const part of vector.failure_has) assert.ok(done.lastLine.includes(part), done.stderr);
        return;
      }
      assert.deepEqual(done.result, vector.printed);
      assert.equal(done.stdout.indexOf("\n"), done.stdout.length - 1);
    });
  }
});

/** A proxy whose judge says `replies` one after the other, and that counts. */
function judgeSaying(replies, maxCalls) {
  const left = [...replies];
  const state = { calls: 0 };
  const item = (said) =>
    typeof said === "string" ? { outputMessages: [], rawText: said } : { outputMessages: [], ...said };
  const answer = ({ path, body }) => {
    if (path === "/info") {
      return { data: http(200, { targetName: "t", maxCalls, callCount: state.calls, availableTargets: ["t"] }) };
    }
    const count = path === "/invoke" ? 1 : JSON.parse(body).requests.length;
    if (state.calls + count > maxCalls) {
      return { data: http(429, { error: "over the limit", code: "max_calls_exceeded" }) };
    }
    state.calls += count;
    const said = left.splice(0, count);
    assert.equal(said.length, count, "the judge was asked more often than there are replies");
    if (path === "/invokeBatch") return { data: http(200, { responses: said.map(item) }) };
    if (typeof said[0] === "string") return { data: http(200, item(said[0])) };
    return { data: http(said[0].code === "judge_timeout" ? 504 : 502, said[0]) };
  };
  return { state, answer };
}

describe("verdict vectors", MANY, () => {
  for (const vector of vectors("verdicts.json")) {
    test(vector.name, async (t) => {
      const { state, answer } = judgeSaying(vector.replies, vector.maxCalls ?? 50);
      const judge = clientFor(t, await serve(t, answer));
      const { questions, ...ask } = vector.ask;
      const asking = () => (questions === undefined ? judge.verdict(ask) : judge.verdicts(questions, ask));
      if (vector.error) {
        const error = await failure(asking);
        assert.ok(error instanceof eval_.JudgeProxyError, String(error?.stack));
        assert.equal(error.code, vector.error, error.message);
        assert.equal(error instanceof eval_.JudgeVerdictError, vector.error === "invalid_verdict");
      } else {
        assert.deepEqual(await asking(), vector.result);
      }
      assert.equal(state.calls, vector.calls);
    });
  }
});

test("process.env is read by default", async (t) => {
  Object.assign(process.env, environ(1));
  t.after(() => Object.keys(environ(1)).forEach((name) => delete process.env[name]));
  assert.ok(eval_.createJudgeProxyClient());
});

describe("fence vectors", () => {
  for (const vector of vectors("fences.json")) {
    test(vector.name, () => {
      const fenced = fence(vector.parts, vector.around, vector.markLength);
      assert.deepEqual(fenced, { text: vector.text, mark: vector.mark });
      assert.equal(MARK_LENGTH, 12);
    });
  }
});
