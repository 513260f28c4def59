"""The workload `script` in promptfoo, which calls this function."""


def get_assert(output: str, _context: object) -> float:
    return 1.0 if "Paris" in output else 0.0
