"""The sandbox of a server with a wheel, and of all that makes models for it and asks it."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from cpuwheels.core.filesystem import storage_errors
from cpuwheels.sandbox import steps
from cpuwheels.sandbox.confine import unconfined
from cpuwheels.sandbox.network import shared_network
from cpuwheels.sandbox.prepare import confine_as, get_sandbox
from cpuwheels.sandbox.view import interpreter_places
from cpuwheels.verification.load.loader import PROBES
from cpuwheels.verification.parity.preflight import SCRIPTS
from cpuwheels.verification.serve_bench import models as bench_models
from cpuwheels.verification.serving import setting

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from cpuwheels.config.context import BuildContext
    from cpuwheels.pipeline.user_places import UserPlaces
    from cpuwheels.sandbox.confine import Confine

_SCRIPTS = (PROBES, SCRIPTS, setting.RESOURCES, bench_models.RESOURCES)


@dataclass(frozen=True)
class ServingSandbox:
    """Confines what belongs to one run of serving.

    Attributes:
        context: The run.
        work: For models, questions, answers and the home folder.
        temporary: For sockets.
        network: What all of it shares; None if nothing is confined.
    """

    context: BuildContext
    work: Path
    temporary: Path
    network: Path | None

    def confine(self, python: Path, readable: Iterable[Path]) -> Confine:
        """Return what confines the commands of an environment.

        Args:
            python: Its interpreter.
            readable: The environment, what it finds packages in, and what else is needed.
        """
        if self.network is None:
            return unconfined
        # What waits for the server, and what counts what it leaves, runs by this program's interpreter.
        places = (*readable, *_SCRIPTS, *interpreter_places(Path(sys.executable)))
        step = steps.serving(python, places, self.work, self.temporary, self.network)
        return confine_as(self.context, lambda _: step)

    def script(self, python: Path, readable: Iterable[Path], places: UserPlaces) -> Confine:
        """Return what confines a script of the user's that asks a server.

        It is confined as the server is: another one would not reach it.

        Args:
            python: Interpreter of the server's environment.
            readable: The environment, what it finds packages in, and the script.
            places: What the user lets it see.
        """
        if self.network is None:
            return unconfined
        return places.confine(self.context, python, readable, self.work / "script", self.network)

    def as_record(self) -> dict[str, str]:
        """Return what confines it, as a build record has it."""
        mechanism = get_sandbox(self.context).mechanism
        return (mechanism if self.network else replace(mechanism, kind="none")).as_record()


@contextmanager
def serving_sandbox(context: BuildContext, work: Path, env: Mapping[str, str]) -> Iterator[ServingSandbox]:
    """Hold the network of a run of serving.

    Args:
        context: The run.
        work: Its folder.
        env: Its variables, with the folder for temporary files.

    Raises:
        SandboxError: Nothing can confine it here, and it has to be.
    """
    sandbox = get_sandbox(context)
    if sandbox.mechanism.program is None:
        if sandbox.mechanism.kind == "landlock":
            context.reporter.announce(
                "servers, and what asks them, run with all rights of this user: only bubblewrap gives them "
                "a network of their own"
            )
        yield ServingSandbox(context, work, work, None)
        return
    folder = work / "network"
    with storage_errors(folder):
        folder.mkdir(exist_ok=True)
    with shared_network(sandbox, folder, context.logs) as network:
        yield ServingSandbox(context, work, Path(env["TMPDIR"]), network)


def model_places(models: Iterable[Path | None]) -> list[Path]:
    """Return what has to be readable so that models of the user's are: their folders, and where links in them lead."""
    folders = [folder for folder in models if folder is not None]
    links = [path.resolve() for folder in folders for path in folder.rglob("*") if path.is_symlink()]
    return [*folders, *links]
