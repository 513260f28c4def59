"""Turns a `RunPlan` into rows: running one case, and scheduling many."""
