from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.live.libraries import environments

pytestmark = pytest.mark.libraries


def test_environment_is_skipped_with_a_line_when_the_index_is_unreachable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if not (environments.INSTALLER / "bin" / "uv").exists():
        pytest.skip("uv is not installed; `make test-libraries` installs it")
    monkeypatch.setattr(environments, "folder_of", lambda name: tmp_path / name)
    monkeypatch.setattr("shutil.which", lambda _: None)  # no npm
    monkeypatch.setenv("UV_DEFAULT_INDEX", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "cache"))
    assert environments.main() == 0
    line = "Tests of libraries ({}) will be skipped: the package index is unreachable.\n"
    assert capsys.readouterr().out == line.format("current") + line.format("trulens")
    assert not environments.is_installed(environments.CURRENT)


def test_failure_of_an_installation_for_another_reason_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RuntimeError, match="wrong-option"):
        environments._run([sys.executable, "--wrong-option"])
