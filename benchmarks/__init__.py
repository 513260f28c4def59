"""Benchmarks. `python -m benchmarks` runs them; some also run as `python -m benchmarks.<name>`."""
