"""The same results in the viewers of several tools, in one browser: `python -m benchmarks.viewers`."""
