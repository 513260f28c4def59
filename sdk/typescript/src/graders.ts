/**
 * Scripts written with the SDKs of AgentV 4 and 5: `defineCodeGrader`, `defineScriptGrader`, `defineAssertion` and
 * `definePromptTemplate`. Their handlers get every key of the payload in camelCase, at every depth.
 */

import { readFileSync } from "node:fs";

import { camelCaseDeep } from "./camel_case.js";
import { PayloadError, runOnce, runProgram, type Answer } from "./program.js";
import { InvalidResultError } from "./results.js";
import { a, isObject, replaceHalfCharacters, shown, strictJson } from "./text.js";

/** A tool call in camelCase, also inside `input` and `output`. */
export interface GraderToolCall {
  tool: string;
  // User data of unknown shape: `any`, as for `JSON.parse`.
  input?: any;
  output?: any;
  id?: string;
  startTime?: string;
  endTime?: string;
  durationMs?: number;
}

/** A message in camelCase. */
export interface GraderMessage {
  role: "assistant" | "user" | "system" | "tool";
  content?: any;
  toolCalls?: GraderToolCall[];
  name?: string;
  startTime?: string;
  endTime?: string;
  durationMs?: number;
  metadata?: Record<string, any>;
}

export interface GraderTokenUsage {
  input: number;
  output: number;
  cached?: number;
  reasoning?: number;
}

/** What the target did. `toolCalls` has the number of calls of each tool. */
export interface GraderTraceSummary {
  eventCount: number;
  toolCalls: Record<string, number>;
  errorCount: number;
  toolDurations?: Record<string, number[]>;
  llmCallCount?: number;
}

/** The trace summary, with the whole conversation and an event for each message and tool call. */
export interface GraderTrace extends GraderTraceSummary {
  messages: GraderMessage[];
  events: Record<string, any>[];
  tokenUsage?: GraderTokenUsage;
  costUsd?: number;
  durationMs?: number;
}

/** The input of a grader. The payload's other keys are there in camelCase, too. */
export interface CodeGraderInput {
  criteria: string;
  expectedOutput: GraderMessage[];
  /** The answer. */
  output?: string | null;
  outputPath?: string;
  /** The messages of the answer. */
  messages: GraderMessage[];
  input: GraderMessage[];
  inputFiles: string[];
  metadata?: Record<string, any> | null;
  trace?: GraderTrace | null;
  traceSummary?: GraderTraceSummary | null;
  tokenUsage?: GraderTokenUsage | null;
  costUsd?: number | null;
  durationMs?: number | null;
  startTime?: string | null;
  endTime?: string | null;
  fileChanges?: string | null;
  workspacePath?: string | null;
  config?: Record<string, any> | null;
}

/** One check in the spelling of AgentV 4. */
export interface GraderAssertion {
  readonly text: string;
  readonly passed: boolean;
  readonly evidence?: string;
}

/** One check in the spelling of AgentV 5. */
export interface ScriptGraderCheck {
  readonly id?: string;
  readonly text: string;
  readonly pass: boolean;
  readonly score?: number;
  readonly reason: string;
  readonly evidence?: string;
}

/** The result of an assertion. Without `score`, the score follows from `checks` or `assertions`, or else from `pass`. */
export interface AssertionScore {
  readonly pass?: boolean;
  readonly score?: number;
  readonly reason?: string;
  readonly checks?: readonly ScriptGraderCheck[];
  readonly assertions?: readonly GraderAssertion[];
  readonly details?: Readonly<Record<string, unknown>>;
}

/** The result of a grader. */
export interface CodeGraderResult extends AssertionScore {
  readonly score: number;
}

export type ScriptGraderInput = CodeGraderInput;
export type ScriptGraderResult = CodeGraderResult;
export type AssertionContext = CodeGraderInput;
export type PromptTemplateInput = CodeGraderInput;
export type CodeGraderHandler = (input: CodeGraderInput) => CodeGraderResult | Promise<CodeGraderResult>;
export type ScriptGraderHandler = CodeGraderHandler;
export type AssertionHandler = (context: AssertionContext) => AssertionScore | Promise<AssertionScore>;
export type PromptTemplateHandler = (input: PromptTemplateInput) => string | Promise<string>;

/** Runs the handler as a judge script. Scores outside 0 to 1 are clamped, as in AgentV's SDK. */
export function defineCodeGrader(handler: CodeGraderHandler): void {
  runProgram(grading(handler));
}

/** The name of `defineCodeGrader` in AgentV 5. */
export const defineScriptGrader: (handler: ScriptGraderHandler) => void = defineCodeGrader;

/** Runs the handler as a judge script. The result may have only `pass`. */
export function defineAssertion(handler: AssertionHandler): void {
  runProgram(grading(handler));
}

/** Prints the prompt that the handler returns. */
export function definePromptTemplate(handler: PromptTemplateHandler): void {
  runProgram(prompting(handler));
}

/** Like `defineCodeGrader`, for a caller that continues afterwards. */
export function runCodeGrader(handler: CodeGraderHandler): Promise<void> {
  return runOnce(grading(handler));
}

/** The name of `runCodeGrader` in AgentV 5. */
export const runScriptGrader: (handler: ScriptGraderHandler) => Promise<void> = runCodeGrader;

function grading(handler: AssertionHandler): Answer {
  return async (payload) => encoded(await handler(createGraderInput(payload)));
}

function prompting(handler: PromptTemplateHandler): Answer {
  return async (payload) => {
    const prompt: unknown = await handler(createGraderInput(payload));
    if (typeof prompt !== "string") throw new InvalidResultError(`the prompt must be a string, got ${a(prompt)}`);
    return `${prompt}\n`;
  };
}

const REQUIRED = { criteria: "a string", expectedOutput: "a list", input: "a list", inputFiles: "a list" } as const;

/** Converts a payload into the input of a grader. Also useful for testing a handler. */
export function createGraderInput(payload: Readonly<Record<string, unknown>>): CodeGraderInput {
  const input = camelCaseDeep(payload) as Record<string, unknown>;
  for (const [key, expected] of Object.entries(REQUIRED)) {
    if (a(input[key]) !== expected) {
      throw new PayloadError(`the payload must have ${expected} in '${key}', got ${a(input[key])}`);
    }
  }
  input["messages"] ??= [];
  const path = input["outputPath"];
  if (typeof path === "string" && (input["output"] ?? null) === null) readWhenUsed(input, path);
  return input as unknown as CodeGraderInput;
}

function readWhenUsed(input: Record<string, unknown>, path: string): void {
  let output: unknown;
  Object.defineProperty(input, "output", {
    get: () => (output ??= JSON.parse(readFileSync(path, "utf8"))),
    configurable: true,
    enumerable: true,
  });
}

function encoded(result: unknown): string {
  if (!isObject(result)) throw new InvalidResultError(`the handler must return an object, got ${a(result)}`);
  const { score, pass, checks, assertions } = result;
  if (score === undefined && [pass, checks, assertions].every((value) => value === undefined)) {
    throw new InvalidResultError(`the result has no 'score', only [${Object.keys(result).join(", ")}]`);
  }
  if (score !== undefined && !Number.isFinite(score)) {
    throw new InvalidResultError(`score must be a number from 0 to 1, got ${shown(score)}`);
  }
  const whole = score === undefined ? result : { ...result, score: Math.min(1, Math.max(0, score as number)) };
  try {
    return `${replaceHalfCharacters(strictJson(whole))}\n`;
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new InvalidResultError(`the result cannot be serialized as JSON: ${reason}`, { cause: error });
  }
}
