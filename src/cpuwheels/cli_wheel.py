"""The command line of what is done with a wheel: kernels checked, models served, kernels timed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, Unpack

import click

from cpuwheels import commands
from cpuwheels.options import Level, ParityOptions, ServeOptions, SpeedOptions
from cpuwheels.speed.ratio import FEWEST, LEAST

if TYPE_CHECKING:
    from cpuwheels.config import Places


class _Parity(TypedDict):
    """The options of parity, as click names them."""

    wheel: Path | None
    level: Level
    operators: tuple[str, ...]
    threads: int | None
    compare: Path | None
    out: Path | None
    emulation: bool


class _Serve(TypedDict):
    """The options of serving, as click names them."""

    wheel: Path | None
    models: tuple[str, ...]
    dtypes: tuple[str, ...]
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
@click.option("--wheel", type=click.Path(path_type=Path), help="Any vLLM CPU wheel (default: the newest in dist/).")
@click.option("--smoke", "level", flag_value="smoke", type=str, help="Few cases: a minute.")
@click.option("--deep", "level", flag_value="deep", type=str, help="Also sizes drawn by hypothesis.")
@click.option("--operator", "operators", multiple=True, help="Try only this operator; may be repeated.")
@click.option("--threads", type=click.IntRange(min=1), help="Threads of the operators (default: the CPUs there are).")
@click.option("--compare", type=click.Path(path_type=Path), help="parity.json of another wheel: say what changed.")
@click.option("--no-emulation", "emulation", flag_value=False, default=True, help="Try no CPU that this machine lacks.")
@click.option("--out", type=click.Path(path_type=Path), help="Folder of the reports (default: beside the wheel).")
@click.pass_obj
def check(places: Places, /, target: str, **options: Unpack[_Parity]) -> None:
    """Install the wheel of TARGET into a clean environment and try every operator of its kernel libraries."""
    options["level"] = options["level"] or "full"
    commands.check(places, target, ParityOptions(**options))


@click.command()
@click.argument("target")
@click.option("--wheel", type=click.Path(path_type=Path), help="Any vLLM CPU wheel (default: the newest in dist/).")
@click.option(
    "--model",
    "models",
    multiple=True,
    default=("opt", "qwen3"),
    show_default=True,
    help="A small model that is made on the spot, or the folder of one; may be repeated.",
)
@click.option(
    "--dtype",
    "dtypes",
    multiple=True,
    type=click.Choice(["float32", "bfloat16", "float16"]),
    default=("float32", "bfloat16"),
    show_default=True,
    help="Data type; may be repeated.",
)
@click.option(
    "--library",
    "libraries",
    multiple=True,
    help="Kernel library that vLLM is made to take; may be repeated (default: the one it chooses itself).",
)
@click.option("--locked", is_flag=True, help="Refuse requirements that no lock of the project has.")
@click.option("--relock", is_flag=True, help="Resolve the requirements anew and write the project's lock.")
@click.option("--out", type=click.Path(path_type=Path), help="Folder of serve.json (default: next to the wheel).")
@click.pass_obj
def serve(places: Places, /, target: str, **options: Unpack[_Serve]) -> None:
    """Serve small models from TARGET's wheel and compare the answers with Hugging Face transformers'."""
    commands.serve(places, target, ServeOptions(**options))


@click.command("kernel-bench")
@click.argument("target")
@click.option("--against", type=click.Path(path_type=Path), required=True, help="The wheel to compare with.")
@click.option("--wheel", type=click.Path(path_type=Path), help="The wheel (default: the newest in dist/).")
@click.option("--library", help="Kernel library to time (default: the first that this CPU runs).")
@click.option("--operator", "operators", multiple=True, help="Time only this operator; may be repeated.")
@click.option("--rounds", type=click.IntRange(min=FEWEST), default=9, show_default=True, help="Starts of both sides.")
@click.option("--cases", type=click.IntRange(min=1), default=2, show_default=True, help="Of each operator and type.")
@click.option("--threads", type=click.IntRange(min=1), help="Threads of the operators (default: the CPUs there are).")
@click.option(
    "--least", type=click.FloatRange(min=0), default=LEAST, show_default=True, help="Smallest ratio that passes."
)
@click.option("--out", type=click.Path(path_type=Path), help="Folder of speed.json (default: beside the wheel).")
@click.pass_obj
def kernel_bench(places: Places, /, target: str, **options: Unpack[_Speed]) -> None:
    """Time the kernels of TARGET's wheel and of another in turn."""
    commands.kernel_bench(places, target, SpeedOptions(**options))
