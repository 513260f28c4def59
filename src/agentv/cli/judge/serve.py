"""`agentv judge serve`: a judge proxy to work with by hand."""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
import sys
from datetime import datetime, timedelta
from pathlib import Path

import click

from agentv.cli.judge.view import Observer, TerminalView, ledger_line, look_at
from agentv.cli.parameters import FiniteRange
from agentv.cli.signals import until_stopped
from agentv.errors import UsageError
from agentv.judge.access import JudgeAccess
from agentv.judge.choice import JudgeChoice
from agentv.judge.ledger import DEFAULT_MAX_CALLS
from agentv.judge.lending import HOW, Asker, Lender
from agentv.judge.proxy import JudgeProxy
from agentv.plan.build import Loaded
from agentv.processes.protection import protect_runtime
from agentv.redact import Redactor
from agentv.suite.suite import EvalSuite
from agentv.targets.config import NO_JUDGE, TargetsConfig, no_config_error
from agentv.targets.pool import TargetPool
from agentv.targets.secrets import Secrets
from agentv.text import plural

EVALUATOR = "judge serve"


@click.command()
@click.option("--suite", metavar="FILE", help="Take configuration and judge target as for this suite.")
@click.option("--config", metavar="FILE", help="The target configuration, instead of the one found near here.")
@click.option("--judge-target", metavar="NAME", help="Judge target (overrides all other settings).")
@click.option(
    "--max-calls", type=click.IntRange(0), default=DEFAULT_MAX_CALLS, metavar="N", help="Calls it allows.  [50]"
)
@click.option(
    "--for",
    "minutes",
    type=FiniteRange(0, 24 * 60, min_open=True),
    default=60.0,
    metavar="MINUTES",
    help="Close after this long.  [60]",
)
@click.option("--full", is_flag=True, help="Show questions and replies without shortening them.")
def command(
    *, suite: str | None, config: str | None, judge_target: str | None, max_calls: int, minutes: float, full: bool
) -> int:
    """Open a judge proxy for interactive work, and show each call as it happens.

    Prints two `export` lines on stdout and everything else on stderr, so that a shell can take them in:

    \b
      eval "$(agentv judge serve &)"

    Ctrl-C closes it, and so does the time limit.
    """
    cwd = Path.cwd()
    loaded = Loaded(cwd, config)
    chosen = _suite(loaded, suite)
    directory = chosen.directory if chosen is not None else cwd
    found = loaded.config(directory)
    if found is None:
        raise no_config_error("`agentv judge serve` needs a judge", directory)
    if judge_target not in (None, NO_JUDGE):
        found.find(judge_target, asked_by="--judge-target")
    choice = JudgeChoice.without_answers(found, suite=chosen, option=judge_target)
    secrets = Secrets.of([found], [loaded.environment(directory)])
    view = TerminalView(look_at(sys.stderr), sys.stderr, full=full, headings=False)
    serving = _serve(found, choice, secrets, directory, view, max_calls=max_calls, minutes=minutes)
    asyncio.run(until_stopped(serving))
    return 0


def _suite(loaded: Loaded, path: str | None) -> EvalSuite | None:
    if path is None:
        return None
    suites = loaded.suites([path])
    if len(suites) > 1:
        raise UsageError(f"--suite {path}: these are {len(suites)} suites; name one.")
    return suites[0]


async def _serve(
    config: TargetsConfig,
    choice: JudgeChoice,
    secrets: Secrets,
    directory: Path,
    view: TerminalView,
    *,
    max_calls: int,
    minutes: float,
) -> None:
    observer, redactor = Observer(view), Redactor(secrets.values)
    with protect_runtime():
        async with TargetPool(secrets) as pool:
            lender = Lender(choice, config, pool, redactor=redactor, on_call=observer.call, record_io=True)
            access = JudgeAccess(max_calls=max_calls)
            if (why := lender.refusal(access)) is not None:
                raise UsageError(f"There is no judge to ask: {why}.", next_step=HOW)
            session = lender.lend(access, Asker(EVALUATOR, "serve", directory=directory))
            session.on_refused = observer.refused
            session.limit_setting = "`--max-calls` of `agentv judge serve`"
            why = "it was stopped"
            async with JudgeProxy(session) as proxy:
                _announce(view, proxy, minutes)
                try:
                    await asyncio.sleep(minutes * 60)
                    why = f"its time is over ({minutes:g} min)"
                finally:
                    session.close()
                    view.say(f"The judge proxy is closed: {why}. {ledger_line(session.ledger.to_dict())}")


def _announce(view: TerminalView, proxy: JudgeProxy, minutes: float) -> None:
    end = datetime.now().astimezone() + timedelta(minutes=minutes)
    session = proxy.session
    in_background = signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    how = "Close it with: kill" if in_background else "Ctrl-C closes it, or: kill"
    view.say(
        f"The judge proxy is open until {end:%H:%M}: {view.look.text(session.targets.default)} judges, "
        f"{plural(session.ledger.max_calls, 'call')} at most. {how} {os.getpid()}"
    )
    for name, value in (("AGENTV_JUDGE_PROXY_URL", proxy.url), ("AGENTV_JUDGE_PROXY_TOKEN", proxy.token)):
        click.echo(f"export {name}={shlex.quote(value)}")
    sys.stdout.flush()
    # Close stdout, so that `eval "$(...)"` returns while the proxy stays open.
    if not sys.stdout.isatty():
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
