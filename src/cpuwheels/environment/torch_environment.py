"""The build environment of a run, with the torch that its source pins."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from cpuwheels.config.host import is_foreign
from cpuwheels.core.errors import LockedError, TorchError
from cpuwheels.environment.build_env import (
    TOOLS_LOCK,
    EnvironmentRequest,
    build_environment,
    no_torch,
    stored_environment,
)
from cpuwheels.environment.torch_cross import foreign_torch
from cpuwheels.environment.torch_debian import debian_torch
from cpuwheels.environment.torch_index import torch_pin, torch_requirement
from cpuwheels.environment.torch_install import refused_offers
from cpuwheels.fetch.uv import found_interpreters

if TYPE_CHECKING:
    from cpuwheels.config.context import BuildContext
    from cpuwheels.environment.sealed_env import Environment


def check_torch(context: BuildContext, torch: str) -> None:
    """Announce, before anything is fetched, that the matrix does not know a torch version.

    Raises:
        LockedError: The matrix does not know it, and the run is locked.
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
        TorchError: No place has a CPU build of it, and there is no fallback.
        DownloadError: The fallback cannot be fetched.
        LockedError: It is a fallback or not pinned by content, and the run is locked.
    """
    pin = torch_pin(context.matrix, torch)
    request = EnvironmentRequest(
        torch=torch,
        pin=pin,
        target=context.target,
        pythons=context.matrix.python,
        lock=context.lock(TOOLS_LOCK),
        locked=context.options.locked,
        foreign=foreign_torch(context, torch, pin) if is_foreign(context.target) else None,
    )
    environment = build_environment(context, request) if request.foreign else _own(context, request)
    context.reporter.info(f"torch {environment.torch_version} from {environment.torch_from}")
    return environment


def _own(context: BuildContext, request: EnvironmentRequest) -> Environment:
    """Return an environment of this kind of machine, with a wheel of torch or the fallback."""
    alternate = request.pin.alternate(context.target.machine)
    refused = None
    if alternate and stored_environment(request, context.store) is None:
        # An environment is not made in vain where no place has a wheel.
        refused = _refusal(context, request)
    if refused is None:
        try:
            return build_environment(context, request)
        except TorchError as error:
            refused = error
    torch = debian_torch(context, request.torch, request.pin, refused)
    return replace(build_environment(context, replace(request, foreign=torch)), debian=torch.root)


def _refusal(context: BuildContext, request: EnvironmentRequest) -> TorchError | None:
    """Return why no place has a wheel for an interpreter of this machine, or None if one has."""
    interpreters = found_interpreters(request.pythons)
    wanted = torch_requirement(request.torch, request.pin, request.target)
    faults = refused_offers(wanted, request.pin, interpreters, context.logs / "torch.log")
    return None if faults is None else no_torch(request, interpreters, faults)
