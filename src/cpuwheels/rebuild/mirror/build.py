"""A build that takes everything from a mirror: this same command once more, with the network closed."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from cpuwheels.config.paths import PACKAGE
from cpuwheels.core.process import relay
from cpuwheels.core.store import Store
from cpuwheels.core.verbosity import verbosity_arguments
from cpuwheels.pipeline.variation.machine import FROM_COPY, Machine
from cpuwheels.rebuild.build import launched, require_closed
from cpuwheels.rebuild.mirror.use import open_mirror, settings_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cpuwheels.config.options import BuildOptions
    from cpuwheels.config.paths import Paths


def build_closed(paths: Paths, target: str, options: BuildOptions, folder: Path, more: Sequence[str]) -> int:
    """Build a target with what a mirror has, print what the build prints, and return its exit status.

    Args:
        paths: Folders to read and write.
        target: Target id.
        options: What the user chose.
        folder: The mirror.
        more: Further options of the build.

    Raises:
        MirrorError: It is none, or damaged.
        RebuildError: The network cannot be closed here.
    """
    mirror = open_mirror(folder)
    require_closed(Machine())
    mirror.fill(Store(paths.cache))
    command: list[str | Path] = [sys.executable, FROM_COPY, PACKAGE.parent]
    command += [*verbosity_arguments(), *paths.as_arguments(), "build", target, *options.as_arguments(), *more]
    with tempfile.TemporaryDirectory(prefix="cpuwheels-") as work, settings_of(mirror):
        done = relay(launched(command, Path(work), network=False), env=os.environ)
    sys.stdout.write(done.output)
    return done.returncode
