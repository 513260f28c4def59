"""A warm script behaves exactly like a cold one and cannot detect that it is warm."""

from __future__ import annotations

# ruff: noqa: E501  one script, one line
import os
import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from agentv.processes.launcher import Launcher
from agentv.processes.run import ProcessOutcome

from .warm_support import CLEAN, script, warm, write

SCRIPTS = {
    "prints": "import json, sys\nprint(json.dumps(json.load(sys.stdin)))\nprint('log', file=sys.stderr)",
    "without a line break at the end": "import sys\nsys.stdout.write('x')",
    "bytes": "import sys\nsys.stdout.buffer.write(bytes(range(256)))",
    "sys.exit": "import sys\nprint('x')\nsys.exit(3)",
    "sys.exit with a message": "import sys\nsys.exit('that is why')",
    "SystemExit with nothing": "raise SystemExit",
    "os._exit": "import os\nprint('lost')\nos._exit(7)",
    "a signal": "import os, signal\nprint('lost')\nos.kill(os.getpid(), signal.SIGTERM)",
    "an exception": "import json\ndef inner():\n    return json.loads('{')\ndef outer():\n    inner()\nouter()",
    "an exception while handling one": "try:\n    1 / 0\nexcept ZeroDivisionError as e:\n    raise ValueError('x') from e",
    "an exception in a function of a sibling": "import sibling\nsibling.fail()",
    "a group of exceptions": "raise ExceptionGroup('two', [ValueError(1), TypeError(2)])",
    "KeyboardInterrupt": "raise KeyboardInterrupt",
    "a hook for exceptions": "import sys\nsys.excepthook = lambda *a: print('hook', a[0].__name__)\n1 / 0",
    "a syntax error": "import json\ndef (",
    "an import that fails": "import json\nimport no_such_module_at_all",
    "a sibling that fails while it is imported": "import json\nimport broken",
    "a sibling that exits while it is imported": "import exits",
    "an import that may fail": "try:\n    import no_such_module\nexcept ImportError as e:\n    print(e)",
    "siblings": "from package.inner import name\nimport sibling\nprint(name, sibling.__file__, sibling.__name__)",
    "a relative import": "from . import sibling",
    "module attributes": "import sys\nprint(__name__, __file__, __doc__, __package__, __spec__, __builtins__, sys.argv)",
    "its loader": "print(type(__loader__).__name__, __loader__.name, __loader__.path, __cached__, __annotations__)",
    "its globals": "print(sorted(globals()))",
    "the main module": "import __main__, sys\nx = 1\nprint(__main__.x, sys.modules['__main__'] is __main__)",
    "the guard": "def main(): print('main')\nif __name__ == '__main__': main()",
    "the path": "import sys, os\nprint(sys.path, os.getcwd(), sys.flags, sys.orig_argv, sys.warnoptions)",
    "no frames below": "import sys, traceback\nprint(sys._getframe().f_back)\ntraceback.print_stack()",
    "a warning": "import warnings\nwarnings.warn('careful')\nwarnings.warn('old', DeprecationWarning)",
    "at exit": "import atexit\natexit.register(print, 'first')\natexit.register(print, 'second')\nprint('end')",
    "at exit after an exception": "import atexit\natexit.register(print, 'bye')\n1 / 0",
    "a file that is not closed": "f = open('out.txt', 'w')\nf.write('kept')\nclass K:\n  def __del__(s): print('k')\nk = K()",
    "a cycle with a file": "class A: pass\na = A()\na.me = a\na.f = open('out.txt', 'w')\na.f.write('kept')",
    "a file kept in a module": "import json\njson.mine = open('out.txt', 'w')\njson.mine.write('kept')",
    "a thread": "import threading, time\nthreading.Thread(target=lambda: (time.sleep(0.1), print('thread'))).start()",
    "a pool of threads": "from concurrent.futures import ThreadPoolExecutor as T\nprint(list(T(3).map(abs, [-1, -2])))",
    "asyncio": "import asyncio\nasync def f():\n    await asyncio.sleep(0)\n    return 5\nprint(asyncio.run(f()))",
    "a subprocess": "import subprocess, sys\nprint(subprocess.run(['echo', 'x'], capture_output=True).stdout)",
    "another Python": "import subprocess, sys\nprint(subprocess.check_output([sys.executable, '-c', 'import sys;print(sys.path)']))",
    "multiprocessing, forked": "import multiprocessing as m\nif __name__ == '__main__':\n  print(m.get_context('fork').Pool(2).map(abs, [-1]))",
    "multiprocessing, spawned": "import multiprocessing as m\nif __name__ == '__main__':\n  print(m.get_context('spawn').Pool(1).map(abs, [-1]))",
    "signals": "import signal\nprint({s: str(signal.getsignal(s)) for s in signal.valid_signals() if int(s) not in (9, 19)})",
    "the signal mask": "import signal\nprint(signal.pthread_sigmask(signal.SIG_BLOCK, []))",
    "a broken pipe": "import os, sys\nos.close(1)\nprint('x')",
    "limits and ids": "import os, resource\nprint(resource.getrlimit(7), os.getpid() == os.getsid(0) == os.getpgid(0), os.umask(0))",
    "descriptors": "import os\nprint([n for n in os.listdir('/proc/self/fd') if os.path.exists('/proc/self/fd/' + n)])",
    "its descriptors": "import sys\nprint([(s.fileno(), s.encoding, s.errors, s.line_buffering, s.name, s.mode, s.isatty()) for s in (sys.stdin, sys.stdout, sys.stderr)])",
    "stdin": "import sys\nprint(sys.stdin.seekable(), sys.stdin.readline(), list(sys.stdin), sys.stdin.buffer.raw.mode)",
    "the garbage collector": "import gc\nprint(gc.isenabled(), gc.get_threshold())",
    "the environment": "import os\nprint(sorted(os.environ.items()), len(os.environb), os.getenv('TOKEN'))",
    "the environment of a child": "import os, sys\nsys.stdout.flush()\nos.system('env | sort | grep -v ^_=')",
    "an environment changed by an import": "import sets\nimport os\nprint(os.environ['SET'], 'HOME' in os.environ)",
    "a module that prints": "import prints\nprint('after')",
    "a module that reads stdin": "import reads\nprint(reads.DATA)",
    "a module that registers an exit handler": "import registers\nprint('end')",
    "a path it changes first": "import sys\nsys.path.insert(0, 'other')\nimport sibling\nprint(sibling.__file__)",
    "a variable it sets first": "import os\nos.environ['SET'] = 'by the script'\nimport sets\nprint(sets.FOUND)",
    "dumpable": "import ctypes\nprint(ctypes.CDLL(None).prctl(3, 0, 0, 0, 0))",
    "recursion": "import sys\ndef f(n):\n    return n if n == 0 else f(n - 1)\nprint(f(900), sys.getrecursionlimit())",
    "an exec": "import os, sys\nsys.stdout.flush()\nos.execvp('sh', ['sh', '-c', 'echo $TOKEN; ls /proc/self/fd | wc -l'])",
    "its own fork": "import os\npid = os.fork()\nif pid == 0:\n    os._exit(4)\nprint(os.waitpid(pid, 0)[1])",
}
SIBLINGS = {
    "sibling.py": "def fail():\n    raise RuntimeError('from the sibling')\n",
    "other/sibling.py": "",
    "package/__init__.py": "",
    "package/inner.py": "from . import more\nname = more.__name__\n",
    "package/more.py": "",
    "broken.py": "import json\nraise RuntimeError('while it is imported')\n",
    "exits.py": "import sys\nsys.exit(9)\n",
    "sets.py": "import os\nFOUND = os.environ.get('SET')\nos.environ['SET'] = 'yes'\nos.environ.pop('HOME', None)\n",
    "prints.py": "import sys\nprint('while it is imported')\nprint('also here', file=sys.stderr)\n",
    "reads.py": "import sys\nDATA = sys.stdin.read()\n",
    "registers.py": "import atexit\natexit.register(print, 'goodbye')\n",
}
ADDRESS = re.compile(rb"0x[0-9a-f]+")


OF_ISOLATION = {
    "prints",
    "a signal",
    "an exception",
    "the path",
    "another Python",
    "multiprocessing, forked",
    "multiprocessing, spawned",
    "signals",
    "limits and ids",
    "descriptors",
    "the environment",
    "the environment of a child",
    "dumpable",
    "an exec",
    "its own fork",
}
"""Scripts that see something of the process in which isolated scripts run. The others run isolated in `make soak`."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, code in SIBLINGS.items():
        write(tmp_path, code, name)
    return tmp_path


def seen(outcome: ProcessOutcome, folder: Path) -> tuple[object, ...]:
    written = folder / "out.txt"
    left = written.read_text() if written.exists() else None
    texts = [ADDRESS.sub(b"0x", text) for text in (outcome.stdout, outcome.stderr)]
    return outcome.returncode, outcome.signal, *texts, outcome.supervisor_lost, outcome.survivors, left


@pytest.mark.parametrize(
    ("name", "isolate"),
    [
        *((name, False) for name in SCRIPTS),
        *(pytest.param(name, True, marks=() if name in OF_ISOLATION else pytest.mark.soak) for name in SCRIPTS),
    ],
    ids=[f"{name}-{mode}" for mode in ("open", "isolated") for name in SCRIPTS],
)
async def test_warm_script_behaves_like_a_cold_one(launcher: Launcher, folder: Path, name: str, isolate: bool):
    write(folder, SCRIPTS[name])
    wanted = script(
        folder,
        "one",
        "two words",
        stdin=b'{"line": 1}\n',
        env={**CLEAN, "TOKEN": "t", "HOME": "/home"},
        own_variables=frozenset({"TOKEN"}),
        isolate=isolate,
    )
    cold = await launcher.run(replace(wanted, warm=False))
    expected = seen(cold, folder)
    for _ in range(2):
        (folder / "out.txt").unlink(missing_ok=True)
        assert seen(await warm(launcher, wanted), folder) == expected


@pytest.mark.parametrize(
    "words", [["-u"], ["-O"], ["-B", "-P"], ["-W", "error"], ["-Werror", "-X", "dev"], ["-Xutf8=0"]], ids=" ".join
)
async def test_interpreter_options_are_kept(launcher: Launcher, folder: Path, words: list[str]):
    write(folder, "import sys\nprint(sys.flags, sys.warnoptions, sys._xoptions, sys.path, sys.orig_argv, sys.argv)")
    wanted = script(folder)
    argv = [sys.executable, *words, "judge.py", "-u", "x"]
    both = [type(wanted)(argv, folder, CLEAN, timeout=60, warm=flag) for flag in (False, True)]
    cold, warmed = await launcher.run(both[0]), await warm(launcher, both[1])
    assert cold.returncode == 0
    assert seen(warmed, folder) == seen(cold, folder)


@pytest.mark.parametrize("file", ["./judge.py", "deep/judge.py", "deep/../judge.py", "link.py", "{folder}/judge.py"])
async def test_script_path_can_have_any_form(launcher: Launcher, folder: Path, file: str):
    code = "import sys\nprint(__file__, sys.path[0], sys.argv)\nimport sibling\n1 / 0"
    write(folder, code)
    write(folder, code, "deep/judge.py")
    (folder / "link.py").symlink_to(folder / "deep" / "judge.py")
    write(folder, "", "deep/sibling.py")
    wanted = [script(folder, file=file.format(folder=folder), warm=flag) for flag in (False, True)]
    cold, warmed = await launcher.run(wanted[0]), await warm(launcher, wanted[1])
    assert b"ZeroDivisionError" in cold.stderr
    assert seen(warmed, folder) == seen(cold, folder)


async def test_missing_file_gives_the_same_error(launcher: Launcher, tmp_path: Path):
    cold, warmed = [await launcher.run(script(tmp_path, file="no.py", warm=flag)) for flag in (False, True)]
    assert cold.returncode == 2
    assert seen(warmed, tmp_path) == seen(cold, tmp_path)


@pytest.mark.parametrize(
    "variables", [{}, {"PYTHONPATH": "lib"}, {"PYTHONPATH": ""}, {"PYTHONUNBUFFERED": "1"}], ids=str
)
async def test_interpreter_variables_are_kept(launcher: Launcher, folder: Path, variables: dict[str, str]):
    write(folder, "", "lib/from_lib.py")
    write(folder, "import os, sys\nprint(sys.path, sorted(os.environ.items()), sys.stdout.write_through)")
    both = [script(folder, env={**CLEAN, **variables}, warm=flag) for flag in (False, True)]
    cold, warmed = await launcher.run(both[0]), await warm(launcher, both[1])
    assert seen(warmed, folder) == seen(cold, folder)


async def test_sitecustomize_of_the_user_still_runs(launcher: Launcher, folder: Path):
    write(folder, "import builtins\nbuiltins.customized = True\nprint('custom')", "lib/sitecustomize.py")
    write(folder, "import sys\nprint(customized, sys.modules['sitecustomize'].__file__)")
    both = [script(folder, env={**CLEAN, "PYTHONPATH": str(folder / "lib")}, warm=flag) for flag in (False, True)]
    cold, warmed = await launcher.run(both[0]), await warm(launcher, both[1])
    assert b"True" in cold.stdout
    assert seen(warmed, folder) == seen(cold, folder)


async def test_deleted_directory_gives_the_same_error(launcher: Launcher, tmp_path: Path):
    home = tmp_path / "home"
    write(home, "print(1)")
    assert (await warm(launcher, script(home))).stdout == b"1\n"
    (home / "judge.py").unlink()
    home.rmdir()
    with pytest.raises(Exception, match="does not exist"):
        await launcher.run(script(home))


async def test_large_input_and_output_are_passed_through(launcher: Launcher, tmp_path: Path):
    write(tmp_path, "import sys\nsys.stdout.write(sys.stdin.read())")
    data = os.urandom(1_000_000).hex().encode()
    assert (await warm(launcher, script(tmp_path, stdin=data))).stdout == data
