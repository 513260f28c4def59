"""`agentv judge`: write, run and serve judge scripts."""
