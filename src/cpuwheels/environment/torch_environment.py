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
from cpuwheels.environment.torch_install import refuse_unpinned, refused_offers

if TYPE_CHECKING:
    from cpuwheels.config.context import BuildContext
    from cpuwheels.config.matrix import Matrix, Target
    from cpuwheels.environment.sealed_env import Environment


def check_torch(context: BuildContext, torch: str) -> None:
    """Announce, before anything else is fetched, that the matrix does not know a torch version.

    Raises:
        LockedError: The run is locked, and the matrix does not know it, or pins no build of it that may be used.
    """
    known = context.matrix.torch
    if torch in known:
        if context.options.locked and not context.options.allow_fallbacks:
            require_pinned(context.matrix, torch, context.target)
        return
    if context.options.locked:
        raise LockedError(
            f"the source asks for torch {torch}, which matrix.yaml does not pin",
            where="requirements/cpu.txt of the source",
            next_step=f"add it to matrix.yaml (torch), or build without --locked; known: {', '.join(known)}",
        )
    context.reporter.announce(
        f"the source pins torch {torch}, which matrix.yaml does not know: any CPU build of it that can be found is "
        "used; the build record has its digest"
    )


def require_pinned(matrix: Matrix, torch: str, target: Target) -> None:
    """Refuse a torch version of which no wheel for a target is pinned by content.

    Raises:
        LockedError: None is.
    """
    pin = torch_pin(matrix, torch)
    if not pin.wheels_for(target.machine):
        raise refuse_unpinned(torch, pin, target, matrix.python[0])


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
    request = _request(context, torch)
    if is_foreign(context.target):
        request = replace(request, foreign=foreign_torch(context, torch, request.pin))
    environment = build_environment(context, request) if request.foreign else _own(context, request)
    context.reporter.info(f"torch {environment.torch_version} from {environment.torch_from}")
    return environment


def wheel_environment(context: BuildContext, torch: str) -> Environment:
    """Return a run's build environment with a wheel of torch, and never with the fallback.

    Args:
        context: The run; its target is of this kind of machine.
        torch: Version, without a local label.

    Raises:
        TorchError: No place has a CPU build of it.
        LockedError: It is not pinned by content, and the run is locked.
    """
    environment = _with_wheel(context, _request(context, torch))
    context.reporter.info(f"torch {environment.torch_version} from {environment.torch_from}")
    return environment


def _request(context: BuildContext, torch: str) -> EnvironmentRequest:
    return EnvironmentRequest(
        torch=torch,
        pin=torch_pin(context.matrix, torch),
        target=context.target,
        pythons=context.matrix.python,
        lock=context.lock(TOOLS_LOCK),
        locked=context.options.locked,
    )


def _own(context: BuildContext, request: EnvironmentRequest) -> Environment:
    """Return an environment of this kind of machine, with a wheel of torch or the fallback."""
    try:
        return _with_wheel(context, request)
    except (TorchError, LockedError) as error:
        torch = debian_torch(context, request.torch, request.pin, error)
    return replace(build_environment(context, replace(request, foreign=torch)), debian=torch.root)


def _with_wheel(context: BuildContext, request: EnvironmentRequest) -> Environment:
    alternate = request.pin.alternate(context.target.machine)
    # An environment is not made in vain where no place has a wheel.
    asked = alternate and not request.locked and stored_environment(request, context.store) is None
    if asked and (refused := _refusal(context, request)):
        raise refused
    return build_environment(context, request)


def _refusal(context: BuildContext, request: EnvironmentRequest) -> TorchError | None:
    """Return why no place has a wheel for an interpreter of this machine, or None if one has."""
    wanted = torch_requirement(request.torch, request.pin, request.target)
    faults = refused_offers(wanted, request.pin, request.pythons, context.logs / "torch.log")
    return None if faults is None else no_torch(request, request.pythons, faults)
