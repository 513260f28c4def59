/** How the client uses connections, time and money. */

import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:net";
import { describe, test } from "node:test";
import { inspect } from "node:util";

import {
  clientFor,
  environ,
  eval_,
  failure,
  http,
  inTurn,
  rawServer,
  reply,
  runJudge,
  serve,
  TOKEN,
  vectors,
} from "./support.mjs";

const { createJudgeProxyClient, JudgeNotAvailableError, JudgeProxyError } = eval_;
const connections = (server) => server.seen.map((seen) => seen.connection);

/** Waits for an event, not for time: until something that other code does is so. */
async function until(isSo) {
  while (!isSo()) await new Promise((resolve) => setImmediate(resolve));
}

test("sequential calls share one connection", async (t) => {
  const server = await serve(t, () => reply());
  const judge = clientFor(t, server);
  for (let n = 0; n < 5; n++) await judge.invoke({ question: "q" });
  assert.deepEqual(connections(server), [1, 1, 1, 1, 1]);
});

test("a connection closed while idle is replaced and each call is sent once", async (t) => {
  const server = await serve(t, inTurn({ data: reply("a").data, then: "close" }, reply("b")));
  const judge = clientFor(t, server);
  assert.equal((await judge.invoke({ question: "1" })).rawText, "a");
  await until(() => server.closed.length === 1);
  assert.equal((await judge.invoke({ question: "2" })).rawText, "b");
  assert.deepEqual(
    server.seen.map(({ connection, body }) => [connection, body]),
    [
      [1, '{"question":"1"}'],
      [2, '{"question":"2"}'],
    ],
  );
});

test("a connection closed while the script was busy is replaced", async (t) => {
  // The script is blocked until the server, in another process, has closed; only then does it call again.
  const server = await serve(t, inTurn({ data: reply("a").data, then: "close" }, reply("b")));
  const script = `
    import { readSync } from "node:fs";
    const judge = createJudgeProxyClient();
    process.stdout.write((await judge.invoke({ question: "1" })).rawText);
    readSync(0, Buffer.alloc(1));
    process.stdout.write((await judge.invoke({ question: "2" })).rawText);`;
  const done = await runJudge(script, {
    env: server.environ,
    stdin: async (child) => {
      await until(() => server.ended.length === 1);
      child.stdin.end("x");
    },
  });
  assert.equal(done.stdout, "ab", done.stderr);
  assert.deepEqual(connections(server), [1, 2]);
});

test("a reused connection closed without a byte is reopened once", async (t) => {
  const server = await serve(t, inTurn(reply("a"), { then: "close" }, reply("b")));
  const judge = clientFor(t, server);
  await judge.invoke({ question: "1" });
  assert.equal((await judge.invoke({ question: "2" })).rawText, "b");
  assert.deepEqual(connections(server), [1, 1, 2]);
});

test("a resent call never uses another idle connection, which may be closed too", async (t) => {
  const waiting = [];
  const server = await serve(t, ({ connection }) => {
    if (connection > 2) return reply("b");
    if (waiting.length === 2) return { then: "close" };
    return new Promise((resolve) => {
      waiting.push(() => resolve(reply("a")));
      if (waiting.length === 2) for (const answer of waiting) answer();
    });
  });
  const judge = clientFor(t, server);
  await Promise.all([judge.invoke({ question: "1" }), judge.invoke({ question: "2" })]);
  assert.equal((await judge.invoke({ question: "3" })).rawText, "b");
  assert.equal(connections(server).at(-1), 3);
  assert.equal(server.seen.length, 4);
});

test("a connection is not reopened twice", async (t) => {
  const server = await serve(t, inTurn(reply("a"), { then: "close" }, { then: "close" }));
  const judge = clientFor(t, server);
  await judge.invoke({ question: "1" });
  const error = await failure(() => judge.invoke({ question: "2" }));
  assert.equal(error.code, "connection_lost");
  assert.match(error.message, /not retried/);
  assert.equal(server.seen.length, 3);
});

describe("a call that may have been processed is not resent", () => {
  const broken = {
    "part of the status line": { data: "HTTP/1.1 2", then: "close" },
    "part of the headers": { data: "HTTP/1.1 200 OK\r\nContent-", then: "close" },
    "part of the body": { data: http(200, "{", { "Content-Length": 50 }), then: "close" },
    "a reset": { then: "reset" },
  };
  for (const [name, answer] of Object.entries(broken)) {
    test(name, async (t) => {
      const server = await serve(t, inTurn(reply("a"), answer));
      const judge = clientFor(t, server);
      await judge.invoke({ question: "1" });
      const error = await failure(() => judge.invoke({ question: "2" }));
      assert.ok(error instanceof JudgeProxyError);
      assert.deepEqual(connections(server), [1, 1]);
    });
  }
});

for (const then of ["close", "reset"]) {
  test(`a call on a new connection is not resent after a ${then}`, async (t) => {
    const server = await serve(t, () => ({ then }));
    const error = await failure(() => clientFor(t, server).invoke({ question: "q" }));
    assert.deepEqual([error.status, error.code], [null, "connection_lost"]);
    assert.equal(server.seen.length, 1);
  });
}

test("a connection is reused after an error response", async (t) => {
  const refused = { data: http(429, { error: "enough", code: "max_calls_exceeded" }) };
  const server = await serve(t, inTurn(refused, reply("b")));
  const judge = clientFor(t, server);
  await failure(() => judge.invoke({ question: "1" }));
  assert.equal((await judge.invoke({ question: "2" })).rawText, "b");
  assert.deepEqual(connections(server), [1, 1]);
});

test("a refused connection throws JudgeNotAvailableError", async () => {
  const listener = createServer().listen(0, "127.0.0.1");
  await once(listener, "listening");
  const { port } = listener.address();
  await new Promise((resolve) => listener.close(resolve));
  const error = await failure(() => createJudgeProxyClient({ env: environ(port) }).invoke({ question: "q" }));
  assert.ok(error instanceof JudgeNotAvailableError);
  assert.deepEqual([error.status, error.code], [null, "unreachable"]);
  assert.match(error.message, /ECONNREFUSED/);
});

/** Bytes that never end, until the client leaves. */
function drip(socket, head, more) {
  socket.write(head);
  const timer = setInterval(() => socket.write(more), 10);
  socket.on("close", () => clearInterval(timer));
}

test("slow headers cannot extend the timeout", async (t) => {
  const server = await rawServer(t, (socket) => drip(socket, "HTTP/1.1 200 OK\r\n", "X-Slow: 1\r\n"));
  const error = await failure(() => clientFor(t, server, 300).invoke({ question: "q" }));
  assert.equal(error.code, "client_timeout");
});

test("a slow body is cut off at the timeout", async (t) => {
  const server = await rawServer(t, (socket) => drip(socket, "HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n", " "));
  const error = await failure(() => clientFor(t, server, 300).invoke({ question: "q" }));
  assert.equal(error.code, "client_timeout");
  assert.match(error.message, /timeoutMs/);
});

test("the timeout includes resending", async (t) => {
  const info = { data: http(200, { targetName: "strict", maxCalls: 5, callCount: 1, availableTargets: [] }) };
  const server = await serve(t, inTurn(reply("a"), { then: "close" }, { then: "silence" }, info));
  const judge = clientFor(t, server, 2_000);
  await judge.invoke({ question: "1" });
  const timers = t.mock.method(globalThis, "setTimeout");
  const error = await failure(() => judge.invoke({ question: "2" }));
  assert.equal(error.code, "client_timeout");
  assert.deepEqual(
    server.seen.map(({ path }) => path),
    ["/invoke", "/invoke", "/invoke", "/info"],
  );
  const [first, second] = timers.mock.calls.map((call) => call.arguments[1]);
  assert.ok(2_000 >= first && first > second, `${first}, then ${second}`);
});

describe("waiting for a slot of the judge does not count", () => {
  for (const vector of vectors("waiting.json")) {
    test(vector.name, async (t) => {
      const infos = [...vector.infos];
      let respond;
      const responding = new Promise((resolve) => (respond = resolve));
      const server = await serve(t, async ({ path }) => {
        if (path !== "/info") {
          await responding;
          return reply();
        }
        const { status = 200, ...info } = infos.shift();
        if (vector.infos.length - infos.length === vector.replyAfter) respond();
        return { data: http(status, { targetName: "strict", maxCalls: 5, callCount: 1, availableTargets: [], ...info }) };
      });
      const judge = clientFor(t, server, 150);
      if (vector.replyAfter) {
        assert.equal((await judge.invoke({ question: "q" })).rawText, "yes");
        await judge.invoke({ question: "q" });
        assert.deepEqual(
          server.seen.filter(({ path }) => path === "/invoke").map(({ connection }) => connection <= 2),
          [true, true],
        );
      } else {
        assert.equal((await failure(() => judge.invoke({ question: "q" }))).code, "client_timeout");
      }
      assert.equal(infos.length, 0);
    });
  }
});

test("an unsolicited response is not taken for the next one", async (t) => {
  const server = await serve(t, ({ connection }) => reply(connection === 1 ? "a" : "b"));
  const judge = clientFor(t, server);
  assert.equal((await judge.invoke({ question: "1" })).rawText, "a");
  const [first] = server.sockets;
  await new Promise((resolve) => first.write(reply("forged").data, resolve));
  assert.equal((await judge.invoke({ question: "2" })).rawText, "b");
  assert.deepEqual(connections(server), [1, 2]);
});

test("a second response right after the first is not taken for the next one", async (t) => {
  const both = { data: Buffer.concat([reply("a").data, reply("forged").data]) };
  const server = await serve(t, inTurn(both, reply("b")));
  const judge = clientFor(t, server);
  assert.equal((await judge.invoke({ question: "1" })).rawText, "a");
  assert.equal((await judge.invoke({ question: "2" })).rawText, "b");
  assert.deepEqual(connections(server), [1, 2]);
});

test("an early refusal is reported to the caller", async (t) => {
  const sent = 20_000_000;
  const server = await rawServer(t, (socket) => {
    socket.once("data", () => {
      socket.pause();
      socket.write(http(413, { error: "at most 8 MiB", code: "payload_too_large" }));
    });
  });
  const error = await failure(() => clientFor(t, server).invoke({ question: "x".repeat(sent) }));
  assert.deepEqual([error.status, error.code, error.message], [413, "payload_too_large", "at most 8 MiB"]);
  const [socket] = server.sockets;
  socket.resume();
  await once(socket, "close");
  assert.ok(socket.bytesRead < sent, "the rest of the body was sent after the refusal");
});

test("concurrent calls get their own replies", async (t) => {
  const waiting = [];
  const server = await serve(t, ({ body }) => {
    return new Promise((resolve) => {
      waiting.push(() => resolve(reply(body)));
      if (waiting.length === 30) for (const answer of waiting.splice(0).reverse()) answer();
    });
  });
  const judge = clientFor(t, server);
  for (let round = 0; round < 2; round++) {
    const replies = await Promise.all(Array.from({ length: 30 }, (_, n) => judge.invoke({ question: `${n}` })));
    assert.deepEqual(
      replies.map((one) => one.rawText),
      replies.map((_, n) => `{"question":"${n}"}`),
    );
  }
  assert.equal(server.sockets.size, 30);
});

test("cancelling a call closes its connection immediately", async (t) => {
  const stop = new AbortController();
  const server = await serve(t, () => {
    stop.abort(new Error("enough"));
    return { then: "silence" };
  });
  const judge = clientFor(t, server);
  const error = await failure(() => judge.invoke({ question: "q" }, { signal: stop.signal }));
  assert.equal(error.message, "enough");
  await until(() => server.closed.length === 1);
  assert.equal((await failure(() => judge.getInfo({ signal: stop.signal }))).message, "enough");
  assert.equal(server.seen.length, 1);
});

test("a closed client rejects calls and closes its connections", async (t) => {
  const server = await serve(t, () => reply());
  const judge = clientFor(t, server);
  await judge.invoke({ question: "q" });
  judge.close();
  await until(() => server.closed.length === 1);
  const error = await failure(() => judge.getInfo());
  assert.ok(error instanceof JudgeNotAvailableError);
  assert.equal(error.code, "closed");
  judge.close();
  assert.equal(server.seen.length, 1);
});

test("a call in flight when the client is closed gets its reply, and its connection is closed", async (t) => {
  const server = await serve(t, () => {
    judge.close();
    return reply("late");
  });
  const judge = clientFor(t, server);
  assert.equal((await judge.invoke({ question: "q" })).rawText, "late");
  await until(() => server.closed.length === 1);
});

test("inspecting a client does not show the token", async (t) => {
  const server = await serve(t, () => ({ then: "close" }));
  const judge = clientFor(t, server);
  const error = await failure(() => judge.invoke({ question: "q" }));
  const all = { depth: Infinity, showHidden: true };
  assert.ok(!`${inspect(judge, all)}${JSON.stringify(judge)}${inspect(error, all)}`.includes(TOKEN));
  assert.ok(inspect(judge).includes(String(server.port)));
});

for (const timeoutMs of [0, -1, NaN, Infinity, 2 ** 31, true, "5"]) {
  test(`a timeout must be a number of milliseconds, not ${inspect(timeoutMs)}`, () => {
    assert.throws(() => createJudgeProxyClient({ timeoutMs, env: {} }), /milliseconds/);
  });
}

describe("arguments that are not JSON are rejected before sending", () => {
  const wrong = {
    "unpaired surrogate": { question: "half a pair: \ud83d" },
    NaN: { question: "q", attempt: NaN },
    "a BigInt": { question: "q", attempt: 1n },
    "a function": { question: () => "q" },
    "a text instead of an object": "q",
    nothing: undefined,
  };
  for (const [name, request] of Object.entries(wrong)) {
    test(name, async (t) => {
      const server = await serve(t, () => reply());
      const error = await failure(() => clientFor(t, server).invoke(request));
      assert.equal(error.code, "invalid_request");
      assert.match(error.message, /Nothing was sent/);
      assert.deepEqual(server.seen, []);
    });
  }
});

test("the camelCase name is suggested for the snake_case name", async (t) => {
  const server = await serve(t, () => reply());
  const error = await failure(() => clientFor(t, server).invoke({ question: "q", system_prompt: "s" }));
  assert.match(error.message, /unknown key 'system_prompt'; did you mean 'systemPrompt'\?/);
  assert.deepEqual(server.seen, []);
});

test("an escaped backslash before a surrogate-like sequence is sent unchanged", async (t) => {
  const server = await serve(t, () => reply());
  await clientFor(t, server).invoke({ question: "\\ud83d \u{1f642}" });
  assert.equal(JSON.parse(server.seen[0].body).question, "\\ud83d \u{1f642}");
});

test("proxy environment variables are ignored", async (t) => {
  const server = await serve(t, () => reply("direct"));
  const proxy = await serve(t, () => reply("proxied"));
  const names = ["http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"];
  const proxied = Object.fromEntries(names.map((name) => [name, `http://127.0.0.1:${proxy.port}`]));
  const done = await runJudge('console.log((await createJudgeProxyClient().invoke({ question: "q" })).rawText);', {
    env: { ...proxied, NO_PROXY: "", no_proxy: "", NODE_USE_ENV_PROXY: "1", ...server.environ },
  });
  assert.equal(done.stdout, "direct\n", done.stderr);
  assert.deepEqual(proxy.seen, []);
});

test("an unclosed client does not keep the process alive", async (t) => {
  const server = await serve(t, () => reply());
  const done = await runJudge('await createJudgeProxyClient().invoke({ question: "q" });', { env: server.environ });
  assert.deepEqual([done.code, done.stdout], [0, ""], done.stderr);
});

test("a missing verdict reports the last reply and the next step", async (t) => {
  const server = await serve(t, () => reply("perhaps"));
  const judge = clientFor(t, server);
  const ask = { question: "Is it?", choices: ["yes", "no"], attempts: 1 };
  const error = await failure(() => judge.verdict(ask));
  assert.ok(error instanceof eval_.JudgeVerdictError);
  assert.deepEqual([error.status, error.code, error.rawText], [null, "invalid_verdict", "perhaps"]);
  assert.match(error.message, /after 1 attempt:.*'perhaps'.*not one of: yes, no/);
});

test("a misspelled key of a verdict is rejected before sending", async (t) => {
  const server = await serve(t, () => reply("yes"));
  const judge = clientFor(t, server);
  const one = await failure(() => judge.verdict({ question: "q", choice: ["yes", "no"] }));
  assert.match(one.message, /unknown key 'choice'; did you mean 'choices'\?/);
  const many = await failure(() => judge.verdicts(["q"], { choices: ["yes", "no"], attempt: 2 }));
  assert.match(many.message, /unknown key 'attempt'; did you mean 'attempts'\?/);
  assert.deepEqual(server.seen, []);
});
