"""Compressing what a build has put into the compiler cache, when its compilers have ended.

ccache would compress each object in the job that makes it, which takes a precompiled header as much memory as the
compiler took, next to other compilers. Afterwards it takes less, one after the other, and no compiler runs next to it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from cpuwheels.core.environ import closed_environment
from cpuwheels.core.process import run

if TYPE_CHECKING:
    from pathlib import Path

    from cpuwheels.core.console import Reporter
    from cpuwheels.kernels.ccache.settings import CompilerCache
    from cpuwheels.kernels.confined import Confinement

LEVEL = 1
"""Zstandard's; of a precompiled header of torch 426 MB become 64 MB, and at level 3 61 MB."""


def compress_cache(cache: CompilerCache, confinement: Confinement, folder: Path, reporter: Reporter, log: Path) -> None:
    """Compress the objects that are not, in the sandbox of the build, which may have put anything there.

    What fails leaves an object as it was. The folder of the build is not seen: what the build left there is read
    meanwhile.

    Args:
        cache: The cache; one with shared storage is compressed as it is written.
        confinement: Of the build.
        folder: For temporary files; no build could write there.
        reporter: Told if it fails.
        log: ccache's output.
    """
    if cache.remote:
        return
    command: list[str | Path] = [cache.program, "--recompress", str(LEVEL), "--recompress-threads", "1"]
    alone = replace(confinement, folder=folder, writable=(cache.own_folder(),))
    confined = alone.command("ccache", command, closed_environment(cache.environment("")))
    done = run(confined.argv, log=log, env=confined.env, check=False)
    if done.returncode != 0:
        reporter.info(f"the compiler cache could not be compressed, and takes more room; log: {log}")
