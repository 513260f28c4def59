"""The contents of the wheel and its dependencies."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from agentv.metrics import METRICS
from agentv.metrics.libraries import LIBRARIES, adapter_of
from agentv.targets.providers.anthropic import AnthropicProvider
from agentv.targets.providers.bedrock import BedrockProvider
from agentv.targets.providers.gemini import GeminiProvider
from agentv.targets.providers.openai_responses import ResponsesProvider

ROOT = Path(__file__).parent.parent
MAX_PACKAGES = 28


def run(*command: str, cwd: Path, **variables: str) -> str:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(
        command, cwd=cwd, env=environment | variables, capture_output=True, text=True, check=False, timeout=100
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT), cwd=folder)
    (found,) = folder.glob("agentv-*.whl")
    return found


def test_wheel_contains_command_templates_and_python_sdk(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {
        "agentv/cli/program.py",
        "agentv/cli/templates/hello.yaml",
        "agentv/cli/templates/agentv.config.yaml",
        "agentv/processes/helper.py",
        "agentv/processes/supervisor.py",
        "agentv/processes/confinement.py",
        "agentv/evaluators/javascript_runner.mjs",
        "agentv/evaluators/minilm_vocab.txt",
        "agentv/py.typed",
        "agentv_eval/__init__.py",
        "agentv_eval/inline.py",
        "agentv_eval/py.typed",
    } <= names
    licenses = {name.rpartition("/")[2] for name in names if ".dist-info/licenses/" in name}
    assert licenses == {"LICENSE", "LICENSE-APACHE", "NOTICE"}
    assert not any(name.startswith(("tests/", "benchmarks/", "docs/")) for name in names)


def test_wheel_contains_every_file_of_the_viewer(wheel: Path) -> None:
    source = ROOT / "src" / "agentv" / "view"
    static = {f"agentv/view/static/{path.name}" for path in (source / "static").iterdir()}
    assert {Path(name).suffix for name in static} == {".js", ".css"}
    assert {"agentv/view/DESIGN.md", *static} <= set(zipfile.ZipFile(wheel).namelist())


def test_wheel_contains_the_scripts_of_the_ready_metrics(wheel: Path) -> None:
    scripts = {f"agentv/metrics/{name}.py" for name in (*METRICS, "support")}
    scripts |= {f"agentv/metrics/libraries/{adapter_of(library).name}" for library in LIBRARIES}
    assert scripts <= set(zipfile.ZipFile(wheel).namelist())


def test_install_command_of_a_vendor_library_matches_its_extra() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    classes = (AnthropicProvider, BedrockProvider, GeminiProvider, ResponsesProvider)
    for extra, provider in zip(("anthropic", "bedrock", "gemini", "responses"), classes, strict=True):
        assert extras[extra] == [provider.REQUIREMENT]


def pinned(name: str) -> dict[str, str]:
    """Package -> version in a lock file."""
    text = (ROOT / name).read_text(encoding="utf-8")
    return dict(re.findall(r"^([\w.-]+)==([\w.]+)", text, re.MULTILINE))


def test_locks_pin_every_dependency_to_the_same_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    everything, runtime, build = map(
        pinned, ("requirements.lock", "requirements.runtime.lock", "requirements.build.lock")
    )
    declared = {re.split(r"[\[>]", requirement)[0].lower() for requirement in project["project"]["dependencies"]}
    assert declared <= runtime.keys(), "Run: make lock"
    assert {"hatchling", "editables"} <= build.keys()
    assert runtime.items() <= everything.items()
    assert build.items() <= everything.items()


def test_lock_of_the_site_has_its_generator_and_the_versions_of_the_other_lock() -> None:
    site, everything = pinned("requirements.docs.lock"), pinned("requirements.lock")
    assert "zensical" in site, "Run: make lock"
    assert {name: everything.get(name, version) for name, version in site.items()} == site


def test_runtime_is_small() -> None:
    lock = (ROOT / "requirements.runtime.lock").read_text(encoding="utf-8")
    lines = re.findall(r"^[\w.-]+==.*", lock, re.MULTILINE)
    installed = [line for line in lines if "sys_platform == 'emscripten'" not in line]  # browsers
    assert 1 + len(installed) <= MAX_PACKAGES, "agentv and its dependencies; see docs/adr/0021-a-small-runtime.md"


def test_installed_wheel_runs_a_suite_with_a_judge_script_and_writes_a_report(wheel: Path, tmp_path: Path) -> None:
    place, project = tmp_path / "site", tmp_path / "project"
    project.mkdir()
    pip = (sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", str(place))
    run(*pip, str(wheel), cwd=tmp_path)
    (project / "agentv.config.yaml").write_text("targets: {a: {provider: mock, response: hi}}\n")
    (project / "judge.py").write_text(
        "from agentv_eval import code_judge\n\n"
        "@code_judge\ndef judge(input):\n    return float(input.candidate_answer == 'hi')\n"
    )
    (project / "suite.yaml").write_text(
        "evalcases: [{id: a, input: x, evaluators: [{type: code_judge, script: [python, judge.py]}]}]\n"
    )
    said = run(sys.executable, "-m", "agentv", "eval", "suite.yaml", cwd=project, PYTHONPATH=str(place))
    assert "1 case passed" in said
    report = (sys.executable, "-m", "agentv", "report", "latest", "--format", "html", "-o", "report.html")
    run(*report, cwd=project, PYTHONPATH=str(place))
    assert "</html>" in (project / "report.html").read_text(encoding="utf-8")
    where = run(sys.executable, "-c", "import agentv; print(agentv.__file__)", cwd=project, PYTHONPATH=str(place))
    assert where.startswith(str(place))
