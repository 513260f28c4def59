"""The package as npm installs it: its files, its types, and every example of its README."""

from __future__ import annotations

import json
import re
import shlex
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.sdk_python.support import Answer, Seen, Server, http_answer
from tests.sdk_typescript.support import SDK, TESTS, TSC, check_built, needs_node, needs_npm, run

pytestmark = [needs_node, needs_npm]

PAYLOAD = '{"question": "What is the capital of France?", "candidate_answer": "Paris is."}'
README = (SDK / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
CODE = {text.splitlines()[0].removeprefix("// "): text for language, text in BLOCKS if language in ("js", "ts")}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A user's project with the packed package installed and the files of the README."""
    check_built()
    directory = tmp_path_factory.mktemp("project")
    done = run("npm", "pack", "--ignore-scripts", "--silent", "--pack-destination", directory, cwd=SDK)
    assert done.returncode == 0, done.stderr
    installed = directory / "node_modules" / "@agentv"
    installed.mkdir(parents=True)
    (packed,) = directory.glob("*.tgz")
    with tarfile.open(packed) as archive:
        # Early releases of Python 3.11 have no filters; the archive is our own.
        if hasattr(tarfile, "data_filter"):
            archive.extraction_filter = tarfile.data_filter
        archive.extractall(installed)
    (installed / "package").rename(installed / "eval")
    (directory / "package.json").write_text('{"type": "module"}', encoding="utf-8")
    for name, text in CODE.items():
        (directory / name).parent.mkdir(exist_ok=True)
        (directory / name).write_text(text, encoding="utf-8")
    return directory


def test_the_package_contains_only_the_needed_files(project):
    package = project / "node_modules" / "@agentv" / "eval"
    names = {path.relative_to(package).as_posix() for path in package.rglob("*") if path.is_file()}
    built = {f"dist/{path.stem}{suffix}" for path in SDK.glob("src/*.ts") for suffix in (".js", ".d.ts")}
    assert names == {"package.json", "README.md", "LICENSE", *built}


def test_it_has_no_dependencies_and_one_version():
    package = json.loads((SDK / "package.json").read_text(encoding="utf-8"))
    assert "dependencies" not in package
    assert set(package["devDependencies"]) == {"typescript", "@types/node", "zod"}
    assert package["peerDependenciesMeta"] == {"zod": {"optional": True}}
    assert f'"{package["version"]}"' in (SDK / "src" / "version.ts").read_text(encoding="utf-8")
    lock = json.loads((SDK / "package-lock.json").read_text(encoding="utf-8"))
    assert lock["version"] == package["version"]
    assert "resolved" not in json.dumps(lock)
    for source in SDK.glob("src/*.ts"):
        imported = re.findall(r"""(?:from|import\()\s*["']([^"']+)""", source.read_text(encoding="utf-8"))
        allowed = ("./", "node:", "zod") if source.name == "zod.ts" else ("./", "node:")
        assert all(name.startswith(allowed) for name in imported), source


@pytest.fixture(scope="module")
def compiled(project: Path) -> Path:
    """The TypeScript of the README and of `types.mts`, compiled with strict settings."""
    (project / "types.mts").write_text((TESTS / "types.mts").read_text(encoding="utf-8"), encoding="utf-8")
    options = {
        "target": "ES2022",
        "lib": ["ES2022"],
        "module": "Node16",
        "strict": True,
        "rootDir": ".",
        "outDir": "out",
        "exactOptionalPropertyTypes": True,
        "types": ["node"],
        "typeRoots": [str(SDK / "node_modules" / "@types")],
    }
    files = ["types.mts", *(name for name in CODE if name.endswith(".ts"))]
    (project / "tsconfig.json").write_text(json.dumps({"compilerOptions": options, "files": files}), encoding="utf-8")
    done = run("node", TSC, cwd=project)
    assert done.returncode == 0, done.stdout
    return project / "out"


def test_the_types_accept_valid_code_and_reject_invalid_code(compiled):
    assert (compiled / "types.mjs").exists()


def yes_to_paris(seen: Seen) -> Answer:
    if seen.path == "/info":
        info = {"targetName": "strict", "maxCalls": 10, "callCount": 0, "availableTargets": ["strict"]}
        return Answer(http_answer(200, info))
    body = json.loads(seen.body)

    def judged(item: dict[str, str]) -> dict[str, Any]:
        return {"outputMessages": [], "rawText": "Yes." if "Paris is" in item["question"] else "No."}

    if seen.path == "/invokeBatch":
        return Answer(http_answer(200, {"responses": [judged(item) for item in body["requests"]]}))
    return Answer(http_answer(200, judged(body)))


def judge_in(project: Path, name: str, answer: Callable[[Seen], Answer] = yes_to_paris) -> tuple[Any, list[Seen]]:
    with Server(answer) as server:
        done = run("node", name, cwd=project, stdin=PAYLOAD, env=server.environ)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), server.seen


def test_every_code_block_of_the_readme_is_tested():
    assert sorted({language for language, _ in BLOCKS}) == ["bash", "js", "ts", "yaml"]
    assert list(CODE) == [
        "judges/keywords.mjs",
        "judges/short.mjs",
        "short.test.mjs",
        "judges/contextual_precision.mjs",
        "ask.mjs",
        "judges/graded.ts",
    ]


def test_the_commands_of_the_readme_run(project):
    install, by_hand = [text.strip() for language, text in BLOCKS if language == "bash"]
    assert shlex.split(install) == ["npm", "install", "path/to/agentv/sdk/typescript"]
    done = run("sh", "-c", by_hand, cwd=project)
    assert json.loads(done.stdout)["score"] == 1, done.stderr
    assert "this goes to stderr" in done.stderr


def test_the_test_of_the_readme_passes(project):
    done = run("node", "--test", "--test-reporter=tap", "short.test.mjs", cwd=project)
    assert "# pass 1\n" in done.stdout, done.stdout


def test_the_judge_of_the_readme_that_asks_a_model_judges(project):
    result, seen = judge_in(project, "judges/contextual_precision.mjs")
    assert (result["score"], result["misses"]) == (1, ["Cheese is food."])
    assert [one.path for one in seen] == ["/invokeBatch"]


def test_the_typescript_judge_of_the_readme_judges(project, compiled):
    def grade(seen: Seen) -> Answer:
        asked = json.loads(seen.body)["question"]
        text = "Neutral." if "tone" in asked else '```json\n{"grade": 3, "reason": "short"}\n```'
        return Answer(http_answer(200, {"outputMessages": [], "rawText": text}))

    result, _ = judge_in(project, "out/judges/graded.js", grade)
    assert (result["score"], result["reasoning"]) == (0.5, "short")


def test_the_client_of_the_readme_asks(project):
    with Server(yes_to_paris) as server:
        done = run("node", "ask.mjs", cwd=project, env=server.environ)
    assert done.stdout.splitlines() == ["strict: 0 of 10 calls made", "No. null"], done.stderr
    assert run("node", "ask.mjs", cwd=project).stdout == ""


def test_the_suites_of_the_readme_name_files_of_the_readme():
    for language, text in BLOCKS:
        if language == "yaml":
            for evaluator in yaml.safe_load(text)["evaluators"]:
                assert evaluator["type"] == "code_judge"
                assert evaluator["script"][1] in CODE
