"""A tiny library with the interface of DeepEval, which judges through OpenAI's API like the real one."""
