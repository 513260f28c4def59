"""Judging by a model: the prompt, the call, and reading the reply."""
