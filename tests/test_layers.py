"""Imports follow the layers, and fast commands do not import heavy libraries."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from agentv.evaluators import registry as evaluators
from agentv.targets import registry as providers

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "agentv"
SDK = ROOT / "sdk" / "python" / "src" / "agentv_eval"

VALUES = {
    "amounts",
    "errors",
    "evidence",
    "codec",
    "messages",
    "results",
    "escapes",
    "redact",
    "text",
    "trials",
    "json_sizes",
    "jsonio",
    "regular_files",
    "http",
}
"""What both arms are built on."""
BASE = VALUES | {
    "command",
    "git_state",
    "interpreters",
    "metrics",
    "processes",
    "template_limits",
    "templates",
    "workers",
    "patterns",
    "wire",
}
RUN_ARM = ["suite", "targets", "judge", "places", "nodes", "scripts", "evaluators", "plan", "run"]
READ_ARM = ["record", "report", "view"]
ARMS = BASE | set(RUN_ARM) | set(READ_ARM)
JOINS = {
    "run_manifest": ARMS,
    "recorded": ARMS | {"run_manifest"},
    "importing": ARMS,
    "api": ARMS | {"recorded"},
    "cli": ARMS | {"run_manifest", "recorded", "importing"},
    "testing": BASE | set(RUN_ARM),
    "pytest_suites": ARMS | {"recorded"},
    "__init__": {"api", "errors", "messages", "results", "evaluators", "targets"},
    "__main__": {"cli"},
}


def allowed(layer: str) -> set[str]:
    """The layers that a layer may import, including itself."""
    if layer in RUN_ARM:
        return BASE | set(RUN_ARM[: RUN_ARM.index(layer) + 1])
    if layer in READ_ARM:
        return VALUES | set(READ_ARM[: READ_ARM.index(layer) + 1])
    if layer in JOINS:
        return JOINS[layer] | {layer}
    return VALUES if layer in VALUES else BASE


def modules_of(root: Path) -> dict[str, Path]:
    """The modules in a package directory, by full name."""
    names = {path: (root.name, *path.relative_to(root).with_suffix("").parts) for path in root.rglob("*.py")}
    return {".".join(name[:-1] if name[-1] == "__init__" else name): path for path, name in names.items()}


def imports_of(module: str, path: Path, known: Mapping[str, Path], *, typing_too: bool = True) -> set[str]:
    """The known modules that a file imports, including lazy imports and, with `typing_too`, type-checking imports."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    skipped = {
        inner
        for node in ast.walk(tree)
        if not typing_too and isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")
        for inner in ast.walk(node)
    }
    package = module.split(".") if path.name == "__init__.py" else module.split(".")[:-1]
    imported: set[str] = set()
    for node in ast.walk(tree):
        if node in skipped:
            continue
        if isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            imported |= {name if (name := f"{base}.{alias.name}") in known else base for alias in node.names}
    return (imported & known.keys()) - {module}


def wrong_imports(root: Path) -> list[str]:
    known = modules_of(root)
    return [
        f"{module} imports {name}"
        for module, path in sorted(known.items())
        for name in sorted(imports_of(module, path, known))
        if name != root.name and layer_of(name) not in allowed(layer_of(module))
    ]


def layer_of(module: str) -> str:
    """The top-level folder or file of the package that contains a module."""
    return module.split(".")[1] if "." in module else "__init__"


def cycles(root: Path) -> list[str]:
    """Circular imports at run time, including lazy imports."""
    known = modules_of(root)
    left = {module: imports_of(module, path, known, typing_too=False) for module, path in known.items()}
    while ready := [module for module, imported in left.items() if not imported & left.keys()]:
        for module in ready:
            del left[module]
    while ready := [module for module in left if not any(module in imported for imported in left.values())]:
        for module in ready:  # what only imports a circle is not part of it
            del left[module]
    return sorted(left)


def test_imports_follow_the_layers() -> None:
    assert wrong_imports(SOURCE) == []


@pytest.mark.parametrize("root", [SOURCE, SDK], ids=lambda root: root.name)
def test_modules_have_no_circular_imports(root: Path) -> None:
    assert cycles(root) == []


def package(root: Path, files: Mapping[str, str]) -> Path:
    for name, text in files.items():
        path = root / "agentv" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root / "agentv"


@pytest.mark.parametrize(
    ("importing", "imported"),
    [
        ("suite/a.py", "run/execute.py"),
        ("run/a.py", "record/rows.py"),
        ("record/a.py", "report/b.py"),
        ("record/a.py", "processes/run.py"),
        ("report/a.py", "wire/output.py"),
        ("errors.py", "processes/run.py"),
        ("recorded.py", "api.py"),
        ("importing/a.py", "cli/b.py"),
        ("api.py", "cli/b.py"),
        ("testing/a.py", "recorded.py"),
        ("testing/a.py", "report/b.py"),
    ],
)
def test_import_against_the_layers_is_reported(tmp_path: Path, importing: str, imported: str) -> None:
    name = "agentv." + imported.removesuffix(".py").replace("/", ".")
    root = package(tmp_path, {imported: "", importing: f"def f():\n    from {name} import x\n"})
    assert wrong_imports(root) == [f"agentv.{importing.removesuffix('.py').replace('/', '.')} imports {name}"]


@pytest.mark.parametrize(
    "back",
    [
        "from agentv.report.a import x",
        "def f():\n    import agentv.report.a\n",
        "from agentv.report import a",
        "from .a import x",
        "from . import a",
    ],
)
def test_circular_import_inside_a_folder_is_reported(tmp_path: Path, back: str) -> None:
    files = {"report/a.py": "from agentv.report.b import x", "report/b.py": back}
    above = {"report/c.py": "from agentv.report.a import x", "report/d.py": ""}
    assert cycles(package(tmp_path, files | above)) == ["agentv.report.a", "agentv.report.b"]


def test_type_checking_imports_are_not_circular(tmp_path: Path) -> None:
    typed = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from agentv.report.a import x\n"
    files = {"report/a.py": "from agentv.report.b import x", "report/b.py": typed}
    assert cycles(package(tmp_path, files)) == []


def test_only_the_terminal_layer_writes_escape_sequences() -> None:
    files = {path.name for path in SOURCE.rglob("*.py") if "\\x1b" in path.read_text("utf-8")}
    assert files - {"text.py"} == {"terminal.py"}  # text.py has the pattern that removes them


HEAVY = {
    "aiohttp",
    "anthropic",
    "anyio",
    "boto3",
    "botocore",
    "dotenv",
    "duckdb",
    "email.parser",
    "genai_prices",
    "google",
    "google.genai",
    "http.client",
    "httpx2",
    "importlib.metadata",
    "jinja2",
    "jmespath",
    "json_repair",
    "jsonschema",
    "openai",
    "opentelemetry",
    "pydantic_ai",
    "regex",
    "rich",
    "sqlite3",
    "urllib.request",
    "yarl",
}


def modules_after(code: str, cwd: Path) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys; print(*sys.modules, file=sys.stderr)"],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return set(done.stderr.splitlines()[-1].split())


RUN = """
import sys
from agentv import cli
def leave(code):
    assert code == 0
cli._leave, sys.argv = leave, ["agentv", *{arguments!r}]
cli.main()
"""


def test_version_imports_neither_click_nor_pydantic(tmp_path: Path) -> None:
    code = "import sys; sys.argv = ['agentv', '--version']\nfrom agentv.cli import main\nmain()"
    loaded = modules_after(code, tmp_path)
    assert not loaded & {"click", "pydantic", "yaml", "asyncio", *HEAVY}


@pytest.mark.parametrize("arguments", [["--help"], ["init"]])
def test_commands_without_suites_import_neither_pydantic_nor_asyncio(tmp_path: Path, arguments: list[str]) -> None:
    loaded = modules_after(RUN.format(arguments=arguments), tmp_path)
    assert not loaded & {"pydantic", "yaml", "asyncio", *HEAVY}


@pytest.mark.parametrize(
    ("arguments", "most_modules"), [(["validate", "suite.yaml"], 344), (["eval", "suite.yaml", "--quiet"], 392)]
)
def test_validate_and_mock_run_import_only_what_the_suite_uses(
    tmp_path: Path, arguments: list[str], most_modules: int
) -> None:
    (tmp_path / "agentv.config.yaml").write_text("targets: {a: {provider: mock, response: Paris}}\n")
    (tmp_path / "suite.yaml").write_text(
        "evalcases: [{id: a, input: x, evaluators: [{type: contains, value: Paris}]}]\n"
    )
    loaded = modules_after(RUN.format(arguments=arguments), tmp_path)
    assert sorted(loaded & HEAVY) == []
    assert loaded & homes(evaluators.BUILT_IN) == {"agentv.evaluators.text"}
    assert loaded & homes(providers.BUILT_IN) == {"agentv.targets.providers.mock"}
    assert not loaded & {"agentv.http", "agentv.processes", "agentv.judge.session", "agentv.judge.proxy"}
    assert len(loaded) <= most_modules


def homes(table: Mapping[str, str]) -> set[str]:
    """The modules in a table of names."""
    return {where.partition(":")[0] for where in table.values()}


@pytest.mark.parametrize(
    ("target", "evaluator"), [("b", "{type: contains, value: It fits}"), ("a", "{type: llm_judge}")]
)
def test_http_run_imports_no_client_library(tmp_path: Path, target: str, evaluator: str) -> None:
    command = [sys.executable, "-m", "agentv.testing.model_server", "--reply", '{"score": 1, "reasoning": "It fits."}']
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            url = server.stdout.readline().strip()
            (tmp_path / "agentv.config.yaml").write_text(
                "targets:\n  a: {provider: mock, response: Paris}\n"
                f"  b: {{provider: openai, model: m, api_key: k, base_url: '{url}'}}\n"
            )
            (tmp_path / "suite.yaml").write_text(f"evalcases: [{{id: a, input: x, evaluators: [{evaluator}]}}]\n")
            arguments = ["eval", "suite.yaml", "--quiet", "--target", target, "--judge-target", "b"]
            loaded = modules_after(RUN.format(arguments=arguments), tmp_path)
        finally:
            server.terminate()
    assert sorted(loaded & HEAVY) == []
