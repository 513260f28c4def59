"""Evaluators turn an `EvaluationContext` into a `Score`: one file per evaluator, plus a registry.

`scoring.py` is the only place where exceptions become results.
"""
