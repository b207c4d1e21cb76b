"""What a command or script of the user's sees, in an environment with a wheel that is tested."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cpuwheels.core.filesystem import storage_errors
from cpuwheels.sandbox.confine import unconfined
from cpuwheels.sandbox.prepare import confine_as
from cpuwheels.sandbox.steps import command

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from cpuwheels.config.context import BuildContext
    from cpuwheels.sandbox.confine import Confine


@dataclass(frozen=True)
class UserPlaces:
    """What the user lets a command see and change.

    Attributes:
        folder: Where it runs; it may be read.
        readable: What else may be read.
        writable: What may be written.
        confined: Whether it is confined at all.
    """

    folder: Path
    readable: tuple[Path, ...] = ()
    writable: tuple[Path, ...] = ()
    confined: bool = True

    def confine(
        self, context: BuildContext, python: Path, packages: Iterable[Path], work: Path, network: Path | None = None
    ) -> Confine:
        """Return what confines the command.

        Args:
            context: The run.
            python: Interpreter of the wheel's environment.
            packages: That environment, what it finds packages in, and what else is needed.
            work: For its home folder and temporary files; made if it is missing.
            network: A network that it shares with others; else it has its own.

        Raises:
            SandboxError: Nothing can confine it here, and it has to be.
        """
        if not self.confined:
            return unconfined
        with storage_errors(work):
            work.mkdir(parents=True, exist_ok=True)
        step = command(python, (*packages, *self.readable), self.writable, self.folder, work, network)
        return confine_as(context, lambda _: step)
