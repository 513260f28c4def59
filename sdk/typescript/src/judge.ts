/** Runs a function as a judge script: reads the payload from stdin, writes the result to stdout and logs to stderr. */

import { fstatSync, readFileSync, writeSync } from "node:fs";

import { TOKEN_VARIABLE, URL_VARIABLE } from "./access.js";
import { createJudgeProxyClient, type JudgeProxyClient } from "./client.js";
import { encodeResult, InvalidResultError } from "./results.js";
import { a, decode, isObject } from "./text.js";
import { createCodeJudgeInput, type CodeJudgeInput, type CodeJudgeResult } from "./values.js";

/** Judges one answer. `judge` is `undefined` if judge access is off. */
export type CodeJudgeHandler = (
  input: CodeJudgeInput,
  judge: JudgeProxyClient | undefined,
) => CodeJudgeResult | number | Promise<CodeJudgeResult | number>;

const HERE = new URL(".", import.meta.url).href;
const BY_HAND = "agentv writes it; to run the judge manually: node judge.js < payload.json";

const PROTOCOL_VARIABLE = "AGENTV_JUDGE_PROTOCOL";

class PayloadError extends Error {}

/**
 * Reads the payload from stdin, calls `handler`, prints its result and ends the process.
 *
 * The handler is called after the module has run, so it may use definitions below the call. Everything else that is
 * printed goes to stderr. If the handler throws or returns an invalid result, the process exits with code 1 and prints
 * nothing to stdout.
 */
export function defineCodeJudge(handler: CodeJudgeHandler): void {
  const write = claimStdout();
  if (process.env[PROTOCOL_VARIABLE] === "jsonl") {
    serve(handler, write).then(
      () => process.exit(0),
      (error: unknown) => fail(error),
    );
    return;
  }
  const watch = watchTheEnd();
  judge(handler)
    .then(async (result) => {
      await write(result);
      watch.stop();
      process.exit(0); // do not wait for handles that the handler left open
    })
    .catch((error: unknown) => {
      watch.stop();
      fail(error);
    });
}

async function judge(handler: CodeJudgeHandler): Promise<string> {
  return answer(handler, await readPayload()); // the rest of the module runs during this await
}

async function answer(handler: CodeJudgeHandler, payload: Record<string, unknown>): Promise<string> {
  const input = createCodeJudgeInput(payload);
  const client = clientFor(handler);
  try {
    return encodeResult(await handler(input, client));
  } finally {
    client?.close();
  }
}

/** Judges many answers: one payload per line on stdin, one result per line on stdout. An exception fails one result. */
async function serve(handler: CodeJudgeHandler, write: (result: string) => Promise<void>): Promise<void> {
  const { createInterface } = await import("node:readline");
  process.on("uncaughtException", fail);
  for await (const line of createInterface({ input: process.stdin, crlfDelay: Infinity })) {
    if (line.trim() !== "") await write(`${(await served(handler, line)).trim()}\n`);
  }
}

async function served(handler: CodeJudgeHandler, line: string): Promise<string> {
  let name: unknown;
  const named = (result: object): string => JSON.stringify({ ...result, execution_id: name });
  try {
    const { judge_proxy: access, execution_id: id, ...payload } = JSON.parse(line) as Record<string, unknown>;
    name = id;
    const granted = isObject(access) ? access : {};
    setVariable(URL_VARIABLE, granted["url"]);
    setVariable(TOKEN_VARIABLE, granted["token"]);
    return named(JSON.parse(await answer(handler, payload)) as object);
  } catch (error) {
    return named({ error: report(error) });
  } finally {
    setVariable(URL_VARIABLE, undefined);
    setVariable(TOKEN_VARIABLE, undefined);
  }
}

function setVariable(name: string, value: unknown): void {
  if (typeof value === "string") process.env[name] = value;
  else delete process.env[name];
}

/** The client. Ignores an invalid environment if the handler does not take a client. */
function clientFor(handler: CodeJudgeHandler): JudgeProxyClient | undefined {
  try {
    return createJudgeProxyClient();
  } catch (error) {
    if (handler.length === 1) return undefined;
    throw error;
  }
}

async function readPayload(): Promise<Record<string, unknown>> {
  let payload: unknown;
  try {
    payload = JSON.parse(decode(await readStdin(), { dropMark: true }));
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new PayloadError(`stdin must contain one JSON object in UTF-8: ${reason}; ${BY_HAND}`, { cause: error });
  }
  if (!isObject(payload)) throw new PayloadError(`stdin must contain one JSON object, got ${a(payload)}; ${BY_HAND}`);
  return payload;
}

async function readStdin(): Promise<Uint8Array> {
  if (fstatSync(0).isCharacterDevice() && (await import("node:tty")).isatty(0)) {
    log(`waiting for the payload (one JSON object) on stdin; ${BY_HAND}`);
  }
  try {
    return readFileSync(0); // faster, because streams are not loaded
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EAGAIN") throw error;
  }
  const chunks: Buffer[] = [];
  for await (const chunk of process.stdin) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks);
}

/**
 * Reserves stdout for the result: everything else that this process prints goes to stderr, even after the result.
 * Returns a function that writes the result.
 */
function claimStdout(): (result: string) => Promise<void> {
  const stdout = process.stdout;
  const write = stdout.write.bind(stdout);
  stdout.write = process.stderr.write.bind(process.stderr);
  if (process.versions["bun"] !== undefined || "Deno" in globalThis) claimConsole();
  return (result) =>
    new Promise((resolve, reject) => {
      stdout.once("error", reject);
      write(result, (error) => (error ? reject(error) : resolve()));
    });
}

/** Redirects `console`, which uses `process.stdout` only in Node. */
function claimConsole(): void {
  for (const name of ["log", "info", "debug", "dir", "table", "group", "count", "timeEnd", "timeLog"] as const) {
    console[name] = (...values: unknown[]) => console.error(...values);
  }
}

/** Reports a failure if the process ends before the handler has returned a result. */
function watchTheEnd(): { stop(): void } {
  let idle = false;
  const uncaught = (error: unknown): void => {
    if (process.listenerCount("uncaughtException") > 1) return; // another listener handles it
    stop();
    fail(error);
  };
  const beforeExit = (): void => {
    idle = true;
  };
  const exit = (code: number): void => {
    process.exitCode = code === 0 || idle ? 1 : code;
    log(
      idle
        ? "the judge failed: the handler awaits a promise that never settles"
        : "the judge failed: the handler called process.exit() instead of returning a result",
    );
  };
  const stop = (): void => {
    process.off("uncaughtException", uncaught).off("beforeExit", beforeExit).off("exit", exit);
  };
  process.on("uncaughtException", uncaught).on("beforeExit", beforeExit).on("exit", exit);
  return { stop };
}

/** Reports an exception as a failure of the judge and exits. */
function fail(error: unknown): never {
  report(error);
  process.exit(1);
}

/** Prints to stderr why the judge failed, and returns the message as one line. */
function report(error: unknown): string {
  const own = error instanceof InvalidResultError || error instanceof PayloadError;
  const why = error instanceof Error ? (own ? error.message : `${error.name}: ${error.message}`) : String(error);
  log(`the judge failed: ${why}`, error instanceof Error && !own ? ownStack(error) : undefined);
  return why;
}

/** The stack without the frames of this package and of Node. */
function ownStack(error: Error): string {
  const lines = (error.stack ?? String(error)).split("\n");
  return lines.filter((line) => !/^ +at /.test(line) || !(line.includes(HERE) || line.includes("node:"))).join("\n");
}

/** Prints a message as the last line of stderr, which is the line that agentv reports. */
function log(message: string, before?: string): void {
  const line = message.split(/\s+/).join(" ").trim();
  const text = `${before === undefined ? "" : `${before}\n`}@agentv/eval: ${line}\n`;
  try {
    writeSync(2, text);
  } catch {
    process.stderr.write(text);
  }
}
