"""A second build of the same source under other conditions, to be compared with the first byte by byte."""

from __future__ import annotations

import os
import sys
import tempfile
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from cpuwheels.core.process import relay
from cpuwheels.core.sealed_entry import MOVABLE
from cpuwheels.core.store import Store
from cpuwheels.core.verbosity import verbosity_arguments

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cpuwheels.config.options import BuildOptions
    from cpuwheels.config.paths import Paths
    from cpuwheels.core.console import Reporter

CIRCUMSTANCES = {"TZ": "Pacific/Kiritimati", "LC_ALL": "C", "LANG": "tr_TR.UTF-8"}
"""Variables of the second build."""

UMASK = 0o077


class SecondBuildError(Exception):
    """The second build has failed and printed why.

    Attributes:
        status: Its exit status.
    """

    def __init__(self, status: int) -> None:
        super().__init__(f"the second build ended with status {status}")
        self.status = status


@contextmanager
def rebuilt(paths: Paths, target: str, options: BuildOptions, reporter: Reporter) -> Iterator[Path]:
    """Build a target in another folder and yield the wheel, which is removed afterwards.

    The store of the second build has what was downloaded and the sources prepared from it (`MOVABLE`); everything
    else is made again: toolchain, environment, kernels, wheel. It has another time zone, locale, umask and number of
    jobs, and compiles every file itself.

    Args:
        paths: Folders of the first build.
        target: Target id.
        options: What the user chose for the first build.
        reporter: Told where and how.

    Raises:
        SecondBuildError: The second build fails; it has printed why.
    """
    with tempfile.TemporaryDirectory(prefix="verify-", dir=paths.cache) as name:
        elsewhere = replace(paths, cache=Path(name) / "other cache", dist=Path(name) / "other dist")
        Store(paths.cache).share(MOVABLE, elsewhere.cache)
        other = replace(options, jobs="1" if options.jobs != "1" else "2", compiler_cache="off")
        reporter.info(f"building again in {name}, with --jobs {other.jobs}")
        done = relay(
            [
                sys.executable,
                "-m",
                "cpuwheels",
                *verbosity_arguments(),
                *elsewhere.as_arguments(),
                "build",
                target,
                "--no-summary",
                *other.as_arguments(),
            ],
            env=os.environ | CIRCUMSTANCES,
            umask=UMASK,
        )
        if done.returncode != 0:
            raise SecondBuildError(done.returncode)
        yield Path(done.output.strip())
