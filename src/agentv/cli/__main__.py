"""Entry point of `python -m agentv.cli`."""

from agentv.cli import main

main()
