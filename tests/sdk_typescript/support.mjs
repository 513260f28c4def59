/** A scripted loopback server that responds with given bytes, and judges as real processes. */

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createServer } from "node:net";
import { fileURLToPath } from "node:url";

export const ROOT = fileURLToPath(new URL("../../", import.meta.url));
export const SDK = `${ROOT}sdk/typescript/`;
export const TOKEN = "t0ken-for-tests_123";

export const eval_ = await import(`${SDK}dist/index.js`);

export function vectors(name) {
  return JSON.parse(readFileSync(`${ROOT}conformance/${name}`, "utf8"));
}

/** Bytes of an answer; a header that is null is not sent. */
export function http(status, body, headers = {}) {
  const data = Buffer.from(typeof body === "string" ? body : JSON.stringify(body));
  const sent = Object.entries({ "Content-Length": data.length, ...headers }).filter(([, value]) => value !== null);
  const head = sent.map(([name, value]) => `${name}: ${value}\r\n`).join("");
  return Buffer.concat([Buffer.from(`HTTP/1.1 ${status} Whatever\r\n${head}\r\n`), data]);
}

export function reply(text = "yes") {
  return { data: http(200, { outputMessages: [{ role: "assistant", content: text }], rawText: text }) };
}

export function inTurn(...answers) {
  return () => answers.shift();
}

/** The environment of a script that may ask the judge at this port. */
export function environ(port) {
  return { AGENTV_JUDGE_PROXY_URL: `http://127.0.0.1:${port}`, AGENTV_JUDGE_PROXY_TOKEN: TOKEN };
}

/** What a server does with each connection, until the test has ended. */
export async function rawServer(t, serve) {
  const server = createServer({ allowHalfOpen: false }, (socket) => {
    sockets.add(socket);
    socket.on("error", () => {});
    serve(socket, sockets.size);
  });
  const sockets = new Set();
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  const { port } = server.address();
  return { port, environ: environ(port), sockets };
}

/**
 * Answers every request with what `answer` says: bytes, and then `keep` (unless said otherwise), `close`, `reset` or
 * `silence`. Remembers all requests.
 */
export async function serve(t, answer) {
  const seen = [];
  const closed = [];
  const ended = [];
  const server = await rawServer(t, (socket, connection) => {
    let buffer = Buffer.alloc(0);
    socket.on("close", () => closed.push(connection));
    socket.on("finish", () => ended.push(connection));
    socket.on("data", async (chunk) => {
      buffer = Buffer.concat([buffer, chunk]);
      const request = whole(buffer);
      if (request === undefined) return;
      buffer = buffer.subarray(request.size);
      seen.push({ ...request, connection });
      const { data = "", then = "keep" } = (await answer({ ...request, connection })) ?? {};
      if (then === "reset") socket.resetAndDestroy();
      else if (then === "close") socket.end(data);
      else if (then === "keep") socket.write(data);
    });
  });
  return { ...server, seen, closed, ended };
}

function whole(buffer) {
  const end = buffer.indexOf("\r\n\r\n");
  if (end < 0) return undefined;
  const [first, ...lines] = buffer.toString("latin1", 0, end).split("\r\n");
  const [method, path] = first.split(" ");
  const headers = Object.fromEntries(
    lines.map((line) => [line.slice(0, line.indexOf(":")).toLowerCase(), line.slice(line.indexOf(":") + 1).trim()]),
  );
  const size = end + 4 + Number(headers["content-length"] ?? 0);
  if (buffer.length < size) return undefined;
  return { method, path, headers, body: buffer.toString("utf8", end + 4, size), size };
}

/** The client for a server; closed when the test ends. */
export function clientFor(t, server, timeoutMs = 20_000) {
  const judge = eval_.createJudgeProxyClient({ env: server.environ, timeoutMs });
  t.after(() => judge.close());
  return judge;
}

/** The error of a call that must fail. */
export async function failure(call) {
  try {
    await call();
  } catch (error) {
    return error;
  }
  assert.fail("it should have failed");
}

export function checkError(error, vector) {
  assert.ok(error instanceof eval_.JudgeProxyError, String(error?.stack));
  assert.deepEqual({ class: error.name, status: error.status, code: error.code }, vector.error, error.message);
  assert.ok(error instanceof eval_[error.name]);
  for (const part of vector.message_has ?? []) assert.ok(error.message.includes(part), error.message);
  assert.ok(!error.message.includes(TOKEN));
}

/** Run source text as a judge, in a process of its own; imports from the package are already there. */
export async function runJudge(source, { stdin = "{}", env = {}, args = [] } = {}) {
  const names = Object.keys(eval_).join(", ");
  const text = `import { ${names} } from ${JSON.stringify(`file://${SDK}dist/index.js`)};\n${source}`;
  return await run("node", ["--input-type=module", "-e", text, "--", ...args], { stdin, env });
}

export async function run(program, argv, { stdin = "", env = {}, cwd } = {}) {
  const kept = Object.entries(process.env).filter(([name]) => !/^(AGENTV_|NODE_)/.test(name));
  const child = spawn(program, argv, { env: { ...Object.fromEntries(kept), ...env }, cwd });
  const output = { stdout: [], stderr: [] };
  child.stdout.on("data", (chunk) => output.stdout.push(chunk));
  child.stderr.on("data", (chunk) => output.stderr.push(chunk));
  child.stdin.on("error", () => {});
  if (typeof stdin === "function") await stdin(child);
  else child.stdin.end(stdin);
  const [code, signal] = await once(child, "close");
  const stdout = Buffer.concat(output.stdout).toString();
  const stderr = Buffer.concat(output.stderr).toString();
  return {
    code: code ?? signal,
    stdout,
    stderr,
    lastLine: stderr.trimEnd().split("\n").at(-1),
    get result() {
      assert.equal(code, 0, stderr);
      return JSON.parse(stdout);
    },
  };
}
