"""A click group that imports only the command that is called."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import click

from agentv.cli import quick_start


class LazyGroup(click.Group):
    """A group whose commands come from a table: name -> (`module:attribute`, one line of help).

    `aliases` are other names of commands; they are accepted, but not listed.
    """

    def __init__(
        self,
        *args: Any,
        table: Mapping[str, tuple[str, str]],
        aliases: Mapping[str, str] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self._table = table
        self._aliases = aliases or {}

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(self._table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = self._table.get(self._aliases.get(cmd_name, cmd_name))
        if entry is None:
            return None
        module, _, name = entry[0].partition(":")
        command: click.Command = getattr(importlib.import_module(module), name)
        if not isinstance(command, click.Group):
            quick_start.end()
            if ctx.resilient_parsing:
                from agentv.cli.complete import complete_parameters  # noqa: PLC0415 - only if a shell asks

                complete_parameters(command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in self._table.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        known = [*self._table, *self._aliases]
        if args and args[0] not in known and not args[0].startswith("-"):
            from agentv.text import did_you_mean  # noqa: PLC0415 - only for a command that does not exist

            near = did_you_mean(args[0], known).replace("`", "'")
            ctx.fail(f"unknown command '{args[0]}'{near}. Available: {', '.join(self._table)}.")
        return super().resolve_command(ctx, args)
