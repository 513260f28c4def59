"""`agentv judge`: create, run and debug judge scripts."""
