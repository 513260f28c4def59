/** Runs a function as a judge script: reads the payload from stdin, writes the result to stdout and logs to stderr. */

import { createJudgeProxyClient, type JudgeProxyClient } from "./client.js";
import { runProgram } from "./program.js";
import { encodeResult } from "./results.js";
import { createCodeJudgeInput, type CodeJudgeInput, type CodeJudgeResult } from "./values.js";

/** Judges one answer. `judge` is `undefined` if judge access is off. */
export type CodeJudgeHandler = (
  input: CodeJudgeInput,
  judge: JudgeProxyClient | undefined,
) => CodeJudgeResult | number | Promise<CodeJudgeResult | number>;

/**
 * Reads the payload from stdin, calls `handler`, prints its result and ends the process.
 *
 * The handler is called after the module has run, so it may use definitions below the call. Everything else that is
 * printed goes to stderr. If the handler throws or returns an invalid result, the process exits with code 1 and prints
 * nothing to stdout.
 */
export function defineCodeJudge(handler: CodeJudgeHandler): void {
  runProgram((payload) => answer(handler, payload));
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

/** The client. Ignores an invalid environment if the handler does not take a client. */
function clientFor(handler: CodeJudgeHandler): JudgeProxyClient | undefined {
  try {
    return createJudgeProxyClient();
  } catch (error) {
    if (handler.length === 1) return undefined;
    throw error;
  }
}
