"""`agentv judge new`: create a judge script and its test."""

from __future__ import annotations

import importlib.util
import keyword
import re
import shlex
import shutil
from pathlib import Path

import click

from agentv.cli.init import template
from agentv.cli.new_files import write_files
from agentv.cli.programs import NODE, is_old_node, version_of
from agentv.errors import UsageError
from agentv.judge.ledger import DEFAULT_MAX_CALLS
from agentv.metrics import METRICS, SHARED, SHARED_FILE, script_of
from agentv.metrics.libraries import LIBRARIES, adapter_for, file_name

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
SUPPORT = "metric_support"
"""The module that a copied metric shares with others in its directory."""
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@click.command()
@click.argument("name", metavar="NAME")
@click.option("--lang", type=click.Choice(list(FILES)), default="python", help="Language of the script.  [python]")
@click.option(
    "--metric", type=click.Choice(list(METRICS)), metavar="NAME", help="Copy the script of this ready metric."
)
@click.option(
    "--from",
    "library",
    type=click.Choice(list(LIBRARIES)),
    help="Write a script that runs a metric of this library. NAME is then the metric, such as FaithfulnessMetric.",
)
@click.option("--path", "folder", default=".", metavar="DIR", help="Directory to write to.  [.]")
@click.option("--force", is_flag=True, help="Overwrite existing files without asking.")
def command(name: str, lang: str, metric: str | None, library: str | None, folder: str, *, force: bool) -> int:
    """Create a working judge script and a test for it, or a script with a metric to change: a ready metric, or one of
    another library."""
    if metric is not None and library is not None:
        raise UsageError("--metric and --from cannot be combined.", next_step="Use only one of them.")
    written, name = name, name.replace("-", "_") if library is None else file_name(name)
    if not _NAME.fullmatch(name) or keyword.iskeyword(name):
        raise UsageError(
            f"NAME must be an identifier, got '{name}'.", next_step="Use letters, digits and `_`: cites_sources."
        )
    root = Path(folder)
    if metric is not None or library is not None:
        if lang != "python":
            option = "--metric" if library is None else "--from"
            raise UsageError(f"{option} writes a script in Python, got --lang {lang}.", next_step="Omit --lang.")
        if library is not None:
            return _copy_adapter(library, written, name, root, force=force)
        return _copy_metric(name, str(metric), root, force=force)
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


def _copy_metric(name: str, metric: str, root: Path, *, force: bool) -> int:
    """Copy the script of a metric and the module it imports, which then no longer depend on agentv's own."""
    if name == SUPPORT:
        raise UsageError(f"NAME must not be {SUPPORT}, which is the module that metrics share.")
    source = script_of(metric).read_text("utf-8").replace(f"from {SHARED} import", f"from {SUPPORT} import")
    copies = {f"{name}.py": source.replace(f"def {metric}(", f"def {name}(")}
    copies[f"{SUPPORT}.py"] = SHARED_FILE.read_text("utf-8")
    write_files(root, copies, force=force)
    script = root / f"{name}.py"
    access = ", judge: {}" if METRICS[metric].calls_judge else ""
    click.echo(f"\nUse it:   {{name: {name}, type: code_judge, script: [python, {script}]{access}, warm: true}}")
    click.echo("          The path is relative to the suite. Options of the metric go under `config`.")
    click.echo(f"Run it:   agentv judge run {shlex.quote(str(script))} --suite SUITE --case ID")
    return 0


def _copy_adapter(library: str, metric: str, name: str, root: Path, *, force: bool) -> int:
    """Copy the adapter of a library, with its metric filled in."""
    write_files(root, {f"{name}.py": adapter_for(library, metric)}, force=force)
    about, script = LIBRARIES[library], root / f"{name}.py"
    variables = ", ".join(f'{variable}: "{value}"' for variable, value in about.variables.items())
    click.echo("\nUse it:")
    click.echo(f"  - name: {name}\n    type: code_judge\n    script: [python, {script}]\n    {about.python}")
    click.echo(f"    judge: {{max_calls: {DEFAULT_MAX_CALLS}}}\n    warm: true")
    if variables:
        click.echo(f"    env: {{{variables}}}")
    click.echo("The path is relative to the suite. A metric with embeddings also needs `judge: {embeddings: TARGET}`.")
    packages = " ".join(f"--with {shlex.quote(requirement)}" for requirement in about.requirements)
    click.echo(f"Run it:   agentv judge run {shlex.quote(str(script))} {packages} --suite SUITE --case ID")
    click.echo(f"Without a script: {{type: metric, metric: '{library}:{metric}', {about.python}}}")
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
