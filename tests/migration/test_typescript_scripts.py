"""Scripts in the style of AgentV's SDKs, run by agentv with its own package: the payload, the judge and the result."""

from __future__ import annotations

import json

import pytest

from tests.conftest import Project
from tests.sdk_typescript.support import SDK, check_built, needs_node
from tests.spec.support import run, scripted, write_suite

RESULT = """
  const { output, criteria, expectedOutput, messages, trace, durationMs, config, input } = ctx;
  const details = {
    output, criteria, expected: expectedOutput.at(-1).content, tool: messages[0].toolCalls[0].input.topK,
    calls: trace.toolCalls, all: trace.messages.length, typed: typeof durationMs, words: config.minWords,
    asked: input.at(-1).content,
  };
"""
SCRIPTS = {
    "january": """
        import { createTargetClient, defineCodeJudge } from "@agentv/eval";
        export default defineCodeJudge(async ({ candidateAnswer, expectedOutcome, traceSummary, config }) => {
          const reply = await createTargetClient().invoke({ question: expectedOutcome });
          const hits = [candidateAnswer, reply.rawText, traceSummary.toolNames.join(), String(config.minWords)];
          return { score: 0.5, hits, misses: [], reasoning: "r" };
        });""",
    "v4": f"""
        import {{ createTargetClient, defineCodeGrader }} from "@agentv/eval";
        export default defineCodeGrader(async (ctx) => {{{RESULT}
          const [{{ rawText, output: said }}] = await createTargetClient().invokeBatch([{{ question: criteria }}]);
          const assertions = [{{ text: rawText, passed: said.length === 1, evidence: "e" }}];
          return {{ score: 0.5, assertions, details }};
        }});""",
    "v5": f"""
        import {{ createProviderClient, defineScriptGrader }} from "@agentv/eval";
        export default defineScriptGrader(async (ctx) => {{{RESULT}
          const client = createProviderClient();
          const {{ providerLabel: provider }} = await client.getInfo();
          const {{ rawText }} = await client.invoke({{ question: criteria, provider }});
          const checks = [{{ text: rawText, pass: false, reason: "no" }}];
          return {{ pass: false, score: 0.5, reason: "r", checks, details }};
        }});""",
    "assertion": """
        import { defineAssertion } from "@agentv/eval";
        export default defineAssertion(({ output }) => ({ pass: output === "21", reason: "r" }));""",
}


@needs_node
@pytest.mark.skipif(not (SDK / "dist" / ".ready").exists(), reason="sdk/typescript is not built")
def test_scripts_of_every_release_run_and_call_the_judge(project: Project) -> None:
    check_built()
    for name, source in SCRIPTS.items():
        project.write(f"{name}.mjs", source)
    modules = project.root / "node_modules" / "@agentv"
    modules.mkdir(parents=True)
    (modules / "eval").symlink_to(SDK)
    config = {"min_words": 2}
    script = {"type": "code_judge", "judge": True, "config": config}
    evaluators = [{**script, "name": name, "script": ["node", f"{name}.mjs"]} for name in SCRIPTS]
    answer = [
        {"role": "assistant", "tool_calls": [{"tool": "get_weather", "input": {"top_k": 3}}]},
        {"role": "assistant", "content": "21"},
    ]
    case = {"id": "a", "input": "How warm?", "expected_outcome": "names 21", "reference_answer": "It is 21."}
    write_suite(project, [case], execution={"evaluators": evaluators})
    judge = {"provider": "mock", "response": "yes"}
    target = {"provider": "mock", "rules": [{"match": "warm", "output_messages": answer}]}
    settings = {**scripted(), "targets": {"assistant": target, "strict": judge}}
    settings["defaults"] = {"target": "assistant", "judge_target": "strict"}
    project.write("agentv.config.yaml", json.dumps(settings))
    results = {each["name"]: each for each in run(project).rows[0]["evaluator_results"]}
    assert {name: each["error"] for name, each in results.items()} == dict.fromkeys(SCRIPTS)
    details = {
        "output": "21",
        "criteria": "names 21",
        "expected": "It is 21.",
        "tool": 3,
        "calls": {"getWeather": 1},
        "all": 3,
        "typed": "number",
        "words": 2,
        "asked": "How warm?",
    }
    january, v4, v5, assertion = (results[name] for name in SCRIPTS)
    assert january["hits"] == ["21", "yes", "get_weather", "2"]
    assert (v4["score"], v4["hits"], v4["details"]) == (0.5, ["yes: e"], details)
    assert (v5["score"], v5["details"], v5["reasoning"]) == (0.5, details, "r")
    assert v5["misses"] == ["yes: no"]
    assert (assertion["score"], assertion["reasoning"]) == (1.0, "r")
