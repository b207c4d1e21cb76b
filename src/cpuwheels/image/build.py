"""Images of one or several targets: composed, written as layout and archive, checked and pushed as asked."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from packaging.utils import parse_wheel_filename

from cpuwheels.config.host import markers
from cpuwheels.config.options import BuildOptions
from cpuwheels.core.digests import file_digest
from cpuwheels.core.errors import UsageError
from cpuwheels.core.filesystem import remove_tree, storage_errors, write_atomic
from cpuwheels.image.check import read_back, serve, unpack
from cpuwheels.image.compose import compose
from cpuwheels.image.oci import write_docker_archive, write_layout
from cpuwheels.image.push import check_place, push
from cpuwheels.image.tools import Tools
from cpuwheels.pipeline.context import open_context
from cpuwheels.pipeline.dist import newest_wheel
from cpuwheels.wheel.kernel_wheel import Preloads, read_wheel

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from cpuwheels.config.context import BuildContext
    from cpuwheels.config.matrix import Matrix
    from cpuwheels.config.options import ImageOptions
    from cpuwheels.config.paths import Paths
    from cpuwheels.core.console import Reporter
    from cpuwheels.image.contents import Contents
    from cpuwheels.image.oci import Image

NAME = "vllm-cpu"
"""What ``docker load`` calls an image."""

LAYOUT, ARCHIVE, RECORD = "oci", "docker.tar", "image.json"
SBOM = "sbom-{}.cdx.json"
"""Bill of materials of a target's image."""


@dataclass(frozen=True)
class Written:
    """Images in a folder.

    Attributes:
        folder: With the layout, the archive and the record.
        tag: Their name in the layout.
        digest: Of the manifest or index that the tag names.
        images: By target.
        sboms: File name of each bill of materials → SHA-256.
    """

    folder: Path
    tag: str
    digest: str
    images: dict[str, Image]
    sboms: Mapping[str, str]


def build_images(
    paths: Paths, matrix: Matrix, targets: Sequence[str], options: ImageOptions, reporter: Reporter
) -> Written:
    """Write the images of targets' wheels.

    Args:
        paths: Folders to read and write.
        matrix: The configuration.
        targets: Target ids; several become one image for several machines.
        options: What the user chose.
        reporter: Told of every step.

    Raises:
        UsageError: The options do not fit each other.
        CpuwheelsError: A part's own error.
    """
    _check_options(targets, options)
    wheels = options.wheels or tuple(newest_wheel(paths, name) for name in targets)
    build = BuildOptions(locked=options.locked, allow_fallbacks=options.allow_fallbacks)
    contexts = {name: open_context(paths, matrix, matrix.buildable(name), build, reporter) for name in targets}
    images: dict[str, Image] = {}
    contents: dict[str, Contents] = {}
    for (name, context), wheel in zip(contexts.items(), wheels, strict=True):
        with reporter.stage("image", f"layers of {wheel.name} for {name}"):
            images[name], contents[name] = compose(context, wheel, options)
    flavour = _flavour(options)
    folder = options.out or (wheels[0].parent if len(targets) == 1 else paths.dist / "images") / f"image{flavour}"
    # No tag may have a plus.
    tag = str(parse_wheel_filename(wheels[0].name)[1]).replace("+", "-") + flavour
    sboms = _sboms(images, contents)
    written = _write(images, sboms, tag, folder, reporter)
    if options.check:
        for (name, context), wheel in zip(contexts.items(), wheels, strict=True):
            with reporter.stage("check", f"{name}: read by skopeo, unpacked by umoci, run by bubblewrap"):
                _check(context, written, images[name], wheel)
    if options.push:
        with reporter.stage("push", options.push):
            context = next(iter(contexts.values()))
            push(Tools(context), folder / LAYOUT, tag, options.push, os.environ)
    return written


def _check_options(targets: Sequence[str], options: ImageOptions) -> None:
    if len(set(targets)) != len(targets):
        raise UsageError("a target is given twice", where="command line", next_step="give each once")
    if options.wheels and len(options.wheels) != len(targets):
        raise UsageError(
            f"the number of wheels is {len(options.wheels)}, and of targets {len(targets)}",
            where="--wheel",
            next_step="give one for each target, in their order, or none",
        )
    if options.push:
        check_place(options.push)


def _flavour(options: ImageOptions) -> str:
    """Return what is appended to the names of a flavour."""
    return f"{'-zen' if options.zen else ''}{'-compile' if options.compiler else ''}"


def _sboms(images: Mapping[str, Image], contents: Mapping[str, Contents]) -> dict[str, bytes]:
    """Return the bills of materials of images, by the names of their files."""
    # Only here: it brings cyclonedx, which takes as long to import as all the rest.
    from cpuwheels.image.sbom import image_sbom  # noqa: PLC0415

    return {SBOM.format(name): image_sbom(NAME, image, contents[name]) for name, image in images.items()}


def _write(images: dict[str, Image], sboms: Mapping[str, bytes], tag: str, folder: Path, reporter: Reporter) -> Written:
    """Write layout, archive, bills of materials and record; what was there is replaced, the record last."""
    with storage_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / RECORD).unlink(missing_ok=True)
        (folder / ARCHIVE).unlink(missing_ok=True)
        digest = write_layout(list(images.values()), tag, folder / LAYOUT)
        if len(images) == 1:
            image = next(iter(images.values()))
            write_docker_archive(folder / LAYOUT, image, f"{NAME}:{tag}", folder / ARCHIVE)
        for path in folder.glob(SBOM.format("*")):
            path.unlink()
        for name, content in sboms.items():
            write_atomic(folder / name, content)
        written = Written(folder, tag, digest, images, {name: file_digest(folder / name) for name in sboms})
        write_atomic(folder / RECORD, json.dumps(_record(written), indent=1) + "\n")
    reporter.info(f"{digest} in {folder / LAYOUT}")
    return written


def _record(written: Written) -> dict[str, Any]:
    return {
        "tag": written.tag,
        "digest": written.digest,
        "images": {
            name: {
                "platform": image.platform,
                "size": sum(layer.size for layer in image.layers),
                "unpacked": sum(layer.unpacked for layer in image.layers),
                "layers": [
                    {
                        "created_by": layer.created_by,
                        "digest": f"sha256:{layer.digest}",
                        "diff_id": f"sha256:{layer.diff_id}",
                        "size": layer.size,
                        "unpacked": layer.unpacked,
                    }
                    for layer in image.layers
                ],
                "labels": dict(sorted(image.settings.labels.items())),
                "sbom": {"file": SBOM.format(name), "sha256": written.sboms[SBOM.format(name)]},
            }
            for name, image in written.images.items()
        },
    }


def _check(context: BuildContext, written: Written, image: Image, wheel: Path) -> None:
    tools, config, reporter = Tools(context), image.config(), context.reporter
    pins = context.target.image
    preloads = read_wheel(wheel, context.target, markers(context.target, pins.python)).preloads if pins else Preloads()
    with context.store.scratch("image") as work:
        layout = written.folder / LAYOUT
        if len(written.images) > 1:  # umoci and skopeo then choose by the machine that they run on
            layout = work / LAYOUT
            write_layout([image], written.tag, layout)
        archive = written.folder / ARCHIVE
        if not archive.exists():
            archive = work / ARCHIVE
            write_docker_archive(layout, image, f"{NAME}:{written.tag}", archive)
        read_back(tools, layout, written.tag, archive, config)
        root = unpack(tools, layout, written.tag, work / "bundle")
        (work / "run").mkdir()
        found = serve(context, tools, root, json.loads(config)["config"], work / "run", preloads)
        remove_tree(work / "bundle")
    compiled = f", {found.compiled} libraries compiled" if found.compiled else ""
    on = f" on {found.cpu}, emulated," if found.cpu else ""
    loaded = ", ".join((*found.libraries, *found.runtimes))
    reporter.info(f"served{on} after {found.started:g} s with {loaded}{compiled}")
