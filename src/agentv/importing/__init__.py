"""Files of other tools -> suites and configurations of agentv. What cannot be carried over is told with its place."""
