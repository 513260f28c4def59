"""Suites x targets x selection -> `RunPlan`. Nothing is called yet; every name is resolved or refused."""
