"""`python -m benchmarks.comparison`: see `run.py`."""

import sys

from benchmarks.comparison.run import main

if __name__ == "__main__":
    sys.exit(main())
