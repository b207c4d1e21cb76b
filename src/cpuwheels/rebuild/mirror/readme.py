"""``README.md`` of a mirror: what it is, and how a wheel is built from it in ten years."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cpuwheels.core.units import format_size

if TYPE_CHECKING:
    from cpuwheels.rebuild.mirror.manifest import Manifest

README = "README.md"

_TEXT = """\
# What these wheels are built from

{wheels}
This folder has the source of vLLM, the libraries in the wheels, the compiler and the system that it compiles for, the
build tools, torch, and cpuwheels itself with what runs it: {files} files, {size}. Each file lies below its SHA-256 in
`files/`; `manifest.json` lists them. The folder may be copied to any place. What it does not have is the machine:
Linux on the same kind of processor, Python 3.11 or newer, git, and user namespaces.

## Building a wheel again, without a network

MIRROR is this folder. Take cpuwheels from the bundle, if you have no copy that you trust more:

    git clone MIRROR/git/{bundle} cpuwheels
    cd cpuwheels

Install what runs it, from here:

    python3 -m venv .venv
    .venv/bin/pip install --index-url file://MIRROR/simple --only-binary :all: --require-hashes -r locks/run.txt

and build:

    PYTHONPATH=src .venv/bin/python -m cpuwheels rebuild MIRROR/files/SHA256/WHEEL.whl --mirror MIRROR

The network is closed for the build. `docs/rebuild.md` of cpuwheels says what is compared and what is trusted.

## Checking the files

    cd files && for one in */; do (cd "$one" && sha256sum *); done

Each digest has to be the name of its folder; files next to a wheel, such as its provenance, are about that wheel.
"""


def readme_text(manifest: Manifest) -> str:
    """Return the text."""
    bundle = next((clone.name for clone in manifest.clones if clone.kind == "cpuwheels"), "cpuwheels.bundle")
    wheels = "".join(
        f"- `{one.name}`: target {one.target}, source {one.source}, cpuwheels {one.program}\n"
        for one in manifest.wheels
    )
    size = format_size(sum(one.size for one in manifest.files))
    return _TEXT.format(wheels=wheels, files=len(manifest.files), size=size, bundle=bundle)
