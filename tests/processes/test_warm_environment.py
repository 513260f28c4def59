"""Variables of one execution in warm scripts: what imports may copy, and what keeps a script from being warm."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agentv.processes.launcher import Launcher, Script

from .warm_support import CLEAN, script, warm, why_cold, write

OWN = frozenset({"PROXY_TOKEN", "PROXY_URL"})


def execution(folder: Path, number: int) -> Script:
    env = {**CLEAN, "PROXY_URL": f"http://127.0.0.1:{number}/v1", "PROXY_TOKEN": f"token-{number}", "ONE_MORE": "x"}
    return script(folder, env=env, own_variables=OWN)


COPIES = """
import copy, gc, json, os, types
shallow = copy.copy(os.environ)
copied = dict(os.environ)
method = os.environ.copy()
merged = {**os.environ, "more": "x"}
chosen = {name: value for name, value in os.environ.items() if name.startswith("PROXY_")}
one_by_one = {name: os.environ[name] for name in os.environ}
lower = {name.lower(): value for name, value in os.environ.items()}
raw = dict(os.environb)
lines = [f"{name}={value}" for name, value in os.environ.items()]
text = json.dumps(dict(os.environ))
url = dict(os.environ)["PROXY_URL"]
checked = {"url": url if url.endswith("/v1") else url + "/v1"}
proxy = types.MappingProxyType(dict(os.environ))
nested = {"a": [{"b": dict(os.environ)}]}

class Secret:
    def __init__(self, value): self._value = value

class Settings:
    def __init__(self, variables):
        self.url = variables["proxy_url"]
        self.token = Secret(variables["proxy_token"])
        self.header = f"Bearer {variables['proxy_token']}"

settings = Settings(lower)
class Proxy:  # an object that fails when it is asked what it is
    def __init__(self, variables): self.variables = variables
    @property
    def __class__(self): raise RuntimeError("outside of a request")

unbound = Proxy(dict(os.environ))
def closure(variables=dict(os.environ)):
    return variables["PROXY_TOKEN"]
for name, value in os.environ.items():
    if name == "PROXY_TOKEN":
        break
gc.freeze()
"""
PRINT_COPIES = """
import kept as k
import json, os
print(json.dumps([
    [each["PROXY_URL"] + " " + each["PROXY_TOKEN"] for each in (
        os.environ, k.shallow, k.copied, k.method, k.merged, k.chosen, k.one_by_one, k.proxy, k.nested["a"][0]["b"],
        json.loads(k.text), dict(line.split("=", 1) for line in k.lines))],
    [k.lower["proxy_url"] + " " + k.lower["proxy_token"], (k.raw[b"PROXY_URL"] + b" " + k.raw[b"PROXY_TOKEN"]).decode(),
     k.settings.url + " " + k.settings.token._value],
    [k.settings.header, k.closure(), k.value, k.checked["url"]], k.copied == k.method == dict(os.environ),
]))
"""


async def test_copies_of_the_environment_that_imports_make_have_the_values_of_each_execution(
    launcher: Launcher, tmp_path: Path
) -> None:
    write(tmp_path, COPIES, "kept.py")
    write(tmp_path, PRINT_COPIES)
    for number in (1, 2, 3):
        outcome = await warm(launcher, execution(tmp_path, number))
        assert outcome.returncode == 0, outcome.stderr
        value, token = f"http://127.0.0.1:{number}/v1 token-{number}", f"token-{number}"
        assert json.loads(outcome.stdout) == [
            [value] * 11,
            [value] * 3,
            [f"Bearer {token}", token, token, value.split(maxsplit=1)[0]],
            True,
        ]


REFUSED = {
    "read by name": ("import os\nos.environ.get('HOME')\nKEPT = os.environ.get('PROXY_URL')", "read", "PROXY_URL"),
    "tested by name": ("import os\ndict(os.environ)\nKEPT = 'PROXY_TOKEN' in os.environ", "read", "PROXY_TOKEN"),
    "set": ("import os\nos.environ['PROXY_TOKEN'] = 'x'", "read", "PROXY_TOKEN"),
    "deleted": ("import os\ndel os.environ['PROXY_TOKEN']", "read", "PROXY_TOKEN"),
    "in a tuple": ("import os\nKEPT = tuple(os.environ.values())", "keep", "in a tuple of `kept.KEPT`"),
    "in a set": ("import os\nKEPT = set(os.environ.values())", "keep", "in a set of `kept.KEPT`"),
    "as keys": ("import os\nKEPT = [{v: k for k, v in os.environ.items()}]", "keep", "in a dict of `kept.KEPT`"),
    "in a class": (
        "import os\nclass Kept:\n    for name, value in os.environ.items():\n        if name == 'PROXY_URL': break",
        "keep",
        "PROXY_URL",
    ),
    "changed": ("import os\nKEPT = {k: v.upper() for k, v in os.environ.items()}", "keep", "a part of a variable"),
    "a part": ("import os\nKEPT = [v[7:] for v in os.environ.values()]", "keep", "a part of a variable"),
    "in a generator": ("import os\nKEPT = iter(dict(os.environ).values())\nnext(KEPT)", None, ""),
    "in slots": (
        "import os\nclass Kept:\n    __slots__ = ('url',)\nKEPT = Kept()\n"
        "KEPT.url = dict(os.environ)['PROXY_URL']",
        "keep",
        "in a Kept of `kept.KEPT`",
    ),
    "as an address of pydantic": (
        "import os\nfrom pydantic import AnyUrl\nKEPT = AnyUrl(dict(os.environ)['PROXY_URL'])",
        "keep",
        "PROXY_URL",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
async def test_copies_that_cannot_be_replaced_start_the_script_cold(
    launcher: Launcher, tmp_path: Path, name: str
) -> None:
    code, verb, where = REFUSED[name]
    write(tmp_path, code, "kept.py")
    write(tmp_path, "import kept, os\nprint(os.environ.get('PROXY_URL'))")
    outcome, reasons = await why_cold(launcher, execution(tmp_path, 5))
    assert outcome.stdout == b"http://127.0.0.1:5/v1\n"
    if verb is None:
        assert reasons == []
    else:
        (reason,) = reasons
        assert reason.startswith(f"its imports {verb} ")
        assert where in reason


async def test_a_copy_in_memory_of_c_code_is_an_address_that_does_not_exist(launcher: Launcher, tmp_path: Path) -> None:
    write(
        tmp_path,
        """
        import array, ctypes, os
        KEPT = array.array("b", dict(os.environb)[b"PROXY_URL"])
        libc = ctypes.CDLL(None)
        libc.getenv.restype = ctypes.c_char_p
        FOUND = bytearray(libc.getenv(b"PROXY_URL"))[-11:]
        """,
        "kept.py",
    )
    write(
        tmp_path,
        "import kept\nprint(bytes(kept.KEPT)[-11:], bytes(kept.FOUND), kept.libc.getenv(b'PROXY_URL'))",
    )
    outcome = await warm(launcher, execution(tmp_path, 7))
    assert outcome.stdout == b"b'.invalid/v1' b'.invalid/v1' b'http://127.0.0.1:7/v1'\n"
