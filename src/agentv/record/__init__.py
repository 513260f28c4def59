"""Runs on disk: append, heal, resume."""
