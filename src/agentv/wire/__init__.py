"""The JSON exchanged between agentv and a judge script."""
