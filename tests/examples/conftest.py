from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.docs.pages import ROOT
from tests.examples import typescript


def copy_examples(to: Path) -> Path:
    # Do not copy build output.
    shutil.copytree(
        ROOT / "examples", to / "examples", ignore=shutil.ignore_patterns("node_modules", ".agentv", "*.js")
    )
    return to.resolve()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A directory with a copy of the examples."""
    return copy_examples(tmp_path)


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    built = copy_examples(tmp_path_factory.mktemp("built"))
    typescript.build(built)
    return built


@pytest.fixture
def built_folder(built: Path, tmp_path: Path) -> Path:
    """A directory with a copy of the examples, and the judges in TypeScript built."""
    shutil.copytree(built / "examples", tmp_path / "examples", symlinks=True)
    return tmp_path.resolve()
