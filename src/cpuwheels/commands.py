"""What each command does, in terms of the stages."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from cpuwheels import pipeline, trials
from cpuwheels.bisect.report import probe_table, write_bisection
from cpuwheels.bisect.session import run_bisection
from cpuwheels.closing import closing_lines
from cpuwheels.console import Reporter
from cpuwheels.debian.lock import relock
from cpuwheels.debian.mirrors import mirrors
from cpuwheels.develop import develop as install_checkout
from cpuwheels.doctor import check as check_report
from cpuwheels.doctor.diagnose import default_target
from cpuwheels.doctor.diagnose import diagnose as doctor
from cpuwheels.errors import SlowerError
from cpuwheels.model.matrix import load_matrix
from cpuwheels.output import newest_wheel
from cpuwheels.parity.comparison import changes
from cpuwheels.parity.files import write_files, write_reports
from cpuwheels.parity.results import read_parity, require_parity
from cpuwheels.parity.table import change_table, parity_table
from cpuwheels.platforms import is_foreign
from cpuwheels.reference import write_reference
from cpuwheels.serve.result import SERVE, require_served
from cpuwheels.serve.run import serve_wheel
from cpuwheels.speed.result import SPEED
from cpuwheels.storage import storage_errors
from cpuwheels.store import MOVABLE, Store
from cpuwheels.verify import require_identical

if TYPE_CHECKING:
    from cpuwheels.config import Places
    from cpuwheels.finished import Finished
    from cpuwheels.options import BisectOptions, BuildOptions, ParityOptions, ServeOptions, SpeedOptions


def build(places: Places, target: str, options: BuildOptions, *, closing: bool = True) -> Finished:
    """Build the wheel of a target and say where it is.

    Args:
        places: Folders to read and write.
        target: Target id.
        options: What the user chose.
        closing: Whether it is also said how the wheel is installed and what can be done next.
    """
    reporter, matrix = Reporter(target), load_matrix(places.root)
    finished = pipeline.build(places, matrix, target, options, reporter)
    reporter.info(f"sha256 {finished.sha256}")
    reporter.info(f"needs no more than {', '.join(finished.versions)}: {finished.policy}")
    print(finished.path, flush=True)
    if closing:
        wanted = matrix.target(target)
        reporter.closing(
            closing_lines(
                finished, wanted, reporter.announcements, foreign=is_foreign(wanted), here=Path.cwd(),
                width=reporter.console.width,
            )
        )  # fmt: skip
    return finished


def schema(places: Places, *, only_check: bool) -> None:
    """Write what is generated from the models, or check that it is up to date."""
    for path in write_reference(places.root, load_matrix(places.root), only_check=only_check):
        print(f"written: {path.relative_to(places.root)}")


def lock(places: Places) -> None:
    """Resolve every Debian lock anew."""
    places_to_ask = mirrors(load_matrix(places.root).debian.mirrors, os.environ)
    for path in sorted((places.root / "locks").glob("*.yaml")):
        found = relock(path, places_to_ask)
        print(f"{path.name}: {len(found.packages)} packages")


def check(places: Places, target: str, options: ParityOptions) -> None:
    """Try the kernels of a wheel, write the reports and show them.

    Raises:
        ParityError: A result is wrong, or an operator has no case.
    """
    reporter, console = Reporter(target), Console()
    other = read_parity(options.compare) if options.compare else None
    wheel = options.wheel or newest_wheel(places, target)
    parity = trials.check_wheel(places, load_matrix(places.root), target, wheel, options, reporter)
    reports = write_reports(options.out or wheel.parent, parity)
    console.print(parity_table(parity))
    if other:
        found = changes(other, parity)
        console.print(change_table(found, other.wheel) if found else f"Nothing changed since {other.wheel}.")
    reporter.info(f"reports: {', '.join(str(path) for path in reports)}")
    require_parity(parity, reports)


def serve(places: Places, target: str, options: ServeOptions) -> None:
    """Serve small models from a wheel, write ``serve.json`` and show it.

    Raises:
        ServeError: The server does not start, or an answer is wrong.
    """
    reporter, wheel = Reporter(target), options.wheel or newest_wheel(places, target)
    folder = options.out or wheel.parent
    with storage_errors(folder):
        (folder / SERVE).unlink(missing_ok=True)  # of another run: what it says is not what this one finds
    served, logs = serve_wheel(places, load_matrix(places.root), target, wheel, options, reporter)
    (report,) = write_files(folder, {SERVE: served.model_dump_json(indent=1) + "\n"})
    Console().print(served.as_table())
    reporter.info(f"report: {report}")
    require_served(served, report, logs)


def kernel_bench(places: Places, target: str, options: SpeedOptions) -> None:
    """Time a wheel's kernels against another's, write ``speed.json`` and show it.

    Raises:
        SlowerError: An operator is slower than it may be.
    """
    reporter, wheel = Reporter(target), options.wheel or newest_wheel(places, target)
    result = trials.compare_speed(places, load_matrix(places.root), target, wheel, options, reporter)
    (report,) = write_files(options.out or wheel.parent, {SPEED: result.as_text()})
    Console().print(result.as_table(options.least))
    for line in result.as_lines():
        reporter.info(line)
    reporter.info(f"report: {report}")
    if slower := result.slower(options.least):
        names = ", ".join(speed.operator for speed in slower)
        raise SlowerError(
            f"slower than {options.least:g} times {options.against.name}: {names}",
            where=report,
            next_step="run it again with more --rounds, and nothing else running, before you believe it",
        )


def bisect(places: Places, target: str | None, options: BisectOptions) -> None:
    """Find the commit that made a target's wheel bad, write the reports and show them."""
    matrix = load_matrix(places.root)
    name = target or default_target(matrix).id
    reporter, console = Reporter(name), Console()
    outcome = run_bisection(places, matrix, name, options, reporter)
    reports = write_bisection(outcome)
    console.print(probe_table(outcome))
    for line in outcome.as_lines():
        console.print(line, highlight=False, soft_wrap=True, markup=False)
    reporter.info(f"reports: {', '.join(str(path) for path in reports)}")


def develop(
    places: Places,
    target: str | None,
    checkout: Path,
    options: BuildOptions,
    *,
    python: Path | None,
    requirements: bool,
) -> None:
    """Install a checkout editable, and say how to use it."""
    matrix = load_matrix(places.root)
    name = target or default_target(matrix).id
    reporter = Reporter(name)
    used = install_checkout(places, matrix, name, checkout, options, reporter, python=python, requirements=requirements)
    reporter.info(f"{checkout} is installed; Python files are used where they are")
    print(used)


def diagnose(places: Places, target: str | None, *, as_json: bool) -> int:
    """Check what a build needs, print the checks, and return the exit code: 1 if a build cannot succeed."""
    matrix = load_matrix(places.root)
    wanted = matrix.buildable(target) if target else default_target(matrix)
    checks = doctor(places, matrix, wanted)
    if as_json:
        print(check_report.as_json(wanted.id, checks))
    else:
        Console().print(check_report.as_table(wanted.id, checks))
    return check_report.exit_code(checks)


def verify(places: Places, target: str, options: BuildOptions) -> None:
    """Build a target twice and compare the wheels byte by byte.

    The second build starts with empty stores in another folder, so every stage runs again; it has another
    time zone, locale, umask and job count, and compiles every file itself. Only what was downloaded is shared.

    Raises:
        ReproducibilityError: The wheels differ.
    """
    first = build(places, target, options, closing=False)
    reporter = Reporter(target)
    with tempfile.TemporaryDirectory(prefix="verify-", dir=places.cache) as name:
        again = Path(name)
        Store(places.cache).share(MOVABLE, again / "other cache")
        jobs = "1" if options.jobs != "1" else "2"
        second_options = replace(options, jobs=jobs, compiler_cache="off")
        command = [
            sys.executable, "-m", "cpuwheels", "--root", places.root, "--cache", again / "other cache",
            "--dist", again / "other dist", "build", target, "--no-closing", *second_options.as_arguments(),
        ]  # fmt: skip
        reporter.info(f"building again in {again}, with --jobs {jobs}")
        env = os.environ | {"TZ": "Pacific/Kiritimati", "LC_ALL": "C", "LANG": "tr_TR.UTF-8"}
        done = subprocess.run(
            [str(part) for part in command],
            env=env,
            umask=0o077,
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            sys.exit(done.returncode)  # the second build has said why
        second = Path(done.stdout.strip())
        require_identical(first.path, second)
    reporter.info(f"two builds, the same bytes: sha256 {first.sha256}")
