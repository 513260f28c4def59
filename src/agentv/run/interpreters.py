"""Prepare the interpreters of scripts before a run: install their packages, and ask what they have."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from dataclasses import replace

from agentv.plan.plan import RunPlan
from agentv.redact import Redactor

_log = logging.getLogger(__name__)


def with_interpreters(plan: RunPlan, say: Callable[[str], None] = _log.info) -> RunPlan:
    """The plan with every interpreter that its scripts need, ready for use; `say` reports what takes long.

    Raises InterpreterError if one of them cannot be used. Then nothing was called.
    """
    wanted = plan.interpreters
    if not wanted or wanted.keys() <= plan.prepared.keys():
        return plan
    from agentv.interpreters.prepare import prepare  # noqa: PLC0415 - most runs use the Python of agentv

    variables = plan.secrets.scrub(os.environ)
    redactor = Redactor(plan.secrets.values)
    prepared = prepare(wanted, variables=variables, redactor=redactor, say=lambda text: say(redactor.text(text)))
    return replace(plan, prepared=prepared)
