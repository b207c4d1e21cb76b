"""What a build would still fetch, and what it would keep and need on the disk: from the locks and the stores."""

from __future__ import annotations

import platform
from typing import TYPE_CHECKING

from cpuwheels.config.debian_lock import load_lock
from cpuwheels.config.downloads import TOOLS
from cpuwheels.config.host import is_foreign
from cpuwheels.core.units import format_size
from cpuwheels.doctor.check import Check
from cpuwheels.doctor.needs import judge_need
from cpuwheels.fetch.download import is_stored
from cpuwheels.fetch.locked_wheels import wheel_sizes
from cpuwheels.kernels.ccache.settings import FOLDER

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from cpuwheels.config.matrix import Matrix, Target
    from cpuwheels.core.store import Store
    from cpuwheels.doctor.inputs import Context
    from cpuwheels.doctor.needs import Need
    from cpuwheels.doctor.network import Answer

MIB = 1 << 20

KEPT: Mapping[str, int] = {
    "roots": 846 * MIB,
    FOLDER: 325 * MIB,
    "torch": 298 * MIB,
    "downloads": 282 * MIB,
    "environments": 199 * MIB,
    "sources": 151 * MIB,
    "toolchains": 133 * MIB,
    "onednn": 84 * MIB,
    "kernels": 32 * MIB,
    "sysroots": 30 * MIB,
    "ccache": 26 * MIB,
    "packed": 20 * MIB,
    "sandbox": 14 * MIB,
}
"""Disk that a first build of x86 keeps, by kind of entry, as one of vLLM 0.33.0 with Debian's torch recorded it; see
docs/build.md, "Space on the disk". What ``prepared`` has is counted with ``sources``: most of it is other names."""

WORK_BYTES = 15 << 28
"""Disk that a build takes until it has compiled: 2 GiB of its folder, and 1.7 GiB more of the compiler cache, which is
compressed at the end. Most of both is precompiled headers. Read with ``du`` in a build of vLLM 0.33.0."""

CROSS_BYTES = 1 << 30
"""What a target of another kind of machine keeps in addition: the toolchain of this machine, which compiles the
helpers, the emulator, and a Debian root of that machine where torch is a wheel."""


def bytes_to_keep(store: Store, target: Target) -> int:
    """Return about how much a build would add to the stores: nothing for kinds of which they have an entry."""
    more = CROSS_BYTES if is_foreign(target) and store.is_empty("kernels") else 0
    return sum(size for kind, size in KEPT.items() if store.is_empty(kind)) + more


def bytes_to_write(store: Store, target: Target) -> int:
    """Return about how much room a build needs in the stores: for what it keeps, and for what it removes again."""
    return bytes_to_keep(store, target) + (WORK_BYTES if store.is_empty("kernels") else 0)


def judge_downloads(needs: Iterable[Need], answers: Mapping[str, Answer], more: int) -> Check:
    """Return how much a build would fetch.

    Args:
        needs: What it may fetch.
        answers: Of the places where that is.
        more: Bytes of what else it fetches.
    """
    found = [used for need in needs if (used := _used(need, answers))]
    size = more + sum(need.size or 0 for need in found)
    unknown = [need.name for need in found if need.size is None]
    if not size and not unknown:
        return Check("downloads", "ok", "the stores have everything that a build fetches")
    parts = [f"about {format_size(size)}"] if size else []
    if unknown:
        parts.append(f"{', '.join(unknown)}, whose size no lock has")
    return Check("downloads", "info", f"a build would fetch {' and '.join(parts)}")


def _used(need: Need, answers: Mapping[str, Answer]) -> Need | None:
    """Return what would be fetched for a need: its fallback, if only that can be had; nothing if it is stored."""
    if need.stored:
        return None
    if need.alternate is not None and judge_need(need, answers).status == "warn":
        instead = need.alternate
        if instead.stored or judge_need(instead, answers).status == "ok":
            return _used(instead, answers)
    return need


def unlisted_bytes(context: Context, matrix: Matrix, target: Target) -> int:
    """Return the bytes of what a build fetches without a need of its own: it can do without, or seldom lacks it."""
    return sum(size for sha256, size in _unlisted(context, matrix, target) if not is_stored(sha256, context.store))


def tools_bytes(root: Path, pythons: Iterable[str]) -> int | None:
    """Return the bytes of the build tools for the first of some versions of Python; None if there is none.

    uv does not fetch those that are in its cache, whatever has put them there.
    """
    lock, python = root / "locks" / TOOLS, next(iter(pythons), None)
    return sum(wheel_sizes(lock, python).values()) or None if python else None


def _unlisted(context: Context, matrix: Matrix, target: Target) -> Iterator[tuple[str, int]]:
    if platform.system() == "Linux":
        machine = platform.machine()
        for name in filter(None, (matrix.sandbox.get(machine), matrix.compiler_cache.get(machine))):
            yield from ((package.sha256, package.size) for package in load_lock(context.root, name).packages)
    if target.tcmalloc and (source := matrix.gperftools) and source.size:
        yield source.sha256, source.size
