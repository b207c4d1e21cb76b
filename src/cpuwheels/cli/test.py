"""Commands that test a wheel: parity of its kernels, models served from it, its kernels timed, and builds compared."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, Unpack, get_args

import click

from cpuwheels.cli.clean_process import without_credentials
from cpuwheels.cli.folders import pass_paths
from cpuwheels.cli.given_values import WHEEL
from cpuwheels.config.options import FEWEST_ROUNDS, LEAST_RATIO, Level, ParityOptions, Sanitizer, SpeedOptions
from cpuwheels.config.serving_options import ServeLevel, ServeMode, ServeOptions

if TYPE_CHECKING:
    from cpuwheels.config.paths import Paths


class _Parity(TypedDict):
    """The options of parity, as click names them."""

    wheel: Path | None
    level: Level
    operators: tuple[str, ...]
    threads: int | None
    against: Path | None
    out: Path | None
    emulation: bool
    sanitize: Sanitizer | None
    source: str | None


class _Serve(TypedDict):
    """The options of serving, as click names them."""

    wheel: Path | None
    level: ServeLevel
    models: tuple[str, ...]
    dtypes: tuple[str, ...]
    modes: tuple[ServeMode, ...]
    libraries: tuple[str, ...]
    locked: bool
    relock: bool
    out: Path | None


class _Speed(TypedDict):
    """The options of a comparison of speed, as click names them."""

    against: Path
    wheel: Path | None
    library: str | None
    operators: tuple[str, ...]
    rounds: int
    cases: int
    threads: int | None
    least: float
    out: Path | None


@click.command()
@click.argument("target")
@click.option("--wheel", type=WHEEL, help="Any vLLM CPU wheel (default: the newest in dist/).")
@click.option(
    "--level",
    type=click.Choice(get_args(Level)),
    default="full",
    show_default=True,
    help="Few cases, in a minute; all; or also sizes drawn by hypothesis.",
)
@click.option("--operator", "operators", multiple=True, help="Test only this operator; may be repeated.")
@click.option("--threads", type=click.IntRange(min=1), help="Threads of the operators (default: the CPUs there are).")
@click.option(
    "--against", type=WHEEL, help="Another wheel with its parity.json next to it, or that file: print what differs."
)
@click.option("--no-emulation", "emulation", flag_value=False, default=True, help="Test on this machine's CPU alone.")
@click.option("--out", type=click.Path(path_type=Path), help="Folder of the reports (default: next to the wheel).")
@click.option(
    "--sanitize",
    type=click.Choice(["address", "thread"]),
    help="In place of a wheel, test kernels compiled for AddressSanitizer and UBSan, or for ThreadSanitizer.",
)
@click.option("--source", help="With --sanitize: version, path or commit of vLLM, as for build.")
@without_credentials
@pass_paths
def parity(paths: Paths, /, target: str, **options: Unpack[_Parity]) -> None:
    """Install the wheel of TARGET into a clean environment and test every operator of its kernel libraries."""
    from rich.console import Console

    from cpuwheels.config.matrix import load_matrix
    from cpuwheels.core.console import Reporter
    from cpuwheels.core.errors import UsageError
    from cpuwheels.pipeline.dist import newest_wheel
    from cpuwheels.pipeline.report.write import refresh_if_built
    from cpuwheels.pipeline.sanitized import check_sanitized, reports_folder
    from cpuwheels.pipeline.test_wheel import check_wheel
    from cpuwheels.verification.parity.comparison import changes
    from cpuwheels.verification.parity.reports import parity_file, prepare_folder, write_reports
    from cpuwheels.verification.parity.results import read_parity, require_parity
    from cpuwheels.verification.parity.table import change_table, parity_table

    chosen = ParityOptions(**options)
    if chosen.source and not chosen.sanitize:
        raise UsageError(
            "only kernels for sanitizers are compiled by this command",
            where="--source",
            next_step="name a wheel with --wheel, or add --sanitize",
        )
    reporter, console = Reporter(target), Console()
    other = read_parity(parity_file(chosen.against)) if chosen.against else None
    if chosen.sanitize:
        folder = chosen.out or reports_folder(paths, target, chosen.sanitize)
        found = check_sanitized(paths, load_matrix(paths.matrix), target, chosen.sanitize, chosen, reporter)
        reports = write_reports(folder, found)
    else:
        wheel = chosen.wheel or newest_wheel(paths, target)
        folder = prepare_folder(chosen.out, wheel)
        found = check_wheel(paths, load_matrix(paths.matrix), target, wheel, chosen, reporter)
        reports = write_reports(folder, found)
        refresh_if_built(wheel)
    parity_table(found).print(console)
    for place in found.findings:
        console.print(str(place), markup=False, soft_wrap=True)
    if other:
        if differences := changes(other, found):
            change_table(differences, other.wheel).print(console)
        else:
            console.print(f"Nothing changed since {other.wheel}.", soft_wrap=True, markup=False)
    for gap in found.gaps:
        reporter.info(gap)
    reporter.info(f"{found.judgement}: {found.tried}")
    reporter.info(f"reports: {', '.join(str(path) for path in reports)}")
    require_parity(found, reports)


@click.command()
@click.argument("target")
@click.option("--wheel", type=WHEEL, help="Any vLLM CPU wheel (default: the newest in dist/).")
@click.option(
    "--level",
    type=click.Choice(["smoke", "full"]),
    default="smoke",
    show_default=True,
    help="Two models in bfloat16, in minutes; or all in all ways, in an hour or more.",
)
@click.option(
    "--model",
    "models",
    multiple=True,
    help="A small model that is made on the spot, or a model's folder; may be repeated (default: the level's).",
)
@click.option(
    "--dtype",
    "dtypes",
    multiple=True,
    type=click.Choice(["float32", "bfloat16", "float16"]),
    help="Data type; may be repeated (default: the level's).",
)
@click.option(
    "--mode",
    "modes",
    multiple=True,
    type=click.Choice(["eager", "compile"]),
    help="Whether torch.compile makes code of the models; may be repeated (default: the level's).",
)
@click.option(
    "--library",
    "libraries",
    multiple=True,
    help="Kernel library that vLLM has to load; may be repeated (default: the one it chooses itself; at level full "
    "each).",
)
@click.option("--locked", is_flag=True, help="Refuse requirements that no lock of the project has.")
@click.option("--relock", is_flag=True, help="Resolve the requirements anew and write the project's lock.")
@click.option("--out", type=click.Path(path_type=Path), help="Folder of serve.json (default: next to the wheel).")
@without_credentials
@pass_paths
def serve(paths: Paths, /, target: str, **options: Unpack[_Serve]) -> None:
    """Serve small models from TARGET's wheel and compare the answers with Hugging Face transformers'."""
    from rich.console import Console

    from cpuwheels.config.matrix import load_matrix
    from cpuwheels.core.console import Reporter
    from cpuwheels.core.filesystem import storage_errors
    from cpuwheels.pipeline.dist import newest_wheel
    from cpuwheels.pipeline.report.write import refresh_if_built
    from cpuwheels.pipeline.serve_wheel import serve_wheel
    from cpuwheels.verification.parity.reports import prepare_folder, write_files
    from cpuwheels.verification.serving.result import SERVE, require_served

    chosen = ServeOptions(**options)
    if chosen.relock:
        paths.require_checkout("serve --relock")
    reporter, wheel = Reporter(target), chosen.wheel or newest_wheel(paths, target)
    folder = prepare_folder(chosen.out, wheel)
    with storage_errors(folder):
        (folder / SERVE).unlink(missing_ok=True)  # of another run, not of this one
    refresh_if_built(wheel)
    served, logs = serve_wheel(paths, load_matrix(paths.matrix), target, wheel, chosen, reporter)
    (report,) = write_files(folder, {SERVE: served.as_text()})
    refresh_if_built(wheel)
    served.as_table().print(Console())
    reporter.info(f"report: {report}")
    require_served(served, report, logs)


@click.command("kernel-bench")
@click.argument("target")
@click.option("--against", type=WHEEL, required=True, help="The wheel to compare with.")
@click.option("--wheel", type=WHEEL, help="The wheel (default: the newest in dist/).")
@click.option("--library", help="Kernel library to time (default: the first that this CPU runs).")
@click.option("--operator", "operators", multiple=True, help="Time only this operator; may be repeated.")
@click.option(
    "--rounds", type=click.IntRange(min=FEWEST_ROUNDS), default=9, show_default=True, help="Starts of both sides."
)
@click.option("--cases", type=click.IntRange(min=1), default=2, show_default=True, help="Of each operator and type.")
@click.option("--threads", type=click.IntRange(min=1), help="Threads of the operators (default: the CPUs there are).")
@click.option(
    "--least", type=click.FloatRange(min=0), default=LEAST_RATIO, show_default=True, help="Smallest ratio that passes."
)
@click.option("--out", type=click.Path(path_type=Path), help="Folder of speed.json (default: next to the wheel).")
@without_credentials
@pass_paths
def kernel_bench(paths: Paths, /, target: str, **options: Unpack[_Speed]) -> None:
    """Time the kernels of TARGET's wheel and of another in turn."""
    from rich.console import Console

    from cpuwheels.config.matrix import load_matrix
    from cpuwheels.core.console import Reporter
    from cpuwheels.core.errors import SlowerError
    from cpuwheels.pipeline.dist import newest_wheel
    from cpuwheels.pipeline.test_wheel import compare_speed
    from cpuwheels.verification.benchmark.result import SPEED
    from cpuwheels.verification.parity.reports import prepare_folder, write_files

    chosen = SpeedOptions(**options)
    reporter, wheel = Reporter(target), chosen.wheel or newest_wheel(paths, target)
    folder = prepare_folder(chosen.out, wheel)
    result = compare_speed(paths, load_matrix(paths.matrix), target, wheel, chosen, reporter)
    (report,) = write_files(folder, {SPEED: result.as_text()})
    result.as_table(chosen.least).print(Console())
    for line in result.as_lines():
        reporter.info(line)
    reporter.info(f"report: {report}")
    if slower := result.slower(chosen.least):
        names = ", ".join(speed.operator for speed in slower)
        raise SlowerError(
            f"slower than {chosen.least:g} times {chosen.against.name}: {names}",
            where=report,
            next_step="run it again with more --rounds, and nothing else running, before you believe it",
        )


@click.command()
@click.argument("before", type=click.Path(path_type=Path))
@click.argument("after", type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), help="Folder of the reports (default: next to AFTER's wheel).")
def compare(before: Path, after: Path, out: Path | None) -> None:
    """Compare two builds, each a wheel or the folder of a build.

    Exits with 0 if nothing differs, and with 1 if something does, like diff.
    """
    from rich.console import Console

    from cpuwheels.pipeline.comparison.compare import compare as compare_sides
    from cpuwheels.pipeline.comparison.reports import comparison_table, write_comparison
    from cpuwheels.pipeline.comparison.side import read_side

    one, other = read_side(before), read_side(after)
    comparison = compare_sides(one, other)
    reports = write_comparison(out or other.wheel.parent, comparison)
    console = Console(highlight=False)
    for side, wheel in (("before", comparison.before.wheel), ("after", comparison.after.wheel)):
        console.print(f"{side:7}{wheel}", markup=False, soft_wrap=True)
    comparison_table(comparison).print(console)
    notes = Console(stderr=True, highlight=False, soft_wrap=True)
    for part, why in comparison.not_compared.items():
        notes.print(f"not compared: {part}: {why}", markup=False)
    notes.print(f"reports: {', '.join(str(path) for path in reports)}", markup=False)
    sys.exit(0 if comparison.same else 1)
