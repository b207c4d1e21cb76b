"""Entry of `nox -s bench`; `docs/benchmark.md` says how to run it and what its figures mean."""

import sys

from bisectbench.command import main as bisections
from buildbench.command import main as builds

if __name__ == "__main__":
    if sys.argv[1:2] == ["bisect"]:
        bisections(sys.argv[2:])
    builds()
