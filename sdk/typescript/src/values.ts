/** The values a judge script meets: its payload, its result, and what the judge proxy answers. */

import { didYouMean } from "./errors.js";

/** One tool call of an assistant; `input` and `output` are user data. */
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

/** A message as suites, rows and payloads spell it; nothing inside a payload is ever renamed. */
export interface Message extends AnyMessage {
  tool_calls?: ToolCall[];
}

/** A message of the judge, as the judge proxy spells it. */
export interface JudgeMessage extends AnyMessage {
  toolCalls?: ToolCall[];
}

/** The payload of one execution. What is absent is `[]` for a list, else `null`; `raw` is all of it. */
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
  // User data, whose shape only the suite's author knows: `any`, as `JSON.parse` has it.
  readonly traceSummary: Record<string, any> | null;
  readonly metadata: Record<string, any> | null;
  readonly config: Record<string, any> | null;
  /** The whole payload as it was read. */
  readonly raw: Readonly<Record<string, unknown>>;
}

/** What a judge found. Only `score` is required: a finite number, 0 worst and 1 best. */
export interface CodeJudgeResult {
  score: number;
  hits?: readonly string[] | null;
  misses?: readonly string[] | null;
  reasoning?: string | null;
  details?: Readonly<Record<string, unknown>> | null;
}

/** One reply of the judge. In a batch, an item that failed has `error` and `code` set. */
export interface JudgeReply {
  /**
   * The text of the judge. A failed item has none: reading it throws what `invoke` would have thrown, so that a judge
   * that failed is never taken for one that said nothing.
   */
  readonly rawText: string;
  outputMessages: JudgeMessage[];
  usage: Record<string, unknown> | null;
  error: string | null;
  code: string | null;
}

/** Who judges, and how many calls are allowed and made. */
export interface JudgeInfo {
  targetName: string;
  maxCalls: number;
  callCount: number;
  availableTargets: string[];
}

/** One question for the judge; `target` chooses another judge than the default. `null` is the same as absent. */
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
  config: "config",
} as const;
const NAMES = [...Object.values(KEYS), "raw"];
const LISTS = new Set(["input_messages", "input_files", "expected_messages", "output_messages", "guideline_files"]);

/**
 * In plain JavaScript a misspelt name would read as `undefined` and judge an empty answer; here it is an error. Names
 * that are like none are left alone: `await`, `console.log` and test libraries look for many on any object.
 */
const misspellingsAreErrors: object = new Proxy(Object.prototype, {
  get(target, name, receiver): unknown {
    const hint = typeof name === "symbol" || name in target ? ";" : didYouMean(name, NAMES);
    if (hint === ";") return Reflect.get(target, name, receiver);
    throw new TypeError(
      `a judge's input has no '${String(name)}'${hint} it has ${NAMES.join(", ")}; ` +
        "keys of the payload that are not listed are in `.raw`",
    );
  },
});

/** A payload with snake_case keys -> what a handler gets; also to test a handler with. */
export function createCodeJudgeInput(payload: Readonly<Record<string, unknown>>): CodeJudgeInput {
  const input = Object.create(misspellingsAreErrors) as Record<string, unknown>;
  for (const [key, name] of Object.entries(KEYS)) {
    const value = Object.hasOwn(payload, key) ? payload[key] : null;
    input[name] = value ?? (LISTS.has(key) ? [] : null);
  }
  input["raw"] = payload;
  return input as unknown as CodeJudgeInput;
}
