"""The suites and configurations used by the benchmarks."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from benchmarks.measure import bare, evaluate, run

ANSWER = "Paris is the answer"
CHECK = "execution:\n  evaluators:\n    - {name: says-paris, type: contains, value: Paris}\n"
CONTEXT = (
    "The traveller asks in the middle of a longer conversation about France, its rivers, its kings and its "
    "railways; the answer is one sentence and names the city. "
) * 3


def write_config(directory: Path, *, base_url: str | None = None, delay_ms: int = 0, limit: int = 1000) -> None:
    """A configuration with one target: scripted, or the model server at `base_url` with `limit` calls in flight."""
    if base_url is None:
        target = f"{{provider: mock, response: {ANSWER}, delay_ms: {delay_ms}}}"
    else:
        server = f"{{provider: openai, model: fake, base_url: {base_url}, api_key: not-a-secret"
        target = f"{server}, max_concurrency: {limit}}}"
    (directory / "agentv.config.yaml").write_text(f"targets:\n  assistant: {target}\n")


def write_suite(path: Path, cases: int) -> Path:
    """Write a suite of short cases, so that mostly the runtime itself is measured."""
    with path.open("w") as file:
        file.write(f"{CHECK}evalcases:\n")
        file.writelines(f"  - id: case-{n:06}\n    input: What is the capital of France? ({n})\n" for n in range(cases))
    return path


def write_judged_suite(path: Path, cases: int) -> Path:
    """Write a suite of short cases with an LLM judge."""
    with path.open("w") as file:
        file.write("execution:\n  evaluators:\n    - {name: right, type: llm_judge}\nevalcases:\n")
        for n in range(cases):
            file.write(
                f"  - id: case-{n:06}\n    input: What is the capital of France? ({n})\n"
                "    expected_outcome: Names Paris\n"
            )
    return path


def write_json_lines_suite(path: Path, cases: int) -> Path:
    """Write the same cases as JSON Lines, in a file next to the suite."""
    with path.with_suffix(".jsonl").open("w") as file:
        for n in range(cases):
            case = {"id": f"case-{n:06}", "input": f"What is the capital of France? ({n})"}
            file.write(json.dumps(case) + "\n")
    path.write_text(f"{CHECK}evalcases: {path.with_suffix('.jsonl').name}\n")
    return path


def write_long_suite(path: Path, cases: int) -> Path:
    """Write a suite of realistic cases with messages, expectations and metadata: at least 600 bytes each."""
    with path.open("w") as file:
        file.write(f"description: cases as people write them\n{CHECK}evalcases:\n")
        for n in range(cases):
            file.write(
                f"  - id: case-{n:06}\n"
                "    expected_outcome: Names the capital of France\n"
                "    input_messages:\n"
                "      - role: system\n"
                "        content: You answer in one sentence.\n"
                "      - role: user\n"
                f"        content: '{CONTEXT}What is the capital? ({n})'\n"
                "    expected_messages:\n"
                "      - {role: assistant, content: Paris}\n"
                f"    metadata: {{topic: geography, difficulty: {n % 5}, reviewed: true}}\n"
            )
    return path


def warm_up() -> None:
    """Warm up what is slow only the first time: compiled files, the disk cache."""
    with tempfile.TemporaryDirectory(prefix="agentv-bench-") as temporary:
        write_config(Path(temporary))
        evaluate(write_suite(Path(temporary) / "suite.yaml", 1), 1)
        run(bare("sleep", "1", "1", "0"))
