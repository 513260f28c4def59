"""Runs on disk: append rows, repair damaged files, resume."""
