"""Entry of `nox -s bench`; `docs/benchmark.md` says how to run it and what its figures mean."""

import sys

from bisectbench.command import main as bisections
from buildbench.command import main as builds
from farmbench.command import main as farms
from farmbench.engine import main as engine
from indexbench.command import main as indexes
from resultspage.command import main as page

if __name__ == "__main__":
    others = {"bisect": bisections, "index": indexes, "farm": farms, "farm-engine": engine, "page": page}
    if sys.argv[1:2] and sys.argv[1] in others:
        others[sys.argv[1]](sys.argv[2:])
    builds()
