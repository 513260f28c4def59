/** What both judges need: the passages that were found, and the arithmetic. */

import type { CodeJudgeInput, CodeJudgeResult } from "@agentv/eval";

/** What the `search` tool returned to the assistant, best first. */
export function passagesOf(input: CodeJudgeInput): string[] {
  const calls = input.outputMessages.flatMap((message) => message.tool_calls ?? []);
  return calls.filter((call) => call.tool === "search").flatMap((call) => call.output as string[]);
}

/** A reply that is neither yes nor no is a failure: a judge that did not answer has not said no. */
export function isYes(judgment: string): boolean {
  const word = judgment.replace(/[\s.]/g, "").toLowerCase();
  if (word !== "yes" && word !== "no") throw new Error(`the judge said '${judgment}', and neither yes nor no`);
  return word === "yes";
}

/** At the rank of each helpful passage, the share of helpful ones so far; the score is the mean of these shares. */
export function result(passages: string[], helpful: boolean[]): CodeJudgeResult {
  if (helpful.length !== passages.length) throw new Error(`${helpful.length} judgments, ${passages.length} passages`);
  let seen = 0;
  const shares = helpful.flatMap((helps, index) => (helps ? [++seen / (index + 1)] : []));
  return {
    score: shares.length > 0 ? shares.reduce((sum, share) => sum + share) / shares.length : 0,
    hits: passages.filter((_, index) => helpful[index]),
    misses: passages.filter((_, index) => !helpful[index]),
  };
}
