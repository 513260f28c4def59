"""YAML and JSONL -> `EvalSuite`, with every mistake at its file:line:column."""
