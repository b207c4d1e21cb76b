"""Which requirements a package index has wheels of for a machine, this one or another."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import unquote

from packaging.markers import Marker
from packaging.tags import compatible_tags, cpython_tags
from packaging.utils import InvalidWheelFilename, parse_wheel_filename

from cpuwheels.core.parse import parse_toml
from cpuwheels.fetch.uv import compile_requirements

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from packaging.tags import Tag

_OLDEST = 17
"""Of the manylinux platforms 2_17 is the oldest with a number."""


def missing_wheels(
    wanted: Sequence[str], without: Sequence[str], files: Path, *, about: Mapping[str, str], glibc: int, log: Path
) -> list[str]:
    """Return what some requirements need that has no wheel for a Linux machine, with versions.

    uv resolves them for all machines at once, with the files of each: it knows no platform for every machine.

    Args:
        wanted: The requirements (PEP 508).
        without: Names of packages that are not looked for.
        files: The ``pylock.toml`` to write.
        about: The machine's environment, as PEP 508 has it.
        glibc: Of its C library: 36 for 2.36.
        log: uv's output.

    Raises:
        BuildEnvironmentError: They cannot be resolved.
    """
    python = about["python_version"]
    options = ["--universal", "--format", "pylock.toml"]
    compile_requirements(wanted, without, files, python=python, options=options, log=log)
    tags = machine_tags(about["platform_machine"], python, glibc)
    return without_wheels(files.read_text(encoding="utf-8"), about, tags)


def without_wheels(pylock: str, about: Mapping[str, str], tags: Iterable[Tag]) -> list[str]:
    """Return the packages of a ``pylock.toml`` (PEP 751) that have no wheel for a machine, with their versions.

    Args:
        pylock: Its text.
        about: The machine's environment, as PEP 508 has it.
        tags: Of the wheels that it can install.
    """
    accepted = frozenset(tags)
    found = []
    for package in parse_toml(pylock, "pylock.toml").get("packages", []):
        if "marker" in package and not Marker(package["marker"]).evaluate(dict(about)):
            continue
        names = [one.get("name") or unquote(one["url"].rsplit("/", 1)[-1]) for one in package.get("wheels", [])]
        if not any(_tags(name) & accepted for name in names):
            found.append(f"{package['name']}=={package['version']}")
    return sorted(found)


def machine_tags(machine: str, python: str, glibc: int) -> frozenset[Tag]:
    """Return the tags of the wheels that a machine's Python installs.

    Args:
        machine: As the kernel names it.
        python: Such as ``3.11``.
        glibc: 36 for 2.36.
    """
    major, minor = (int(part) for part in python.split("."))
    numbers = range(glibc, _OLDEST - 1, -1)
    platforms = [*(f"manylinux_2_{number}_{machine}" for number in numbers), f"manylinux2014_{machine}"]
    platforms += [f"manylinux2010_{machine}", f"manylinux1_{machine}", f"linux_{machine}"]
    interpreter = f"cp{major}{minor}"
    return frozenset(cpython_tags((major, minor), platforms=platforms)) | frozenset(
        compatible_tags((major, minor), interpreter, platforms)
    )


def _tags(name: str) -> frozenset[Tag]:
    try:
        return parse_wheel_filename(name)[3]
    except InvalidWheelFilename:
        return frozenset()
