"""Where the processes of a run are: on this machine (`local.py`) or on other nodes (`agentv.nodes`)."""
