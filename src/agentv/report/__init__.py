"""Rows -> what a person reads: the summary, progress while it runs, and mistakes in files."""
