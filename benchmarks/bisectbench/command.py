"""The benchmark of bisections.

Makes a repository of vLLM's releases with small commits between them, plants a fault in a kernel and one in a Python
file, and looks for both with ``cpuwheels bisect`` and with ``git bisect run``, which builds each commit with upstream's
CMake project as it is and a compiler cache. Each search is run twice: with the caches as they are (empty in a new
--work), then with what that left.
"""

from __future__ import annotations

import argparse
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from buildbench.setting import prepared

from bisectbench.history import AT, make_history
from bisectbench.results import TARGET, Results, as_text, wrong
from bisectbench.sides import KEPT, Ours, Theirs, upstream_workspace
from bisectbench.simulation import simulated
from cpuwheels.config.installation import version_text
from cpuwheels.config.matrix import load_matrix
from cpuwheels.core.console import Reporter
from cpuwheels.core.errors import BisectError, CpuwheelsError, StoppedError
from cpuwheels.core.filesystem import storage_errors, write_atomic
from cpuwheels.core.progress import clock
from cpuwheels.core.store import Store, default_root
from cpuwheels.source.request import request_source

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bisectbench.history import Fault

RELEASES = "0.28.0,0.29.0,0.30.0,0.31.0,0.32.0"
_ROOT = Path(__file__).parents[2]


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the benchmark and exit: 0, 1 for a missed target with ``--require``, or the code of the error's class."""
    options = _parser().parse_args(arguments)
    reporter = Reporter("bench")
    try:
        if options.simulate:
            print(simulated(Results.model_validate_json(options.simulate.read_bytes()), seed=options.seed))
            sys.exit(0)
        with storage_errors(options.work):
            results = _run(options, reporter)
    except CpuwheelsError as error:
        reporter.info(f"error: {error}")
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        reporter.info("stopped; the caches keep what was compiled: the same command with --json and --resume goes on")
        sys.exit(StoppedError.exit_code)
    print(as_text(results))
    missed = max(results.ratios(warm=True).values(), default=0) > TARGET
    sys.exit(1 if missed and options.require else 0)


def _run(options: argparse.Namespace, reporter: Reporter) -> Results:
    releases = options.releases.split(",")
    path = options.json or options.root / "dist" / "bench" / f"bisect-{datetime.now(UTC):%Y%m%dT%H%M%S}.json"
    kept = any((options.work / name).exists() for name in KEPT)
    with prepared(options.root, options.work, options.target, releases[-1], reporter) as setting:
        matrix, store = load_matrix(options.root), Store(default_root())
        trees = {version: request_source(version, None, matrix).get(store, reporter).folder for version in releases}
        workspace = upstream_workspace(setting)
        history = make_history(workspace.source, trees, between=options.between, kernels_every=options.kernels_every)
        results = Results(
            machine=setting.machine,
            began=datetime.now(UTC).isoformat(timespec="seconds"),
            releases=releases,
            commits=len(history.commits),
            kernel_changes=len(history.kernel_changes),
            caches="of an earlier run" if kept else "empty",
        )
        good = options.good or f"v{releases[0]}"
        faults: list[Fault] = [options.fault] if options.fault else list(AT)
        if options.resume and path.is_file():
            results = results.resumed(Results.model_validate_json(path.read_bytes()), path)
        sides = (Theirs(setting, history, workspace), Ours(setting, history))
        todo = [(warm, fault, side) for warm in (False, True) for fault in faults for side in sides]
        for warm, fault, side in todo:
            if results.has(fault, side.name, warm=warm):
                continue
            run = side.bisect(fault, good).model_copy(update={"project": version_text()})
            results = results.with_run(run, warm=warm)
            with storage_errors(path):
                path.parent.mkdir(parents=True, exist_ok=True)
                write_atomic(path, results.model_dump_json(indent=1) + "\n")
            reporter.info(f"{fault} fault by {side.name}, {'warm' if warm else 'first'}: {clock(run.wall)}")
        if odd := wrong(results, history.first_bad):
            raise BisectError(
                f"{odd[0].side} found {odd[0].first_bad} for the {odd[0].fault} fault, which came with "
                f"{history.first_bad[odd[0].fault]}",
                where=path,
                next_step="read the logs below --work",
            )
    print(f"written: {path}")
    return results


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="bench bisect",
        description=(__doc__ or "").partition("\n\n")[2],
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--target", default="x86", help="target id")
    add("--releases", default=RELEASES, help=f"versions that matrix.yaml pins (default: {RELEASES})")
    add("--between", type=int, default=40, help="commits after each release (default: 40)")
    add("--kernels-every", type=int, default=10, help="one commit of so many changes a kernel (default: 10)")
    add("--good", help="the good end (default: the first release)")
    add("--fault", choices=list(AT), help="look for this fault alone")
    add("--json", type=Path, help="results (default: a new file in dist/bench)")
    add("--resume", action="store_true", help="run only what the results of --json do not have")
    add("--simulate", type=Path, metavar="RESULTS", help="only simulate longer ranges, with the costs of these results")
    add("--seed", type=int, default=1, help="of the simulation")
    add("--require", action="store_true", help="exit with 1 if the target is missed")
    add("--root", type=Path, default=_ROOT, help="the project's folder")
    add("--work", type=Path, default=default_root() / "bench", help="where to build (default: bench in the stores)")
    return parser
