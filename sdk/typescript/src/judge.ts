/** Run a function as a judge script: payload from stdin, result to stdout, log to stderr. */

import { fstatSync, readFileSync, writeSync } from "node:fs";

import { TOKEN_VARIABLE, URL_VARIABLE } from "./access.js";
import { createJudgeProxyClient, type JudgeProxyClient } from "./client.js";
import { encodeResult, InvalidResultError } from "./results.js";
import { a, decode, isObject } from "./text.js";
import { createCodeJudgeInput, type CodeJudgeInput, type CodeJudgeResult } from "./values.js";

/** Judges one answer. `judge` is `undefined` when judge access is off. */
export type CodeJudgeHandler = (
  input: CodeJudgeInput,
  judge: JudgeProxyClient | undefined,
) => CodeJudgeResult | number | Promise<CodeJudgeResult | number>;

const HERE = new URL(".", import.meta.url).href;
const BY_HAND = "agentv writes it; by hand: node judge.js < payload.json";

const PROTOCOL_VARIABLE = "AGENTV_JUDGE_PROTOCOL";

class PayloadError extends Error {}

/**
 * Judge: read the payload from stdin, call `handler`, print its result and end the process.
 *
 * The handler is called after the module has run, so what it uses may stand below. Whatever else is printed goes to
 * stderr. A handler that throws, or returns something that is not a result, ends the process with exit code 1 and
 * prints nothing on stdout.
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
      process.exit(0); // what the handler left open must not keep a judge that has judged waiting
    })
    .catch((error: unknown) => {
      watch.stop();
      fail(error);
    });
}

async function judge(handler: CodeJudgeHandler): Promise<string> {
  return answer(handler, await readPayload()); // while this waits, the rest of the module runs
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

/** Judge many answers: a payload a line on stdin, a result a line on stdout. A handler that throws fails its own. */
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
    return named({ error: told(error) });
  } finally {
    setVariable(URL_VARIABLE, undefined);
    setVariable(TOKEN_VARIABLE, undefined);
  }
}

function setVariable(name: string, value: unknown): void {
  if (typeof value === "string") process.env[name] = value;
  else delete process.env[name];
}

/** An environment that is broken is no concern of a handler that does not take the client. */
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
    throw new PayloadError(`stdin must hold one JSON object in UTF-8: ${reason}; ${BY_HAND}`, { cause: error });
  }
  if (!isObject(payload)) throw new PayloadError(`stdin must hold one JSON object, got ${a(payload)}; ${BY_HAND}`);
  return payload;
}

async function readStdin(): Promise<Uint8Array> {
  if (fstatSync(0).isCharacterDevice() && (await import("node:tty")).isatty(0)) {
    log(`waiting for the payload, one JSON object, on stdin (${BY_HAND})`);
  }
  try {
    return readFileSync(0); // at once, and without loading streams
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EAGAIN") throw error;
  }
  const chunks: Buffer[] = [];
  for await (const chunk of process.stdin) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks);
}

/**
 * Keep stdout for the result: from now on whatever prints in this process prints to stderr, also after the result.
 * Returns the function that writes the result.
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

/** Only in Node does `console` print through `process.stdout`. */
function claimConsole(): void {
  for (const name of ["log", "info", "debug", "dir", "table", "group", "count", "timeEnd", "timeLog"] as const) {
    console[name] = (...values: unknown[]) => console.error(...values);
  }
}

/** A judge that ends without having judged must not look like one that had nothing to say. */
function watchTheEnd(): { stop(): void } {
  let idle = false;
  const uncaught = (error: unknown): void => {
    if (process.listenerCount("uncaughtException") > 1) return; // somebody else takes care of it
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
        ? "the judge failed: its handler waits for something that can never happen: every promise it awaits must settle"
        : "the judge failed: the handler called process.exit() instead of returning a result",
    );
  };
  const stop = (): void => {
    process.off("uncaughtException", uncaught).off("beforeExit", beforeExit).off("exit", exit);
  };
  process.on("uncaughtException", uncaught).on("beforeExit", beforeExit).on("exit", exit);
  return { stop };
}

/** The one edge where a judge's exception becomes its failure. */
function fail(error: unknown): never {
  told(error);
  process.exit(1);
}

/** Say on stderr why the judge failed; the same in one line. */
function told(error: unknown): string {
  const own = error instanceof InvalidResultError || error instanceof PayloadError;
  const why = error instanceof Error ? (own ? error.message : `${error.name}: ${error.message}`) : String(error);
  log(`the judge failed: ${why}`, error instanceof Error && !own ? ownStack(error) : undefined);
  return why;
}

/** The stack without the frames of this package and of Node: the author of the judge wrote none of them. */
function ownStack(error: Error): string {
  const lines = (error.stack ?? String(error)).split("\n");
  return lines.filter((line) => !/^ +at /.test(line) || !(line.includes(HERE) || line.includes("node:"))).join("\n");
}

/** One line, the last: it is what a report shows. */
function log(message: string, before?: string): void {
  const line = message.split(/\s+/).join(" ").trim();
  const text = `${before === undefined ? "" : `${before}\n`}@agentv/eval: ${line}\n`;
  try {
    writeSync(2, text);
  } catch {
    process.stderr.write(text);
  }
}
