"""Write docs/upstream/: a report for vLLM's maintainers on each fault that a patch fixes.

    nox -s upstream-reports                                          # writes the pages
    nox -s upstream-reports -- --check                               # are they what would be written?
    nox -s upstream-reports -- --run --unpatched A.whl --patched B.whl [SLUG ...]
    nox -s upstream-reports -- --run --unpatched A.whl [SLUG ...]    # any wheel without the patches
    nox -s upstream-reports -- --run --target s390x --unpatched ...  # those of another machine, in an emulated one

A report is made from a folder of tests/reproducers/: the reproducer, the test for vLLM's own tests, and what is to be
said. The diffs are made from vLLM's source in the store. A run on two wheels asserts that each reproducer fails on the
unpatched wheel as the folder says and passes on the patched one, likewise the tests, and keeps what was printed in
outputs.json. A run on one wheel, ours or somebody else's, prints which faults it shows and keeps that in wheels.json.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from upstream_pages import write_pages
from upstream_runs import run_both, run_one
from upstream_sources import MACHINES, PAGES, ROOT

from cpuwheels.config.matrix import load_matrix
from cpuwheels.config.options import BuildOptions
from cpuwheels.config.paths import Paths
from cpuwheels.core.console import Reporter
from cpuwheels.pipeline.context import open_context

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Write, check, or run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="say whether the pages are what would be written")
    parser.add_argument("--run", action="store_true", help="run reproducers and tests first")
    parser.add_argument("--unpatched", type=Path, help="a wheel built with --upstream-kernels, or somebody else's")
    parser.add_argument("--patched", type=Path, help="a wheel with all patches")
    parser.add_argument("--target", choices=MACHINES, default="x86", help="the target of the wheels (default: x86)")
    parser.add_argument("--cache", type=Path, default=os.environ.get("CPUWHEELS_CACHE", "~/.cache/cpuwheels"))
    parser.add_argument("slugs", nargs="*", help="run only these")
    options = parser.parse_args(arguments)
    paths = Paths(ROOT, Path(options.cache).expanduser(), ROOT / "dist")
    matrix = load_matrix(paths.matrix)
    target = options.target
    context = open_context(paths, matrix, matrix.buildable(target), BuildOptions(), Reporter(target))
    problems = 0
    if options.run:
        if not options.unpatched:
            parser.error("--run needs --unpatched")
        if options.patched:
            wheels = {"unpatched": options.unpatched, "patched": options.patched}
            problems = run_both(context, wheels, options.slugs)
        else:
            problems = run_one(context, options.unpatched, options.slugs)
    pages = write_pages(context)
    there = {path.name: path.read_text(encoding="utf-8") for path in PAGES.glob("*.md")}
    if options.check:
        changed = sorted(name for name in pages.keys() | there.keys() if pages.get(name) != there.get(name))
        context.reporter.info(f"not as they would be written: {', '.join(changed)}" if changed else "up to date")
        return int(bool(changed or problems))
    PAGES.mkdir(exist_ok=True)
    for name in there.keys() - pages.keys():
        (PAGES / name).unlink()
    for name, text in pages.items():
        (PAGES / name).write_text(text, encoding="utf-8")
    return int(bool(problems))


if __name__ == "__main__":
    sys.exit(main())
