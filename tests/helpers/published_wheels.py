"""A wheel as a stranger finds it: a note in it, and the statement of its build next to it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from cpuwheels.config.downloads import Download
from cpuwheels.core.digests import file_digest
from cpuwheels.pipeline.slsa import SUFFIX
from recorded_wheel import write_build
from small_wheels import write_wheel
from wheel_notes import wheel_note

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

COMMIT, CODE, MATRIX = "c" * 40, "d" * 64, "e" * 64
SDIST = "5" * 64
TAG = "cp38-abi3-manylinux_2_27_x86_64"
PACKAGE = {"name": "gcc", "version": "15", "file": "gcc_15_amd64.deb", "sha256": "9" * 64}

PROGRAM = (
    Download(stage="cpuwheels", name="cpuwheels", version="1.2", digest={"gitCommit": COMMIT}, key=CODE, uri="pkg:a/b"),
    Download(stage="cpuwheels", name="matrix.yaml", digest={"sha256": MATRIX}),
)
PINNED = (
    Download(stage="source", name="vllm", version="0.32.0", digest={"sha256": SDIST}),
    Download(stage="toolchain", name="gcc", version="15", digest={"sha256": "9" * 64}),
    *PROGRAM,
)


def published_note(**changes: object) -> dict[str, Any]:
    """Return the facts of a wheel of a release that Debian's compiler built."""
    return {
        "source": {"version": "0.32.0", "digest": SDIST, "epoch": 5, "sdist": True},
        "toolchain": {"version": "GNU 15", "digest": "t", "packages": [PACKAGE]},
        **changes,
    }


def published_wheel(
    folder: Path,
    *,
    facts: Mapping[str, Any] | None = None,
    asked: Mapping[str, Any] | None = None,
    dependencies: Sequence[Download] = PINNED,
    files: Mapping[str, str] | None = None,
    version: str = "0.32.0+cpu",
) -> Path:
    """Write the wheel with its note, and next to it what a build leaves; keywords replace parts of it."""
    given = published_note() | dict(facts or {})
    note = wheel_note(**given).render().decode()
    members = {"vllm/__init__.py": "1\n", **(files or {}), f"vllm-{version}.dist-info/cpuwheels.json": note}
    made = write_wheel(folder, "vllm", version, members, tag=TAG)
    return write_build(folder, there=made, version=version, facts=given, asked=asked, dependencies=dependencies)


def changed_statement(wheel: Path, **parameters: object) -> None:
    """Give the statement next to a wheel other parameters; with None one is left out."""
    path = wheel.with_name(f"{wheel.name}{SUFFIX}")
    data = json.loads(path.read_text())
    asked = data["predicate"]["buildDefinition"]["externalParameters"]
    for name, value in parameters.items():
        asked[name] = value
        if value is None:
            del asked[name]
    path.write_text(json.dumps(data))


def digest_of(wheel: Path) -> str:
    """Return a wheel's digest."""
    return file_digest(wheel)
