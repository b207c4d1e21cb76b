"""The programs that check, run and push an image: pinned, and unpacked without root."""

from __future__ import annotations

import platform
from typing import TYPE_CHECKING

from cpuwheels.config.debian_lock import load_lock
from cpuwheels.core.errors import CommandError, ImageError
from cpuwheels.core.process import run
from cpuwheels.toolchain.debian_compiler import unpacked_programs

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from cpuwheels.config.context import BuildContext
    from cpuwheels.core.process import Completed

KIND = "image-tools"
_LOG = "image-tools.log"


class Tools:
    """The programs.

    Args:
        context: The run; its matrix names a Debian lock for each machine.

    Raises:
        ImageError: There is no lock for this machine.
        DownloadError: A package cannot be fetched.
    """

    def __init__(self, context: BuildContext) -> None:
        locks, machine = context.matrix.image_tools, platform.machine()
        if platform.system() != "Linux" or machine not in locks:
            raise ImageError(
                f"no programs that check and push images are pinned for {machine} {platform.system()}",
                where="matrix.yaml: image_tools",
                next_step="leave --test and --push out; the image itself needs none of them",
            )
        self._folder = unpacked_programs(context, load_lock(context.root, locks[machine]), KIND)
        self.log = context.logs / _LOG

    def program(self, name: str) -> Path:
        """Return the path of a program."""
        found = self._folder / "usr" / "bin" / name
        return found if found.is_file() else self._folder / "usr" / "sbin" / name

    def run(self, name: str, *arguments: str | Path, env: Mapping[str, str] | None = None, why: str) -> Completed:
        """Run a program.

        Args:
            name: The program.
            arguments: Its arguments.
            env: Its variables.
            why: What went wrong if it fails, for the message.

        Raises:
            ImageError: It fails.
        """
        try:
            return run([self.program(name), *arguments], log=self.log, env=env)
        except CommandError as error:
            raise ImageError(why, where=error.where, log=self.log, output=error.output) from error
