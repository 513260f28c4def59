/** Runs a function as a program of agentv: reads the payload from stdin, prints one result, and logs to stderr. */

import { fstatSync, readFileSync, writeSync } from "node:fs";

import { TOKEN_VARIABLE, URL_VARIABLE } from "./access.js";
import { InvalidResultError } from "./results.js";
import { a, decode, isObject } from "./text.js";

/** What is printed for a payload. */
export type Answer = (payload: Record<string, unknown>) => Promise<string>;

const HERE = new URL(".", import.meta.url).href;
const BY_HAND = "agentv writes it; to run the judge manually: node judge.js < payload.json";

const PROTOCOL_VARIABLE = "AGENTV_JUDGE_PROTOCOL";

/** The payload is not valid. */
export class PayloadError extends Error {}

/**
 * Reads the payload from stdin, prints the answer and ends the process.
 *
 * The answer is asked for after the module has run. Everything else that is printed goes to stderr. If there is no
 * answer, the process exits with code 1 and prints nothing to stdout.
 */
export function runProgram(answer: Answer): void {
  if (process.env[PROTOCOL_VARIABLE] === "jsonl") {
    serve(answer, claimStdout()).then(() => process.exit(0), fail);
    return;
  }
  // Do not wait for handles that the handler left open.
  void runOnce(answer).then(() => process.exit(0));
}

/** Like `runProgram`, for callers that continue after the answer. */
export async function runOnce(answer: Answer): Promise<void> {
  const write = claimStdout();
  const watch = watchTheEnd();
  try {
    await write(await answer(await readPayload())); // the rest of the module runs during these awaits
    watch.stop();
  } catch (error) {
    watch.stop();
    fail(error);
  }
}

/** Judges many answers: one payload per line on stdin, one result per line on stdout. An exception fails one result. */
async function serve(answer: Answer, write: (result: string) => Promise<void>): Promise<void> {
  const { createInterface } = await import("node:readline");
  process.on("uncaughtException", fail);
  for await (const line of createInterface({ input: process.stdin, crlfDelay: Infinity })) {
    if (line.trim() !== "") await write(`${(await served(answer, line)).trim()}\n`);
  }
}

async function served(answer: Answer, line: string): Promise<string> {
  let name: unknown;
  const named = (result: object): string => JSON.stringify({ ...result, execution_id: name });
  try {
    const { judge_proxy: access, execution_id: id, ...payload } = JSON.parse(line) as Record<string, unknown>;
    name = id;
    const granted = isObject(access) ? access : {};
    setVariable(URL_VARIABLE, granted["url"]);
    setVariable(TOKEN_VARIABLE, granted["token"]);
    return named(JSON.parse(await answer(payload)) as object);
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
