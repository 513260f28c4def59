"""Environments are installed by one process, and a killed installation is repeated. With real processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from agentv.interpreters.cache import cache_directory, environment_of, make_directory, python_of
from agentv.interpreters.environments import READY, Installing, installed
from agentv.interpreters.errors import InterpreterError
from agentv.interpreters.requirements import Packages, packages_of
from agentv.redact import Redactor
from tests.interpreters.support import cache, requirement, wheel

__all__ = ["cache"]

INSTALL = """\
import os, sys
from pathlib import Path
from agentv.interpreters.environments import Installing, installed
from agentv.interpreters.requirements import packages_of
from agentv.redact import Redactor

def say(text):
    print(text.partition(" (")[0], flush=True)

found = installed(packages_of(sys.argv[1:], Path), Installing("judge", dict(os.environ), Redactor([]), say))
print("has", found.packages["shapes"], flush=True)
"""
SLOW_UV = """\
#!/bin/sh
# Installs like uv, but waits for a file in the middle.
if [ "$1" = venv ]; then
    exec {python} -I -m venv --without-pip "$5"
fi
shift 3
for _ in $(seq 1200); do [ -e {go} ] && break; touch {begun}; sleep 0.05; done
python=$1
shift 2
exec {python} -I -m pip --python "$python" install --quiet "$@"
"""


def install(*requirements: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", INSTALL, *requirements], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.fixture
def uv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program `uv` that waits for a file before it installs. Returns the directory of this file."""
    folder = tmp_path / "slow"
    folder.mkdir()
    program = folder / "uv"
    program.write_text(SLOW_UV.format(python=sys.executable, go=folder / "go", begun=folder / "begun"))
    program.chmod(0o700)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return folder


def test_processes_that_need_the_same_packages_install_them_once(cache: Path, tmp_path: Path, uv: Path) -> None:
    shapes = requirement(wheel(tmp_path))
    processes = [install(shapes) for _ in range(4)]
    until((uv / "begun").exists)
    waiting = [each.stdout.readline().strip() for each in processes if each.stdout is not None]
    assert sorted(waiting) == [
        "installing 1 package for 'judge'",
        *["waiting for another process that installs the packages for 'judge'"] * 3,
    ]
    (uv / "go").touch()
    assert [each.communicate(timeout=60)[0] for each in processes] == ["has 1.0\n"] * 4


def test_killed_installation_is_never_used_and_is_repeated(cache: Path, tmp_path: Path, uv: Path) -> None:
    shapes = requirement(wheel(tmp_path))
    environment = environment_of(packages_of([shapes], Path))
    first = install(shapes)
    until((uv / "begun").exists)
    first.send_signal(signal.SIGKILL)
    first.communicate()
    assert python_of(environment).exists()
    assert not (environment / "agentv.json").exists()
    (environment / "left").touch()
    second = install(shapes)
    assert second.stdout is not None
    assert second.stdout.readline().startswith("waiting for another process")  # the installer of the first one
    (uv / "go").touch()
    assert second.communicate(timeout=60)[0] == "installing 1 package for 'judge'\nhas 1.0\n"
    assert not (environment / "left").exists()


def test_environment_whose_python_is_gone_is_installed_again(cache: Path, tmp_path: Path) -> None:
    shapes = requirement(wheel(tmp_path))
    assert install(shapes).communicate()[0] == "installing 1 package for 'judge'\nhas 1.0\n"
    python_of(environment_of(packages_of([shapes], Path))).unlink()
    assert install(shapes).communicate()[0] == "installing 1 package for 'judge'\nhas 1.0\n"
    assert install(shapes).communicate()[0] == "has 1.0\n"


def test_cache_that_other_users_could_fill_is_refused(cache: Path) -> None:
    packages, by = packages_of(["shapes"], Path), Installing("judge", dict(os.environ), Redactor([]), print)
    before = os.umask(0)
    try:
        environment = make_directory(environment_of(packages))
    finally:
        os.umask(before)
    directory = cache_directory()
    assert directory.stat().st_mode & 0o777 == 0o700
    python_of(environment).parent.mkdir()
    python_of(environment).symlink_to(sys.executable)
    (environment / READY).write_text('{"version": "3.11.1", "packages": {}, "sdk": true}')
    assert installed(packages, by).version == "3.11.1"
    directory.chmod(0o777)
    with pytest.raises(InterpreterError, match="must not belong to another user, or be writable by others"):
        installed(packages, by)
    directory.chmod(0o700)
    if os.geteuid() == 0:
        os.chown(directory, 65534, -1)
        with pytest.raises(InterpreterError, match="must not belong to another user"):
            installed(packages, by)


def test_long_lines_of_an_installer_are_shortened_and_masked(cache: Path, tmp_path: Path) -> None:
    (tmp_path / "uv").write_text("#!/bin/sh\nprintf 'ERROR: with s3cret-of-index, of versions %09000d' 0\nexit 1")
    (tmp_path / "uv").chmod(0o700)
    by = Installing("judge", {"PATH": f"{tmp_path}:{os.environ['PATH']}"}, Redactor(["s3cret-of-index"]), print)
    with pytest.raises(InterpreterError) as caught:
        installed(packages_of(["shapes"], Path), by)
    (line,) = caught.value.message.splitlines()[1:]
    assert line.startswith("ERROR: with [redacted], of versions 000")
    assert len(line) < 420


def test_environments_depend_on_requirements_and_contents_only(cache: Path, tmp_path: Path) -> None:
    def key(*requirements: str) -> Path:
        return environment_of(packages_of(requirements, Path))

    (tmp_path / "here").mkdir()
    for name in ("a.txt", "here/b.txt"):
        (tmp_path / name).write_text("shapes==1.0  # pinned\n")
    assert key("a==1", "b>=2,<3") == key("b<3,>=2", "a == 1")
    assert key(f"-r {tmp_path}/a.txt") == key(f"-r{tmp_path}/here/b.txt")
    before = [key("a==1"), key("a==2"), key(f"-r {tmp_path}/a.txt"), key(requirement(wheel(tmp_path)))]
    (tmp_path / "a.txt").write_text("shapes==1.1\n")
    after = [key(f"-r {tmp_path}/a.txt"), key(requirement(wheel(tmp_path, name="circles")))]
    assert len({*before, *after}) == 6
    assert Packages(("a",)) == Packages(("a",), sources=("x",))
