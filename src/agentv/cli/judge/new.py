"""`agentv judge new`: create a judge script and its test."""

from __future__ import annotations

import importlib.util
import keyword
import re
import shlex
import shutil
from pathlib import Path

import click

from agentv.cli.init import template, write_files
from agentv.cli.programs import NODE, is_old_node, version_of
from agentv.errors import UsageError

FILES = {
    "python": {"NAME.py": "judge.py.txt", "test_NAME.py": "judge_test.py.txt"},
    "typescript": {"NAME.ts": "judge.ts", "NAME.test.ts": "judge.test.ts"},
    "bash": {"NAME.sh": "judge.sh", "test_NAME.sh": "judge_test.sh"},
}
"""Language -> name of each file to write -> its template."""
TESTS = {"python": "python -m pytest", "typescript": "node --test", "bash": "bash"}
NEEDS = {
    "python": "pytest (for the test)",
    "typescript": "@agentv/eval and Node 22.18 or newer",
    "bash": "jq, and curl to call the judge",
}
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@click.command()
@click.argument("name")
@click.option("--lang", type=click.Choice(list(FILES)), default="python", help="Language of the script.  [python]")
@click.option("--path", "folder", default=".", metavar="DIR", help="Directory to write to.  [.]")
@click.option("--force", is_flag=True, help="Overwrite existing files without asking.")
def command(name: str, lang: str, folder: str, force: bool) -> int:
    """Create a working judge script and a test for it."""
    name = name.replace("-", "_")
    if not _NAME.fullmatch(name) or keyword.iskeyword(name):
        raise UsageError(
            f"NAME must be an identifier, got '{name}'.", next_step="Use letters, digits and `_`: cites_sources."
        )
    root = Path(folder)
    contents = {
        file.replace("NAME", name): template(source).replace("NAME", name) for file, source in FILES[lang].items()
    }
    write_files(root, contents, force=force)
    script, test = (shlex.quote(str(root / file)) for file in contents)
    click.echo(f"\nNeeds:    {NEEDS[lang]}")
    if missing := _missing(lang):
        click.echo(f"Missing:  {missing}", err=True)
    click.echo(f"Test it:  {TESTS[lang]} {test}")
    case = '{"question": "What is the capital of France?", "candidate_answer": "Paris."}'
    click.echo(f"Run it:   echo '{case}' |\n            agentv judge run {script} --payload -")
    return 0


def _missing(lang: str) -> str:
    """The programs and packages that the script or its test needs and this machine does not have."""
    if lang == "python":
        return "" if importlib.util.find_spec("pytest") else "pytest"
    if lang == "bash":
        return ", ".join(program for program in ("jq", "curl") if shutil.which(program) is None)
    if shutil.which("node") is None:
        return "node"
    version = version_of("node")
    return f"Node {NODE[0]}.{NODE[1]} (this is v{version})" if version is not None and is_old_node(version) else ""
