"""The command that writes container images of wheels."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, Unpack

import click

from cpuwheels.cli.clean_process import without_credentials
from cpuwheels.cli.folders import pass_paths
from cpuwheels.cli.given_values import WHEEL
from cpuwheels.config.options import ImageOptions

if TYPE_CHECKING:
    from cpuwheels.config.paths import Paths


class _Image(TypedDict):
    """The options, as click names them."""

    wheels: tuple[Path, ...]
    compiler: bool
    zen: bool
    relock: bool
    locked: bool
    allow_fallbacks: bool
    check: bool
    push: str | None
    out: Path | None


@click.command()
@click.argument("targets", nargs=-1, required=True)
@click.option(
    "--wheel",
    "wheels",
    multiple=True,
    type=WHEEL,
    help="A wheel of each target, in their order (default: the newest in dist/).",
)
@click.option("--compile", "compiler", is_flag=True, help="With a C++ compiler, for torch.compile.")
@click.option("--zen", is_flag=True, help="With AMD's zentorch, if its release is for the wheel's torch.")
@click.option("--relock", is_flag=True, help="Resolve the requirements anew and write the project's lock.")
@click.option("--locked", is_flag=True, help="Refuse a fallback for torch, and a torch that is not pinned by content.")
@click.option("--allow-fallbacks", is_flag=True, help="With --locked: use the fallback for torch that is listed.")
@click.option(
    "--test", "check", is_flag=True, help="Read it with skopeo, unpack it with umoci, and serve a small model from it."
)
@click.option("--push", metavar="REGISTRY/NAME:TAG", help="Push it there.")
@click.option("--out", type=click.Path(path_type=Path), help="Folder of the image (default: next to the wheel).")
@without_credentials(when=lambda options: bool(options["check"]))
@pass_paths
def image(paths: Paths, /, targets: tuple[str, ...], **options: Unpack[_Image]) -> None:
    """Write a container image of the wheel of each of TARGETS; several become one image for several machines."""
    from cpuwheels.config.matrix import load_matrix
    from cpuwheels.core.console import Reporter
    from cpuwheels.core.units import format_size
    from cpuwheels.image.build import ARCHIVE, LAYOUT, build_images

    reporter = Reporter(targets[0])
    written = build_images(paths, load_matrix(paths.matrix), targets, ImageOptions(**options), reporter)
    lines = [f"image  {written.folder / LAYOUT}:{written.tag}", f"       {written.digest}"]
    for name, one in written.images.items():
        sizes = [sum(layer.size for layer in one.layers), sum(layer.unpacked for layer in one.layers)]
        lines.append(f"{name}  {format_size(sizes[0])} to fetch, {format_size(sizes[1])} unpacked")
        lines += [f"         {format_size(layer.size)}  {layer.created_by}" for layer in one.layers]
    if (written.folder / ARCHIVE).exists():
        lines += ["next", f"  docker load -i {written.folder / ARCHIVE}"]
    reporter.summary(lines)
