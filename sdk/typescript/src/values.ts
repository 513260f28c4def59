/** The values of a judge script: its input, its result, and the replies of the judge proxy. */

import { toCamelCase } from "./camel_case.js";
import { didYouMean } from "./errors.js";

/** One tool call of an assistant. `input` and `output` are user data. */
export interface ToolCall {
  tool: string;
  input?: unknown;
  output?: unknown;
  id?: string;
  timestamp?: string;
}

interface AnyMessage {
  role: string;
  /** Text, a list of content parts, or one structured object. */
  content?: unknown;
  name?: string;
  timestamp?: string;
  metadata?: Record<string, unknown>;
}

/** A message with the keys used in suites, result rows and payloads. `toolCalls` is the same list as `tool_calls`. */
export interface Message extends AnyMessage {
  tool_calls?: ToolCall[];
  readonly toolCalls?: ToolCall[];
}

/** A message of the judge, with the keys used by the judge proxy. `tool_calls` is the same list as `toolCalls`. */
export interface JudgeMessage extends AnyMessage {
  toolCalls?: ToolCall[];
  readonly tool_calls?: ToolCall[];
}

/** What the target did. Every key can also be read in camelCase: `eventCount`. So can those of `config`. */
export type TraceSummary = Record<string, any>;

/** The input of a judge script. Missing lists are `[]`, other missing values are `null`. `raw` is the whole payload. */
export interface CodeJudgeInput {
  readonly evalId: string | null;
  readonly attempt: number | null;
  readonly target: string | null;
  readonly suite: string | null;
  readonly question: string | null;
  readonly inputMessages: Message[];
  readonly inputFiles: string[];
  readonly expectedOutcome: string | null;
  readonly expectedMessages: Message[];
  readonly referenceAnswer: string | null;
  readonly candidateAnswer: string | null;
  readonly outputMessages: Message[];
  readonly guidelineFiles: string[];
  // User data of unknown shape: `any`, as for `JSON.parse`.
  readonly traceSummary: TraceSummary | null;
  readonly metadata: Record<string, any> | null;
  readonly vars: Record<string, any> | null;
  readonly config: Record<string, any> | null;
  /** The whole payload as read from stdin. */
  readonly raw: Readonly<Record<string, unknown>>;
}

/** The result of a judge. Only `score` is required: a finite number from 0 (worst) to 1 (best). */
export interface CodeJudgeResult {
  score: number;
  hits?: readonly string[] | null;
  misses?: readonly string[] | null;
  reasoning?: string | null;
  details?: Readonly<Record<string, unknown>> | null;
}

/** One reply of the judge. A failed item of a batch has `error` and `code` set. */
export interface JudgeReply {
  /**
   * The text of the reply. Reading it on a failed item throws the error that `invoke` would have thrown, so that a
   * failure is never mistaken for an empty reply.
   */
  readonly rawText: string;
  outputMessages: JudgeMessage[];
  usage: Record<string, unknown> | null;
  error: string | null;
  code: string | null;
}

/**
 * The default judge target, the available targets, and the number of calls allowed and made. `waitingCalls` is how many
 * calls of this script wait for a slot of their judge target, and `waitedMs` how long at least one of them has waited.
 */
export interface JudgeInfo {
  targetName: string;
  maxCalls: number;
  callCount: number;
  availableTargets: string[];
  waitingCalls: number;
  waitedMs: number;
}

/** One question for the judge. `target` selects a judge other than the default. `null` means not set. */
export interface JudgeRequest {
  question: string;
  systemPrompt?: string | null | undefined;
  target?: string | null | undefined;
  evalCaseId?: string | null | undefined;
  attempt?: number | null | undefined;
}

const KEYS = {
  eval_id: "evalId",
  attempt: "attempt",
  target: "target",
  suite: "suite",
  question: "question",
  input_messages: "inputMessages",
  input_files: "inputFiles",
  expected_outcome: "expectedOutcome",
  expected_messages: "expectedMessages",
  reference_answer: "referenceAnswer",
  candidate_answer: "candidateAnswer",
  output_messages: "outputMessages",
  guideline_files: "guidelineFiles",
  trace_summary: "traceSummary",
  metadata: "metadata",
  vars: "vars",
  config: "config",
} as const;
const NAMES = [...Object.values(KEYS), "raw"];
const LISTS = new Set(["input_messages", "input_files", "expected_messages", "output_messages", "guideline_files"]);

/**
 * Makes misspelled names an error: otherwise they would be `undefined`, and the judge would score an empty answer. Names
 * without a similar known name are allowed, because `await`, `console.log` and test libraries probe for many names.
 */
const misspellingsAreErrors: object = new Proxy(Object.prototype, {
  get(target, name, receiver): unknown {
    const hint = typeof name === "symbol" || name in target ? ";" : didYouMean(name, NAMES);
    if (hint === ";") return Reflect.get(target, name, receiver);
    throw new TypeError(
      `the judge input has no attribute '${String(name)}'${hint} available: ${NAMES.join(", ")}; ` +
        "other keys of the payload are in `.raw`",
    );
  },
});

/**
 * Adds a second name for a key, which scripts written for AgentV use. It is not enumerable, so that the data stays the
 * same when it is copied, compared or printed as JSON.
 */
function alias(value: unknown, key: string, name: string): void {
  if (typeof value !== "object" || value === null || !Object.hasOwn(value, key) || name in value) return;
  Object.defineProperty(value, name, { value: (value as Record<string, unknown>)[key], configurable: true });
}

/** Lets `tool_calls` be read as `toolCalls`, or the reverse. Returns the messages. */
export function withBothSpellings<Messages>(messages: Messages): Messages {
  if (!Array.isArray(messages)) return messages;
  for (const message of messages) {
    alias(message, "tool_calls", "toolCalls");
    alias(message, "toolCalls", "tool_calls");
  }
  return messages;
}

/** Lets every key inside be read in camelCase, too. Returns the value. */
function withCamelCase(value: unknown): unknown {
  if (typeof value !== "object" || value === null) return value;
  for (const [key, item] of Object.entries(value)) {
    withCamelCase(item);
    alias(value, key, toCamelCase(key));
  }
  return value;
}

/** Converts a payload with snake_case keys into the input of a handler. Also useful for testing a handler. */
export function createCodeJudgeInput(payload: Readonly<Record<string, unknown>>): CodeJudgeInput {
  const input = Object.create(misspellingsAreErrors) as Record<string, unknown>;
  for (const [key, name] of Object.entries(KEYS)) {
    const value = Object.hasOwn(payload, key) ? payload[key] : null;
    input[name] = value ?? (LISTS.has(key) ? [] : null);
    if (key.endsWith("_messages")) withBothSpellings(input[name]);
    if (key === "trace_summary" || key === "config") withCamelCase(input[name]);
  }
  input["raw"] = payload;
  return input as unknown as CodeJudgeInput;
}
