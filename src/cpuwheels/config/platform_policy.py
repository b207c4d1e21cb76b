"""Platform policies (PEP 600): what a wheel may take from the system, from auditwheel's own table."""

from __future__ import annotations

import importlib.resources
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cpuwheels.core.errors import MatrixError

if TYPE_CHECKING:
    from collections.abc import Mapping

_LOADERS = ("ld-linux", "ld64.so.")


@dataclass(frozen=True)
class Policy:
    """What a wheel of one platform tag may take from the system.

    Attributes:
        name: Such as ``manylinux_2_28_x86_64``.
        priority: Higher means older, that is, stricter.
        versions: Family, such as ``GLIBC`` → its versions that may be needed.
        libraries: Sonames that every system of that policy has.
    """

    name: str
    priority: int
    versions: Mapping[str, frozenset[str]]
    libraries: frozenset[str]

    def forbids(self, node: str) -> bool:
        """Return whether a version node such as ``GLIBC_2.29`` is of a limited family and not allowed.

        Families that the policy does not limit (of bundled libraries, say) are allowed, as in auditwheel.
        """
        family, _, version = node.partition("_")
        return family in self.versions and version not in self.versions[family]

    def has(self, soname: str) -> bool:
        """Return whether every system of the policy has a library; the loader is there by definition."""
        return soname in self.libraries or soname.startswith(_LOADERS)

    @property
    def glibc(self) -> tuple[int, int]:
        """The newest C library that may be needed, such as (2, 28)."""
        numbers = [number for text in self.versions["GLIBC"] if len(number := version_number(text)) > 1]
        major, minor, *_ = max(numbers)
        return major, minor


def load_policy(floor: str, machine: str, *, table: str | None = None) -> Policy:
    """Return the policy of a floor such as ``manylinux_2_28`` on a machine such as ``x86_64``.

    Args:
        floor: A policy's name or one of its aliases.
        machine: As in platform tags.
        table: Text of a ``manylinux-policy.json``; the installed auditwheel's own if not given.

    Raises:
        MatrixError: There is no such policy for the machine.
    """
    names = []
    for row in json.loads(_auditwheels_table() if table is None else table):
        if machine not in row["symbol_versions"]:
            continue
        names.append(row["name"])
        if floor in {row["name"], *row["aliases"]}:
            return Policy(
                name=f"{row['name']}_{machine}",
                priority=row["priority"],
                versions={family: frozenset(found) for family, found in row["symbol_versions"][machine].items()},
                libraries=frozenset(row["lib_whitelist"]),
            )
    raise MatrixError(
        f"there is no platform policy {floor} for {machine}",
        where="matrix.yaml: the target's floor",
        next_step=f"known: {', '.join(names) or 'none for this machine'}",
    )


def version_number(text: str) -> tuple[int, ...]:
    """Return the numbers of a version for comparing, such as (3, 4, 24)."""
    return tuple(int(part) for part in re.findall(r"\d+", text))


def _auditwheels_table() -> str:
    return importlib.resources.files("auditwheel.policy").joinpath("manylinux-policy.json").read_text(encoding="utf-8")


def macos_floor(floor: str) -> tuple[int, int]:
    """Return the oldest macOS that a floor such as ``macosx_14_0`` is for.

    Raises:
        MatrixError: It is not such a floor.
    """
    found = re.fullmatch(r"macosx_(\d+)_(\d+)", floor)
    if found is None:
        raise MatrixError(
            f"'{floor}' does not say which macOS the wheel is for",
            where="matrix.yaml: the target's floor",
            next_step="write it as in wheel tags, such as macosx_14_0",
        )
    return int(found[1]), int(found[2])
