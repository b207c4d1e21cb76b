"""The command that keeps all that published wheels are built from."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Unpack

import click

from cpuwheels.cli.clean_process import without_credentials
from cpuwheels.cli.folders import pass_paths
from cpuwheels.cli.published_wheel import WheelOptions, choice_of, index_of, target_of, wheel_options

if TYPE_CHECKING:
    from cpuwheels.config.paths import Paths

_PATH = click.Path(path_type=Path)


@click.command()
@click.argument("folder", type=_PATH)
@click.argument("wheels", nargs=-1, required=True, metavar="WHEEL...")
@wheel_options
@without_credentials
@pass_paths
def mirror(paths: Paths, /, folder: Path, wheels: tuple[str, ...], **given: Unpack[WheelOptions]) -> None:
    """Keep all that WHEELs are built from in FOLDER, so that they can be built without a network.

    Each WHEEL is a file, the address of one or of a page of an index, or with --index a version or a commit of vLLM.
    """
    from cpuwheels.config.matrix import load_matrix
    from cpuwheels.core.console import Reporter
    from cpuwheels.core.text import counted
    from cpuwheels.core.units import format_size
    from cpuwheels.rebuild.mirror.keep import keep_wheels

    matrix, reporter = load_matrix(paths.matrix), Reporter("mirror")
    place = folder.expanduser().resolve()
    with index_of(given) as index:
        choices = [choice_of(wheel, index, given) for wheel in wheels]
        kept = keep_wheels(paths, matrix, target_of(matrix, given["target"]), place, choices, reporter)
    size = format_size(sum(one.size for one in kept.files))
    reporter.info(f"{counted(len(kept.files), 'file')}, {size}, for {counted(len(kept.wheels), 'wheel')}")
    print(place)
