"""`agentv judge serve`: start a judge proxy for interactive use."""

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
from agentv.judge.recording import Recording
from agentv.judge.session import JudgeSession
from agentv.plan.build import Loaded
from agentv.processes.protection import protect_runtime
from agentv.redact import Redactor
from agentv.suite.suite import EvalSuite
from agentv.targets.config import NO_JUDGE, TargetsConfig, no_config_error
from agentv.targets.pool import TargetPool
from agentv.targets.secrets import Secrets
from agentv.text import plural
from agentv.wire.apis.registry import variables_of

EVALUATOR = "judge serve"


@click.command()
@click.option("--suite", metavar="FILE", help="Use the configuration and judge target of this suite.")
@click.option("--config", metavar="FILE", help="Target configuration.  [found near the working directory]")
@click.option("--judge-target", metavar="NAME", help="Judge target (overrides all other settings).")
@click.option(
    "--max-calls", type=click.IntRange(0), default=DEFAULT_MAX_CALLS, metavar="N", help="Maximum number of calls.  [50]"
)
@click.option(
    "--for",
    "minutes",
    type=FiniteRange(0, 24 * 60, min_open=True),
    default=60.0,
    metavar="MINUTES",
    help="Minutes until the proxy closes.  [60]",
)
@click.option("--openai", is_flag=True, help="Also print the variables of OpenAI's client libraries.")
@click.option("--full", is_flag=True, help="Do not shorten questions and replies.")
def command(
    *,
    suite: str | None,
    config: str | None,
    judge_target: str | None,
    max_calls: int,
    minutes: float,
    openai: bool,
    full: bool,
) -> int:
    """Start a judge proxy for interactive use and show each call.

    Two `export` lines are printed to stdout and everything else to stderr, so that a shell can evaluate the output:

    \b
      eval "$(agentv judge serve &)"

    The proxy closes on Ctrl-C or when its time is up.
    """
    cwd = Path.cwd()
    loaded = Loaded(cwd, config)
    eval_suite = _suite(loaded, suite)
    directory = eval_suite.directory if eval_suite is not None else cwd
    targets_config = loaded.config(directory)
    if targets_config is None:
        raise no_config_error("`agentv judge serve` needs a judge", directory)
    if judge_target not in (None, NO_JUDGE):
        targets_config.find(judge_target, asked_by="--judge-target")
    choice = JudgeChoice.without_answers(targets_config, suite=eval_suite, option=judge_target)
    secrets = Secrets.of([targets_config], [loaded.environment(directory)])
    view = TerminalView(look_at(sys.stderr), sys.stderr, full=full, headings=False)
    vendors = ("openai",) if openai else ()
    serving = _serve(
        targets_config, choice, secrets, directory, view, max_calls=max_calls, minutes=minutes, vendors=vendors
    )
    asyncio.run(until_stopped(serving))
    return 0


def _suite(loaded: Loaded, path: str | None) -> EvalSuite | None:
    if path is None:
        return None
    suites = loaded.suites([path])
    if len(suites) > 1:
        raise UsageError(f"--suite must be a single suite, got {len(suites)} ({path}).")
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
    vendors: tuple[str, ...],
) -> None:
    observer = Observer(view)
    observer.redactor = redactor = Redactor(secrets.values)
    with protect_runtime():
        async with TargetPool(secrets) as pool:
            lender = Lender(choice, config, pool, redactor=redactor, recording=Recording(observer.call))
            access = JudgeAccess(max_calls=max_calls)
            if (why := lender.refusal(access)) is not None:
                raise UsageError(f"Cannot start the judge proxy: {why}.", next_step=HOW)
            session = lender.lend(access, Asker(EVALUATOR, "serve", directory=directory))
            session.on_refused = observer.refused
            session.limit_setting = "`--max-calls` of `agentv judge serve`"
            why = "stopped"
            async with JudgeProxy(session) as proxy:
                _announce(view, proxy, session, minutes, vendors)
                try:
                    await asyncio.sleep(minutes * 60)
                    why = f"time limit of {minutes:g} min reached"
                finally:
                    session.close()
                    view.say(f"Judge proxy closed ({why}). {ledger_line(session.ledger.to_dict())}")


def _announce(
    view: TerminalView, proxy: JudgeProxy, session: JudgeSession, minutes: float, vendors: tuple[str, ...]
) -> None:
    end = datetime.now().astimezone() + timedelta(minutes=minutes)
    in_background = signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    how = "Stop it with: kill" if in_background else "Stop it with Ctrl-C or: kill"
    view.say(
        f"Judge proxy open until {end:%H:%M}: judge target {view.look.text(session.targets.default)}, "
        f"at most {plural(session.ledger.max_calls, 'call')}. {how} {os.getpid()}"
    )
    own = {"AGENTV_JUDGE_PROXY_URL": proxy.url, "AGENTV_JUDGE_PROXY_TOKEN": proxy.token}
    for name, value in {**own, **variables_of(vendors, proxy.url, proxy.token)}.items():
        click.echo(f"export {name}={shlex.quote(value)}")
    sys.stdout.flush()
    # Close stdout, so that `eval "$(...)"` returns while the proxy stays open.
    if not sys.stdout.isatty():
        null_device = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null_device, sys.stdout.fileno())
        os.close(null_device)
