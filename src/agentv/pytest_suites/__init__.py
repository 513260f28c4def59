"""Suites as pytest tests: `pytest evals/` collects one test per case, and runs all of them in one recorded run."""
