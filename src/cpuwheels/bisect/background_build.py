"""A build that nobody waits for yet, by a process of its own with the lowest priority, which can be ended any time."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from cpuwheels.config.credentials import without_credentials
from cpuwheels.core.elsewhere import elsewhere
from cpuwheels.core.process import run

if TYPE_CHECKING:
    from cpuwheels.config.options import BuildOptions
    from cpuwheels.config.paths import Paths

LOG = "prefetch-compile.log"
"""Named as a step that may take as long as a compilation (`core.step_limits`)."""

_LOWEST = ("nice", "-n", "19")


def build_in_background(paths: Paths, target: str, options: BuildOptions) -> None:
    """Build a wheel as `cpuwheels build` does, so with its memory cap and sandbox, and log all that it prints.

    It is not loaded, as no wheel of a bisection is: `bisect.wheels` finds it where it is.

    It ends with this process, and with `core.process.end_command_of`; what it has finished by then stays in the stores.

    Args:
        paths: Folders to read and write; its output folder is that of the wheel.
        target: Target id.
        options: How it is built, and from what.

    Raises:
        CommandError: It fails; the log says why.
    """
    # -P: the working folder is a user's, whose modules are none of this program.
    program = [*_LOWEST, sys.executable, "-P", "-m", "cpuwheels", *paths.as_arguments()]
    command = [*program, "build", target, "--no-summary", "--no-check", *options.as_arguments()]
    command += shared.arguments if (shared := elsewhere()) else ()
    run(command, log=paths.dist / LOG, env=without_credentials(os.environ))
