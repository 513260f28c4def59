"""A tiny package to install offline, and a project whose judge script imports it."""

from __future__ import annotations

import os
import sys
import venv
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conftest import Project

JUDGE = """\
import os
import sys
import shapes
from agentv_eval import code_judge

try:
    import pydantic
except ImportError:
    pydantic = None


@code_judge
def judge(input):
    return {
        "score": 1,
        "reasoning": shapes.VERSION,
        "details": {"python": sys.executable, "agentv packages": pydantic is not None,
                    "sdk": sys.modules["agentv_eval"].__file__, "names": sorted(os.environ)},
    }
"""


def wheel(folder: Path, version: str = "1.0", name: str = "shapes") -> Path:
    """A package with one module, which knows its version."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}-{version}-py3-none-any.whl"
    info = f"{name}-{version}.dist-info"
    files = {
        f"{name}.py": f"VERSION = '{name} {version}'\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    files[f"{info}/RECORD"] = "".join(f"{file},,\n" for file in [*files, f"{info}/RECORD"])
    with zipfile.ZipFile(path, "w") as archive:
        for file, text in files.items():
            archive.writestr(zipfile.ZipInfo(file), text)
    return path


def requirement(path: Path) -> str:
    """The requirement that installs a wheel."""
    return f"{path.name.partition('-')[0]} @ {path.as_uri()}"


def user_python(folder: Path, *wheels: Path) -> Path:
    """The interpreter of a virtual environment of the user, with these packages."""
    venv.create(folder, symlinks=True)
    site = folder / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
    for each in wheels:
        with zipfile.ZipFile(each) as archive:
            archive.extractall(site)
    return folder / "bin" / "python"


def write_project(project: Project, *, execution: Mapping[str, Any] | None = None, **evaluator: Any) -> None:
    """A suite with one case, judged by a script with these options."""
    project.write("agentv.config.yaml", "targets: {t: {provider: mock, response: Paris}}\n")
    project.write("judge.py", JUDGE)
    judge = {"name": "shape", "type": "code_judge", "script": ["python", "judge.py"], **evaluator}
    suite = {"execution": {"evaluators": [judge], **(execution or {})}, "evalcases": [{"id": "a", "input": "x"}]}
    project.write("suite.yaml", yaml.safe_dump(suite))


def result_of(project: Project) -> dict[str, Any]:
    """The result of the script in the last run."""
    result: dict[str, Any] = project.rows()[-1]["evaluator_results"][0]
    assert result["error"] is None, result["error"]
    return result


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache. The installer must not use the network, whatever the configuration of this machine says."""
    for name in [name for name in os.environ if name.startswith(("PIP_", "UV_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("UV_NO_CONFIG", "1")
    monkeypatch.setenv("UV_OFFLINE", "1")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "agentv"
