"""`agentv judge new`: the created script works, and its test can fail."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.judge_support import judged, judges
from tests.conftest import Project

__all__ = ["judges"]

FILES = {
    "python": ("tone.py", "test_tone.py"),
    "bash": ("tone.sh", "test_tone.sh"),
    "typescript": ("tone.ts", "tone.test.ts"),
}
ROOT = Path(__file__).resolve().parents[2]
CASE = ("--suite", "evals/suite.yaml", "--case", "france")


def new(project: Project, lang: str) -> tuple[Path, Path]:
    done = project.run("judge", "new", "tone", "--lang", lang, "--path", "evals/judges")
    assert done.returncode == 0, done.stderr
    script, test = (project.root / "evals/judges" / name for name in FILES[lang])
    assert done.stdout.startswith(f"wrote evals/judges/{script.name}\nwrote evals/judges/{test.name}\n")
    assert f"agentv judge run evals/judges/{script.name} --payload -" in done.stdout
    assert "NAME" not in script.read_text() + test.read_text()
    return script, test


def run_test(project: Project, test: Path) -> subprocess.CompletedProcess[str]:
    python = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:langsmith_plugin"]
    argv = python if test.suffix == ".py" else ["bash"]
    return subprocess.run(
        [*argv, str(test)], cwd=project.root, env=project.environment(), capture_output=True, text=True, check=False
    )


def needs(lang: str) -> None:
    if lang == "bash" and not (shutil.which("jq") and shutil.which("curl")):
        pytest.skip("bash scripts need jq and curl")


@pytest.mark.parametrize("lang", ["python", "bash"])
def test_new_script_works_with_and_without_a_judge(judges: Project, lang: str) -> None:
    needs(lang)
    script, _ = new(judges, lang)
    code, shown = judged(judges, str(script), *CASE, "--no-judge")
    assert (code, shown["result"]["score"], shown["result"]["hits"]) == (0, 1.0, ["at most 50 words"])
    code, shown = judged(judges, str(script), *CASE, "--max-calls", "1")
    assert (code, shown["result"]["score"]) == (0, 1.0)
    assert shown["result"]["hits"] == ["at most 50 words", "does what the question asks"]
    assert "Question: What is the capital of France?" in shown["calls"][0]["question"]
    assert "Answer: The capital of France is Paris." in shown["calls"][0]["question"]
    code, shown = judged(judges, str(script), *CASE, "--answer", "Lyon.")
    assert (code, shown["result"]["score"], shown["result"]["misses"]) == (0, 0.5, ["does what the question asks"])
    assert "not that I know" in shown["result"]["reasoning"]


@pytest.mark.parametrize("lang", ["python", "bash"])
def test_new_script_fails_if_the_judge_fails(judges: Project, lang: str) -> None:
    needs(lang)
    script, _ = new(judges, lang)
    code, shown = judged(judges, str(script), *CASE, "--judge-target", "broken")
    assert (code, shown["judged"]) == (3, False)


@pytest.mark.parametrize("lang", ["python", "bash"])
def test_new_test_passes_and_fails_if_the_script_is_broken(judges: Project, lang: str) -> None:
    needs(lang)
    script, test = new(judges, lang)
    passed = run_test(judges, test)
    assert passed.returncode == 0, passed.stdout + passed.stderr
    broken = script.read_text().replace("<= limit", "> limit").replace("<= $limit", "> $limit")
    assert broken != script.read_text()
    script.write_text(broken)
    assert run_test(judges, test).returncode != 0


def test_new_bash_script_keeps_the_token_off_command_lines(judges: Project, tmp_path: Path) -> None:
    """A fake `curl`, first on PATH, records its arguments."""
    needs("bash")
    script, _ = new(judges, "bash")
    fake = tmp_path / "bin" / "curl"
    fake.parent.mkdir()
    fake.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/argv\nexec {shutil.which("curl")} "$@"\n')
    fake.chmod(0o755)
    path = f"{fake.parent}:{judges.environment()['PATH']}"
    judges.write("token.sh", f'printf %s "$AGENTV_JUDGE_PROXY_TOKEN" > {tmp_path}/token; exec bash {script}\n')
    code, _ = judged(judges, "token.sh", *CASE, PATH=path)
    assert code == 0
    token, argv = (tmp_path / "token").read_text(), (tmp_path / "argv").read_text()
    assert len(token) > 40
    assert "/invoke" in argv
    assert token not in argv


def test_new_typescript_script_imports_the_sdk_and_needs_no_compiler(judges: Project) -> None:
    script, test = new(judges, "typescript")
    text = script.read_text()
    assert 'import { createJudgeProxyClient, defineCodeJudge } from "@agentv/eval";' in text
    # Node only strips types and rejects TypeScript syntax that needs compilation.
    assert not any(word in text + test.read_text() for word in ("enum ", "namespace ", "private ", "declare "))


def test_new_typescript_files_compile_and_judge(judges: Project, tmp_path: Path) -> None:
    """Compiled first, because older versions of Node cannot run TypeScript directly."""
    sdk = ROOT / "sdk" / "typescript"
    compiler = sdk / "node_modules" / "typescript" / "bin" / "tsc"
    if shutil.which("node") is None or not compiler.exists() or not (sdk / "dist" / "index.js").exists():
        pytest.skip("needs node, and the TypeScript SDK with its compiler")
    script, test = new(judges, "typescript")
    modules = script.parent / "node_modules"
    (modules / "@agentv").mkdir(parents=True)
    (modules / "@agentv" / "eval").symlink_to(sdk)
    (modules / "@types").symlink_to(sdk / "node_modules" / "@types")
    judges.write("evals/judges/package.json", '{"type": "module"}')
    strict = "--strict --erasableSyntaxOnly --verbatimModuleSyntax --module nodenext --target es2022 --types node"
    built = subprocess.run(
        ["node", str(compiler), *strict.split(), str(script), str(test)],
        cwd=script.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stdout
    compiled = str(script.with_suffix(".js"))
    code, shown = judged(judges, compiled, *CASE, "--max-calls", "1")
    assert (code, shown["result"]["hits"]) == (0, ["at most 50 words", "does what the question asks"]), shown
    code, shown = judged(judges, compiled, *CASE, "--no-judge", "--answer", "word " * 60)
    assert (code, shown["result"]["misses"]) == (0, ["at most 50 words"])
    test_js = test.with_suffix(".js")
    test_js.write_text(test_js.read_text().replace("./tone.ts", "./tone.js"))
    passed = subprocess.run(["node", "--test", str(test_js)], capture_output=True, text=True, check=False)
    assert passed.returncode == 0, passed.stdout


def test_judge_new_does_not_overwrite_without_force(judges: Project) -> None:
    script, _ = new(judges, "python")
    script.write_text("mine\n")
    again = judges.run("judge", "new", "tone", "--path", "evals/judges")
    assert again.returncode == 2
    assert "--force" in again.stderr
    assert script.read_text() == "mine\n"
    assert judges.run("judge", "new", "tone", "--path", "evals/judges", "--force").returncode == 0
    assert script.read_text() != "mine\n"


@pytest.mark.parametrize("name", ["1st", "a/b", "class", "..", "a b"])
def test_judge_new_rejects_invalid_names(project: Project, name: str) -> None:
    done = project.run("judge", "new", name)
    assert done.returncode == 2
    assert "NAME must be an identifier" in done.stderr
    assert [path.name for path in project.root.iterdir()] == [".git"]


def test_judge_new_converts_dashes_to_underscores(project: Project) -> None:
    assert project.run("judge", "new", "cites-sources").returncode == 0
    assert (project.root / "cites_sources.py").exists()


def test_judge_from_init_works_with_eval_and_judge_run(project: Project) -> None:
    assert project.run("init").returncode == 0
    assert project.run("validate", "evals").returncode == 0
    done = project.run("eval", "evals/")
    assert done.returncode == 0, done.stdout + done.stderr
    results = {result["name"]: result for row in project.rows() for result in row["evaluator_results"]}
    assert results["supported"]["judge_proxy"]["targets"] == {"scripted-judge": 1}
    suite = ("--suite", "evals/judged.yaml")
    code, shown = judged(project, *suite, "--answer", "The capital of France is Paris. It is in Texas.")
    assert (code, shown["result"]["score"], shown["result"]["misses"]) == (0, 0.5, ["It is in Texas."])
    assert judged(project, *suite, "--answer", "")[1]["result"]["score"] == 0
