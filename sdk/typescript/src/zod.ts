/** The schemas of AgentV's SDKs, for scripts that check their input with zod. Needs the package zod. */

import { z } from "zod";

export { z };

const anything = z.record(z.string(), z.unknown());
const counts = z.record(z.string(), z.number());

export const TokenUsageSchema = z.object({
  input: z.number(),
  output: z.number(),
  cached: z.number().optional(),
  reasoning: z.number().optional(),
});

export const ToolCallSchema = z.object({
  tool: z.string(),
  input: z.unknown().optional(),
  output: z.unknown().optional(),
  id: z.string().optional(),
  timestamp: z.string().optional(),
  startTime: z.string().optional(),
  endTime: z.string().optional(),
  durationMs: z.number().optional(),
});

export const ContentTextSchema = z.object({ type: z.literal("text"), text: z.string() });
export const ContentImageSchema = z.object({ type: z.literal("image"), media_type: z.string(), path: z.string() });
export const ContentFileSchema = z.object({ type: z.literal("file"), media_type: z.string(), path: z.string() });
export const ContentSchema = z.discriminatedUnion("type", [ContentTextSchema, ContentImageSchema, ContentFileSchema]);

export const MessageSchema = z.object({
  role: z.enum(["assistant", "user", "system", "tool"]),
  content: z.union([z.string(), z.array(z.union([ContentSchema, anything])), anything]).optional(),
  toolCalls: z.array(ToolCallSchema).optional(),
  name: z.string().optional(),
  timestamp: z.string().optional(),
  startTime: z.string().optional(),
  endTime: z.string().optional(),
  durationMs: z.number().optional(),
  metadata: anything.optional(),
});

/** The trace summary with the keys of every release. */
export const TraceSummarySchema = z.object({
  eventCount: z.number(),
  toolCalls: counts,
  errorCount: z.number(),
  toolDurations: z.record(z.string(), z.array(z.number())).optional(),
  llmCallCount: z.number().optional(),
  toolNames: z.array(z.string()).optional(),
  toolCallsByName: counts.optional(),
  tokenUsage: TokenUsageSchema.optional(),
  costUsd: z.number().optional(),
  durationMs: z.number().optional(),
});

export const TRACE_EVENT_TYPES = [
  "message",
  "model_turn",
  "tool_call",
  "tool_result",
  "final_response",
  "error",
] as const;

export const TraceToolSchema = z.object({
  name: z.string(),
  callId: z.string().optional(),
  input: z.unknown().optional(),
  output: z.unknown().optional(),
});

export const TraceEventSchema = z.object({
  eventId: z.string(),
  parentEventId: z.string().optional(),
  ordinal: z.number().int().nonnegative(),
  type: z.enum(TRACE_EVENT_TYPES),
  message: z.object({ role: z.string(), content: z.unknown().optional() }).optional(),
  tool: TraceToolSchema.optional(),
});

export const TraceSchema = TraceSummarySchema.extend({
  messages: z.array(MessageSchema),
  events: z.array(TraceEventSchema),
});

export const CodeGraderInputSchema = z.object({
  criteria: z.string(),
  expectedOutput: z.array(MessageSchema),
  output: z.string().nullable().optional(),
  outputPath: z.string().optional(),
  messages: z.array(MessageSchema).optional().default([]),
  inputFiles: z.array(z.string()),
  input: z.array(MessageSchema),
  metadata: anything.nullable().optional(),
  trace: TraceSchema.nullable().optional(),
  traceSummary: TraceSummarySchema.nullable().optional(),
  tokenUsage: TokenUsageSchema.nullable().optional(),
  costUsd: z.number().nullable().optional(),
  durationMs: z.number().nullable().optional(),
  startTime: z.string().nullable().optional(),
  endTime: z.string().nullable().optional(),
  fileChanges: z.string().nullable().optional(),
  workspacePath: z.string().nullable().optional(),
  config: anything.nullable().optional(),
});

/** The input of `defineCodeJudge`. */
export const CodeJudgeInputSchema = z.object({
  question: z.string(),
  expectedOutcome: z.string().nullable(),
  expectedMessages: z.array(MessageSchema),
  referenceAnswer: z.string().nullable().optional(),
  candidateAnswer: z.string(),
  outputMessages: z.array(MessageSchema).nullable().optional(),
  guidelineFiles: z.array(z.string()),
  inputFiles: z.array(z.string()),
  inputMessages: z.array(MessageSchema),
  traceSummary: anything.nullable().optional(),
  config: anything.nullable().optional(),
});

const score = z.number().min(0).max(1);
const strings = z.array(z.string()).optional().default([]);

export const CodeJudgeResultSchema = z.object({
  score,
  hits: strings,
  misses: strings,
  reasoning: z.string().optional(),
  details: anything.optional(),
});

export const CodeGraderResultSchema = z.object({
  score,
  assertions: z
    .array(z.object({ text: z.string(), passed: z.boolean(), evidence: z.string().optional() }))
    .optional()
    .default([]),
  details: anything.optional(),
});

export const ScriptGraderCheckSchema = z.object({
  id: z.string().optional(),
  text: z.string(),
  pass: z.boolean(),
  score: score.optional(),
  reason: z.string(),
  evidence: z.string().optional(),
});

export const ScriptGraderResultSchema = z.object({
  pass: z.boolean(),
  score,
  reason: z.string(),
  checks: z.array(ScriptGraderCheckSchema).optional().default([]),
  details: anything.optional(),
});

export const ScriptGraderInputSchema = CodeGraderInputSchema;
export const PromptTemplateInputSchema = CodeGraderInputSchema;
