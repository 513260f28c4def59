"""What was sent to a target in a recorded case: its messages with `system_prompt` and `prompt` of the target.

The record has the templates and the variables, so they are rendered again as in the run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from agentv.errors import AgentVError
from agentv.evidence import CaseRecord
from agentv.messages import Message
from agentv.report.case_view import CaseView
from agentv.results import CaseResult, TurnRecord


def as_sent(view: CaseView) -> CaseView:
    """The view with the messages that were sent, if the target adds something to its cases. Never fails."""
    settings = _settings(view.reader.manifest, view.row)
    templates = [settings.get(name) for name in ("system_prompt", "prompt")]
    if view.case is None or not any(isinstance(text, str) for text in templates):
        return view
    try:
        return asyncio.run(_worded(view, view.case, *(text if isinstance(text, str) else None for text in templates)))
    except AgentVError:  # the templates of an older version, or masked values in them
        return view


async def _worded(view: CaseView, case: CaseRecord, system_prompt: str | None, prompt: str | None) -> CaseView:
    from agentv.targets.provider import Request  # noqa: PLC0415 - most targets add nothing
    from agentv.targets.wording import Wording  # noqa: PLC0415 - as above
    from agentv.templates import TemplateError, compile_template  # noqa: PLC0415 - as above

    try:
        compiled = [None if text is None else compile_template(text) for text in (system_prompt, prompt)]
    except TemplateError:
        return view
    wording = Wording(view.row.target, *compiled)

    async def worded(messages: Sequence[Message]) -> tuple[Message, ...]:
        return (await wording(Request(messages=messages, vars=case.vars or {}))).messages

    if not view.row.turns:
        return replace(view, sent=await worded(case.input_messages))
    system = [message for message in case.input_messages if message.role == "system"]
    turns: list[TurnRecord] = []
    for turn in view.row.turns:
        messages = await worded([*system, *turn.input_messages])
        sent = messages if not turns else tuple(message for message in messages if message.role != "system")
        turns.append(replace(turn, input_messages=sent))
    return replace(view, row=replace(view.row, turns=tuple(turns)))


def _settings(manifest: Mapping[str, Any], row: CaseResult) -> Mapping[str, Any]:
    """The recorded configuration of the target of a row; empty if there is none."""
    suites = manifest.get("suites")
    paths = [
        suite.get("config")
        for suite in (suites if isinstance(suites, list) else ())
        if isinstance(suite, Mapping) and suite.get("name") == row.suite
    ]
    found: Any = manifest.get("configuration")
    for key in (paths[0] if paths else None, "targets", row.target):
        found = found.get(key) if isinstance(found, Mapping) else None
    return found if isinstance(found, Mapping) else {}
