"""The build environment of a run, with the torch that its source pins."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from packaging.version import Version

from cpuwheels.config.host import is_foreign
from cpuwheels.core.errors import LockedError
from cpuwheels.environment.build_env import TOOLS_LOCK, EnvironmentRequest, build_environment
from cpuwheels.environment.torch_cross import ForeignRequest, foreign_torch
from cpuwheels.fetch.debian.mirrors import debian_mirrors

if TYPE_CHECKING:
    from cpuwheels.config.context import BuildContext
    from cpuwheels.config.matrix import Matrix
    from cpuwheels.config.pins import TorchPin
    from cpuwheels.environment.build_env import Environment


def torch_pin(matrix: Matrix, torch: str) -> TorchPin:
    """Return what the matrix says of a torch version; of one that it does not know, where to look for it."""
    if torch in matrix.torch:
        return matrix.torch[torch]
    newest = matrix.torch[max(matrix.torch, key=Version)]
    return newest.model_copy(update={"wheels": (), "alternates": ()})


def check_torch(context: BuildContext, torch: str) -> None:
    """Announce, before anything is fetched, that a torch version is not one that the matrix knows.

    Raises:
        LockedError: It is not, and the run is locked.
    """
    known = context.matrix.torch
    if torch in known:
        return
    if context.options.locked:
        raise LockedError(
            f"the source pins torch {torch}, which the matrix does not know",
            where="matrix.yaml: torch",
            next_step=f"add it there, or build without --locked; known: {', '.join(known)}",
        )
    context.reporter.announce(
        f"the source pins torch {torch}, which matrix.yaml does not know: any CPU build of it that can be found is "
        "used; the build record has its digest"
    )


def torch_environment(context: BuildContext, torch: str) -> Environment:
    """Return a run's build environment with a torch version.

    Args:
        context: The run.
        torch: Version that the source pins, without a local label.

    Raises:
        TorchError: No place has a CPU build of it.
        LockedError: It is not pinned by content, and the run is locked.
    """
    pin, target, locked = torch_pin(context.matrix, torch), context.target, context.options.locked
    store, reporter, logs, pythons = context.store, context.reporter, context.logs, context.matrix.python
    foreign = None
    if is_foreign(target):
        asked = ForeignRequest(torch, pin, target, pythons, context.root, debian_mirrors(context), locked=locked)
        foreign = foreign_torch(asked, store=store, reporter=reporter, logs=logs, environ=os.environ)
    request = EnvironmentRequest(
        torch=torch, pin=pin, target=target, pythons=pythons, lock=context.lock(TOOLS_LOCK), locked=locked,
        foreign=foreign,
    )  # fmt: skip
    environment = build_environment(request, store, reporter, logs)
    reporter.info(f"torch {environment.torch_version} from {environment.torch_from}")
    return environment
