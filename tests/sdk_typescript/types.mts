// Compiled, never run: what the types must allow, and below each `@ts-expect-error` what they must refuse.
import {
  createCodeJudgeInput,
  createJudgeProxyClient,
  createProviderClient,
  defineAssertion,
  defineCodeGrader,
  defineCodeJudge,
  definePromptTemplate,
  JudgeProxyError,
  JudgeVerdictError,
  type CodeJudgeInput,
  type CodeJudgeResult,
  type JudgeReply,
} from "@agentv/eval";

defineCodeJudge(() => 1);
defineCodeJudge((input) => ({ score: 1, hits: [input.evalId ?? ""], details: { any: [1] } }));
defineCodeJudge(async ({ outputMessages, config }, judge): Promise<CodeJudgeResult> => {
  const tools = outputMessages.flatMap((message) => message.tool_calls ?? []).map((call) => call.tool);
  const reply = await judge?.invoke({ question: String(config?.["anything"]), attempt: null });
  return { score: reply?.rawText === "yes" ? 1 : 0, misses: tools, reasoning: null };
});
// @ts-expect-error a result needs a score
defineCodeJudge(() => ({ hits: [] }));
// @ts-expect-error a score is a number
defineCodeJudge(() => ({ score: "1" }));
// @ts-expect-error a handler must return something
defineCodeJudge(() => {});
// @ts-expect-error the names are in camelCase
defineCodeJudge((input) => (input.candidate_answer ? 1 : 0));
// @ts-expect-error judge access may be off
defineCodeJudge(async (input, judge) => Number((await judge.invoke({ question: "q" })).rawText));

const input: CodeJudgeInput = createCodeJudgeInput({ question: "q" });
// @ts-expect-error an answer may be absent
input.candidateAnswer.length;

const judge = createJudgeProxyClient({ timeoutMs: 5, env: { ANY: undefined } })!;
export const replies: Promise<JudgeReply[]> = judge.invokeBatch(new Set([{ question: "q", target: "t" }]));
export const calls = judge
  .invoke({ question: "q" }, { signal: AbortSignal.timeout(5) })
  .then((reply) => reply.outputMessages[0]?.toolCalls?.[0]?.tool);
// @ts-expect-error the keys of a request are known
void judge.invoke({ question: "q", system_prompt: "s" });
// @ts-expect-error a request has a question
void judge.invoke({});

export const choice: Promise<"yes" | "no"> = judge.verdict({ question: "q", choices: ["yes", "no"] });
export const graded: Promise<{ grade: number }> = judge.verdict<{ grade: number }>({
  criteria: "c",
  material: { answer: "a" },
  schema: { type: "object", properties: { grade: { type: ["integer", "null"], minimum: 1 } }, required: ["grade"] },
});
export const many: Promise<("a" | "b")[]> = judge.verdicts(["q", { criteria: "c" }], { choices: ["a", "b"] });
// @ts-expect-error a choice is one of those offered
export const other: Promise<"perhaps"> = judge.verdict({ question: "q", choices: ["yes", "no"] });
// @ts-expect-error choices or a schema, not both
void judge.verdict({ question: "q", choices: ["a", "b"], schema: {} });
// @ts-expect-error only these keywords are understood
void judge.verdict({ question: "q", schema: { pattern: "^a" } });
// @ts-expect-error a verdict without a question is none
void judge.verdict({ choices: ["a", "b"] });

export function code(error: unknown): string | number | null {
  if (error instanceof JudgeVerdictError) return error.rawText;
  return error instanceof JudgeProxyError ? (error.status ?? error.code) : null;
}

defineCodeGrader(async ({ trace, messages, output, costUsd }) => {
  const reply = await createProviderClient()?.invoke({ question: output ?? "", provider: "strict" });
  const tools = messages.flatMap((message) => message.toolCalls ?? []).map((call) => call.tool);
  const checks = [{ text: tools.join(), pass: (trace?.eventCount ?? 0) > 0, reason: reply?.rawText ?? "" }];
  return { score: costUsd === undefined ? 0 : 1, pass: true, reason: "r", checks };
});
defineAssertion(() => ({ pass: true, assertions: [{ text: "a", passed: true }] }));
definePromptTemplate(({ criteria, input }) => criteria + String(input[0]?.content));
// @ts-expect-error a grader needs a score
defineCodeGrader(() => ({ pass: true }));
// @ts-expect-error a prompt is a string
definePromptTemplate(() => 5);
// @ts-expect-error judge access may be off
createProviderClient().getInfo();
