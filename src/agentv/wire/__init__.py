"""The JSON that goes between agentv and a judge script."""
