"""ccache itself: pinned, unpacked without root, the same on every machine of an architecture."""

from __future__ import annotations

import platform
from typing import TYPE_CHECKING

from cpuwheels.errors import DownloadError, ToolchainError
from cpuwheels.model.lock import load_lock
from cpuwheels.toolchain.unpacked import unpacked_programs

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from cpuwheels.console import Reporter
    from cpuwheels.store import Store

KIND = "ccache"


def find_ccache(
    locks: Mapping[str, str], *, root: Path, mirrors: Sequence[str], store: Store, reporter: Reporter
) -> Path | None:
    """Return the pinned ccache for this machine, or None after saying why there is none.

    A build needs it only to be faster, so it goes on without.

    Args:
        locks: Names of Debian locks by machine, as the kernel names it.
        root: The project's folder, with ``locks/``.
        mirrors: Where packages are fetched from, in order.
        store: Where it is unpacked.
        reporter: Told if it is missing.
    """
    machine = platform.machine()
    if platform.system() != "Linux" or machine not in locks:
        reporter.info(f"no compiler cache: none is pinned for {machine} {platform.system()}")
        return None
    try:
        folder = unpacked_programs(
            load_lock(root, locks[machine]), KIND, mirrors=mirrors, store=store, reporter=reporter
        )
    except (DownloadError, ToolchainError) as error:
        reporter.announce(f"building without a compiler cache: {error.what}")
        return None
    return folder / "usr" / "bin" / "ccache"
