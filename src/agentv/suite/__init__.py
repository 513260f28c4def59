"""Load YAML and JSON Lines suites into `EvalSuite`; every problem is reported with file:line:column."""
