"""`EvaluationContext` in, `Score` out: one file per evaluator, a registry, one edge where errors become results."""
