/** Shared by both judges: the passages that were found, and the arithmetic. */

import type { CodeJudgeInput, CodeJudgeResult } from "@agentv/eval";

/** What the `search` tool returned to the assistant, best first. */
export function passagesOf(input: CodeJudgeInput): string[] {
  const calls = input.outputMessages.flatMap((message) => message.tool_calls ?? []);
  return calls.filter((call) => call.tool === "search").flatMap((call) => call.output as string[]);
}

/** Whether the judge answered yes. Any reply but yes or no is an error, not a no. */
export function isYes(judgment: string): boolean {
  const word = judgment.replace(/[\s.]/g, "").toLowerCase();
  if (word !== "yes" && word !== "no") throw new Error(`the judge must answer yes or no, got '${judgment}'`);
  return word === "yes";
}

/** At the rank of each helpful passage, the share of helpful ones so far; the score is the mean of these shares. */
export function result(passages: string[], helpful: boolean[]): CodeJudgeResult {
  if (helpful.length !== passages.length) throw new Error(`${helpful.length} judgments, ${passages.length} passages`);
  let seen = 0;
  const shares = helpful.flatMap((helps, index) => (helps ? [++seen / (index + 1)] : []));
  const judged = passages.map((passage, index) => ({ passage, rank: index + 1, helps: helpful[index] }));
  const hits = judged.filter(({ helps }) => helps);
  const misses = judged.filter(({ helps }) => !helps);
  return {
    score: shares.length > 0 ? shares.reduce((sum, share) => sum + share) / shares.length : 0,
    hits: hits.map(({ rank, passage }) => `rank ${rank} helps: ${passage}`),
    misses: misses.map(({ rank, passage }) => `rank ${rank} does not help: ${passage}`),
    reasoning: `${hits.length} of ${passages.length} passages help${hits.map(({ rank }) => `, rank ${rank}`).join("")}`,
  };
}
