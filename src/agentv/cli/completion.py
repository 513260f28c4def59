"""`agentv completion`: print the script that completes commands, options, runs, targets and cases in a shell."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from agentv.errors import UsageError

VARIABLE = "_AGENTV_COMPLETE"
"""Set by the scripts while they ask for completions. click derives the name from the program's."""
_SHELLS = {
    "bash": 'eval "$(agentv completion bash)"        # in ~/.bashrc',
    "zsh": 'eval "$(agentv completion zsh)"         # in ~/.zshrc',
    "fish": "agentv completion fish | source        # in ~/.config/fish/config.fish",
}


@click.command(epilog="\b\n" + "\n".join(_SHELLS.values()))
@click.argument("shell", type=click.Choice(list(_SHELLS)))
def command(shell: str) -> int:
    """Print a script that completes commands, options, runs, targets and cases.

    Add the line for your shell to its configuration:
    """
    root = click.get_current_context().find_root()
    kind = get_completion_class(shell)
    if kind is None:  # pragma: no cover - click supports all of them
        raise UsageError(f"Completion for {shell} is not supported.")
    try:
        script = kind(root.command, {}, "agentv", VARIABLE).source()
    except RuntimeError as error:  # bash is too old, or cannot be run
        raise UsageError(f"Completion for {shell} is not available: {error}") from None
    click.echo(script)
    return 0
