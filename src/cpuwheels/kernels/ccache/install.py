"""ccache itself: pinned, unpacked without root, the same on every machine of an architecture."""

from __future__ import annotations

import os
import platform
from typing import TYPE_CHECKING

from cpuwheels.config.debian_lock import load_lock
from cpuwheels.core.errors import DownloadError, ToolchainError
from cpuwheels.core.usage import current_usage
from cpuwheels.kernels.ccache.settings import FOLDER, compiler_cache
from cpuwheels.toolchain.debian_compiler import unpacked_programs

if TYPE_CHECKING:
    from pathlib import Path

    from cpuwheels.config.context import BuildContext
    from cpuwheels.kernels.ccache.settings import CompilerCache

KIND = "ccache"


def chosen_cache(context: BuildContext) -> CompilerCache | None:
    """Return the compiler cache, unless the user wants none or there is none for this machine."""
    if context.options.compiler_cache == "off":
        return None
    program = find_ccache(context)
    if program is None:
        return None
    cache = compiler_cache(program, context.store.root, os.environ, context.reporter.announce)
    current_usage().growing(cache.own_folder(), FOLDER)
    return cache


def find_ccache(context: BuildContext) -> Path | None:
    """Return the pinned ccache for this machine, or None after reporting why there is none.

    A build only needs it to be faster, so it goes on without it.

    Args:
        context: The run; its matrix names a Debian lock for each machine, as the kernel names it.
    """
    machine, locks, reporter = platform.machine(), context.matrix.compiler_cache, context.reporter
    if platform.system() != "Linux" or machine not in locks:
        reporter.info(f"no compiler cache: none is pinned for {machine} {platform.system()}")
        return None
    try:
        folder = unpacked_programs(context, load_lock(context.root, locks[machine]), KIND)
    except (DownloadError, ToolchainError) as error:
        reporter.announce(f"building without a compiler cache: {error.what}")
        return None
    return folder / "usr" / "bin" / "ccache"
