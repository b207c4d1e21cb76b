"""The benchmark's command line.

Builds the same sources with the same compiler twice, upstream's CMake project as it is and ours, and prints what each
took, as tables and ratios, next to the targets. Results are written after every step: JSON, and a drawing at the end.
"""

from __future__ import annotations

import argparse
import signal
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from buildbench.edit import KERNEL, PYTHON
from buildbench.modes import MODES, Bench
from buildbench.plot import draw
from buildbench.results import Results, read_results, write_results
from buildbench.setting import prepared
from buildbench.table import report
from buildbench.targets import verdicts
from cpuwheels.core.console import Reporter
from cpuwheels.core.errors import CpuwheelsError, StoppedError, UsageError
from cpuwheels.core.filesystem import storage_errors
from cpuwheels.core.store import default_root
from cpuwheels.core.units import parse_size

if TYPE_CHECKING:
    from collections.abc import Sequence

    from buildbench.setting import Setting

CAPS = "3G,4G,6G,8G"
_ROOT = Path(__file__).parents[2]


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the benchmark and exit: 0, 1 for a missed target with ``--require``, or the code of the error's class."""
    options = _parser().parse_args(arguments)
    reporter = Reporter("bench")
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with storage_errors(options.work):
            results, drawings = _run(options, reporter)
    except CpuwheelsError as error:
        reporter.info(f"error: {error}")
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        reporter.info("stopped; what was measured is kept: run the same command again with --resume")
        sys.exit(StoppedError.exit_code)
    finally:
        signal.signal(signal.SIGTERM, before)
    print(report(results))
    print(f"\nwritten: {', '.join(map(str, drawings))}")
    missed = [verdict.what for verdict in verdicts(results) if verdict.met is False]
    sys.exit(1 if missed and options.require else 0)


def _run(options: argparse.Namespace, reporter: Reporter) -> tuple[Results, list[Path]]:
    modes = options.modes or list(MODES)
    with prepared(options.root, options.work, options.target, options.source, reporter) as setting:
        path = _results_path(options)
        results = Results(machine=setting.machine, subject=setting.subject)
        if options.resume:
            results = _resumed(path, setting, reporter)
        bench = Bench(
            setting,
            results,
            kernel=options.kernel,
            python=options.python,
            save=lambda found: write_results(path, found),
        )
        bench.run(modes, options.memory, options.repeat)
        reporter.info(f"{options.work} holds both builds and can be removed when no other mode is to follow")
    write_results(path, bench.results)
    drawings = [path.with_suffix(suffix) for suffix in (".svg", ".png")]
    draw(bench.results, drawings)
    return bench.results, [path, *drawings]


def _resumed(path: Path, setting: Setting, reporter: Reporter) -> Results:
    """Return earlier results, if they are of the same things on the same machine.

    If only our steering has changed, the runs of upstream's side remain valid.

    Raises:
        UsageError: They are not.
    """
    results = read_results(path)
    for name, before, now in (
        ("build", results.subject.unsteered(), setting.subject.unsteered()),
        ("machine", results.machine, setting.machine),
    ):
        if before != now:
            pairs = zip(before.model_dump().items(), now.model_dump().values(), strict=True)
            changed = [f"{field}: {old}, now {new}" for (field, old), new in pairs if old != new]
            raise UsageError(
                f"the results are of another {name}: {'; '.join(changed)}",
                where=path,
                next_step="leave out --resume to measure everything anew",
            )
    reporter.info(f"continuing from {path}")
    if results.subject != setting.subject:
        reporter.info("our steering has changed since: only the runs of upstream's side are kept")
        return results.unsteered(setting.subject)
    return results


def _results_path(options: argparse.Namespace) -> Path:
    """Return where the results go; with ``--resume`` the latest ones in the default folder.

    Raises:
        UsageError: There are none to continue from.
    """
    if options.json:
        return Path(options.json)
    folder: Path = options.root / "dist" / "bench"
    if not options.resume:
        return folder / f"{options.target}-{datetime.now(UTC):%Y%m%dT%H%M%S}.json"
    found = sorted(folder.glob(f"{options.target}-*.json"))
    if not found:
        raise UsageError("no earlier results to continue from", where=folder, next_step="leave out --resume")
    return found[-1]


def _mode(text: str) -> str:
    if text not in MODES:
        raise argparse.ArgumentTypeError(f"{text!r} is not a mode; there are {', '.join(MODES)}")
    return text


def _caps(text: str) -> list[str]:
    caps = [part.strip() for part in text.split(",") if part.strip()]
    try:
        return sorted(caps, key=parse_size)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _whole(text: str) -> int:
    if not (text.isdecimal() and int(text) > 0):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above zero")
    return int(text)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="bench",
        description=(__doc__ or "").partition("\n\n")[2],
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("modes", nargs="*", metavar="MODE", type=_mode, help=f"of {', '.join(MODES)}; all of them if not given")
    add("--target", default="x86", help="target id")
    add("--source", help="vLLM version, or the path of a tree (default: matrix.yaml)")
    add("--memory", type=_caps, default=CAPS, help=f"memory caps to test (default: {CAPS})")
    add("--repeat", type=_whole, default=1, help="runs of each step; times are medians, peaks the largest")
    add("--kernel", default=KERNEL, help=f"C++ file to change (default: {KERNEL})")
    add("--python", default=PYTHON, help=f"Python file to change (default: {PYTHON})")
    add("--json", type=Path, help="results (default: a new file in dist/bench); drawings get the same name")
    add("--resume", action="store_true", help="run only what those results, or the latest ones, do not have")
    add("--require", action="store_true", help="exit with 1 if a target is missed")
    add("--root", type=Path, default=_ROOT, help="the project's folder")
    add("--work", type=Path, default=default_root() / "bench", help="where to build (default: bench in the stores)")
    return parser
