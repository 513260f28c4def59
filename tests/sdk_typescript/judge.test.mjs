/** Judge scripts as real processes: what reaches stdout, stderr and the exit code. */

import assert from "node:assert/strict";
import { describe, test } from "node:test";

import { eval_, http, reply, runJudge, serve } from "./support.mjs";

const STDIN = '{"candidate_answer": "Paris"}';
const judge = (source, options = {}) => runJudge(source, { stdin: STDIN, ...options });

test("only the result reaches stdout", async () => {
  const done = await judge(`
    const kept = process.stdout;
    defineCodeJudge(async () => {
      console.log("console.log");
      console.info("console.info");
      console.table([{ column: "console.table" }]);
      process.stdout.write("process.stdout\\n");
      kept.write("kept reference\\n");
      console.log('{"score": 0}');
      setImmediate(() => console.log("while the result is written"));
      return { score: 1 };
    });
    console.log("after defineCodeJudge");`);
  assert.equal(done.result.score, 1);
  assert.equal(done.stdout.indexOf("\n"), done.stdout.length - 1);
  for (const text of ["console.log", "console.info", "console.table", "process.stdout", "kept reference", "after"]) {
    assert.ok(done.stderr.includes(text), done.stderr);
  }
});

test("output before the judge is defined stays on stdout", async () => {
  const done = await judge('console.log("loading");\ndefineCodeJudge(() => 1);');
  const [noise, result] = done.stdout.trimEnd().split("\n");
  assert.equal(noise, "loading");
  assert.equal(JSON.parse(result).score, 1);
});

describe("a handler may", () => {
  const handlers = {
    "be a function": "function handler() { return 1; }",
    "be asynchronous": "async function handler() { await null; return { score: 1 }; }",
    "return any promise": "const handler = () => Promise.resolve(1);",
    "take the parts of its input": 'const handler = ({ candidateAnswer }) => (candidateAnswer === "Paris" ? 1 : 0);',
    "use what stands below": "const handler = () => below();",
    "take all its arguments": "const handler = (...all) => (all.length === 2 && all[1] === undefined ? 1 : 0);",
    "leave a timer behind": "const handler = () => { setInterval(() => {}, 1000); return 1; };",
  };
  for (const [name, source] of Object.entries(handlers)) {
    test(name, async () => {
      const done = await judge(`${source}\ndefineCodeJudge(handler);\nconst below = () => 1;`);
      assert.equal(done.result.score, 1);
    });
  }
});

test("a handler receives the judge, or undefined when access is off", async (t) => {
  const server = await serve(t, () => reply("0.5"));
  const source = `defineCodeJudge(async (input, judge) =>
    judge === undefined ? 0.25 : Number((await judge.invoke({ question: "q" })).rawText));`;
  assert.equal((await judge(source, { env: server.environ })).result.score, 0.5);
  assert.equal((await judge(source)).result.score, 0.25);
  assert.equal(server.seen.length, 1);
});

test("non-ASCII text is preserved", async () => {
  const done = await judge("defineCodeJudge((input) => ({ score: 1, reasoning: input.question }));", {
    stdin: '\ufeff{"question": "ça 🙂"}',
    env: { LC_ALL: "C" },
  });
  assert.equal(done.result.reasoning, "ça 🙂");
});

test("an unpaired surrogate does not lose the score", async () => {
  const stdin = '{"question": "\\ud83d \\\\ud83d", "config": {"\\ud83d": 1}}';
  const source = "defineCodeJudge((input) => ({ score: 1, reasoning: input.question, details: input.config }));";
  const { score, reasoning, details } = (await judge(source, { stdin })).result;
  assert.deepEqual([score, reasoning, details], [1, "\ufffd \\ud83d", { "\ufffd": 1 }]);
});

test("a large payload and a large result are complete", async () => {
  const source = "defineCodeJudge((input) => ({ score: 1, details: { text: input.question } }));";
  const question = "x".repeat(5_000_000);
  const done = await judge(source, { stdin: JSON.stringify({ question }) });
  assert.equal(done.result.details.text, question);
});

test("an exception is a failure with a stack trace and a clear last line", async () => {
  const done = await judge(`defineCodeJudge(() => {
    console.log("log");
    throw new RangeError("no chunks\\nin config");
  });`);
  assert.deepEqual([done.code, done.stdout], [1, ""]);
  assert.match(done.stderr, /^log\nRangeError: no chunks\nin config\n {4}at /);
  assert.ok(!done.stderr.includes("sdk/typescript/dist"), done.stderr);
  assert.equal(done.lastLine, "@agentv/eval: the judge failed: RangeError: no chunks in config");
});

describe("a judge without a result fails when it", () => {
  const cases = {
    "rejects": ['() => Promise.reject(new Error("no"))', 1, "Error: no"],
    "throws a string": ['() => { throw "no"; }', 1, "failed: no"],
    "throws nothing": ["() => { throw undefined; }", 1, "failed: undefined"],
    "returns nothing": ["() => {}", 1, "returned nothing"],
    "exits": ["() => process.exit(0)", 1, "instead of returning a result"],
    "exits with a code": ["() => process.exit(3)", 3, "instead of returning a result"],
    "awaits a promise that never settles": ["() => new Promise(() => {})", 1, "never settles"],
    "throws in a callback": [
      '() => new Promise(() => setTimeout(() => { throw new Error("later"); }))', 1, "Error: later",
    ],
    "forgets a rejection": [
      '() => new Promise(() => { setInterval(() => {}, 1000); Promise.reject(new Error("lost")); })', 1, "Error: lost",
    ],
    "returns a Map in its details": ["() => ({ score: 1, details: { a: new Map() } })", 1, 'a Map at "a"'],
    "returns a function in its details": ["() => ({ score: 1, details: { a() {} } })", 1, 'a function at "a"'],
    "returns a cycle": ["() => { const a = {}; a.a = a; return { score: 1, details: a }; }", 1, "JSON"],
  };
  for (const [name, [handler, code, part]] of Object.entries(cases)) {
    test(name, async () => {
      const done = await judge(`defineCodeJudge(${handler});`);
      assert.deepEqual([done.code, done.stdout], [code, ""]);
      assert.ok(done.lastLine.startsWith("@agentv/eval: the judge failed: "), done.stderr);
      assert.ok(done.lastLine.includes(part), done.stderr);
    });
  }
});

test("an exception handled by the script is not a failure", async () => {
  const done = await judge(`
    process.on("uncaughtException", () => {});
    defineCodeJudge(() => new Promise((resolve) => {
      setTimeout(() => { setTimeout(() => resolve(1)); throw new Error("expected"); });
    }));`);
  assert.equal(done.result.score, 1);
});

for (const name of ["candidate_answer", "candidateAnser"]) {
  test(`a misspelled input name is an error with a suggestion: ${name}`, async () => {
    const done = await judge(`defineCodeJudge((input) => (input.${name} ? 1 : 0));`);
    assert.deepEqual([done.code, done.stdout], [1, ""]);
    assert.match(done.lastLine, /did you mean 'candidateAnswer'\? available: evalId, /);
  });
}

test("an input can be created for a test, inspected, cloned, awaited and serialized as JSON", async () => {
  const input = eval_.createCodeJudgeInput({ question: "q", later: 1 });
  assert.equal(input.question, "q");
  assert.equal(await input, input);
  assert.deepEqual(structuredClone(input).raw, { question: "q", later: 1 });
  assert.equal(JSON.parse(JSON.stringify(input)).candidateAnswer, null);
  assert.match((await import("node:util")).inspect(input), /question: 'q'/);
});

test("stdin that is not UTF-8 is a failure", async () => {
  const done = await judge("defineCodeJudge(() => 1);", { stdin: Buffer.from('{"question": "\xff"}', "latin1") });
  assert.deepEqual([done.code, done.stdout], [1, ""]);
  assert.match(done.lastLine, /stdin must contain one JSON object in UTF-8/);
});

test("an uncaught refusal is a failure with the message of the proxy", async (t) => {
  const refusal = { error: "max_calls is 0: raise judge.max_calls", code: "max_calls_exceeded" };
  const server = await serve(t, () => ({ data: http(429, refusal) }));
  const done = await judge('defineCodeJudge((input, judge) => judge.invoke({ question: "q" }));', {
    env: server.environ,
  });
  assert.deepEqual([done.code, done.stdout], [1, ""]);
  assert.equal(
    done.lastLine,
    "@agentv/eval: the judge failed: JudgeLimitError: max_calls is 0: raise judge.max_calls",
  );
});

test("a URL without a token fails only judges that take the client", async () => {
  const env = { AGENTV_JUDGE_PROXY_URL: "http://127.0.0.1:9" };
  const asking = await judge("defineCodeJudge((input, judge) => 1);", { env });
  assert.deepEqual([asking.code, asking.stdout], [1, ""]);
  assert.match(asking.lastLine, /AGENTV_JUDGE_PROXY_TOKEN/);
  assert.equal((await judge("defineCodeJudge((input) => 1);", { env })).result.score, 1);
});

test("a judge without calls loads no network code", async () => {
  const done = await judge(`
    defineCodeJudge(() => ({ score: 1, details: { loaded: process.moduleLoadList } }));`);
  const { loaded } = done.result.details;
  assert.ok(loaded.length > 0);
  const network = /NativeModule (http|_http_client|_http_agent|internal\/deps\/undici.*)$/;
  assert.deepEqual(
    loaded.filter((name) => network.test(name)),
    [],
  );
});
