"""The vLLM version that is built where the user names none: the default, or the newest whose torch can be had."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from packaging.version import Version

from cpuwheels.core.errors import DownloadError, TorchError
from cpuwheels.environment.torch_environment import torch_environment

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cpuwheels.config.context import BuildContext
    from cpuwheels.config.matrix import Matrix, Release
    from cpuwheels.environment.sealed_env import Environment


def with_default_source(context: BuildContext) -> tuple[BuildContext, dict[str, Environment]]:
    """Return the context of a run with the version that it builds, and build environments that are known by now.

    The user's source stays, if one is named.

    It is the target's default, unless no place has its torch: then it is the newest older release whose torch can be
    had, and one note says so. The build environment is made to find out; the build needs it anyway.

    A locked run keeps the default: which version it builds may not depend on what can be reached today.

    Args:
        context: The run.

    Returns:
        The context, and the environments by their torch.

    Raises:
        TorchError: No release's torch can be had; the default's own error.
        DownloadError: Likewise.
        BuildEnvironmentError: An environment cannot be made, whatever its torch.
    """
    options = context.options
    if options.source or options.repo or options.sha256 or options.locked:
        return context, {}
    wanted = context.matrix.source_of(context.target)
    faults: dict[str, TorchError | DownloadError] = {}
    found: dict[str, Environment] = {}
    with context.reporter.stage("release", f"vLLM {wanted}, or the newest older one whose torch can be had"):
        for release in _candidates(context.matrix, wanted):
            if release.torch in faults:
                continue
            try:
                if release.torch:
                    found[release.torch] = torch_environment(context, release.torch)
            except (TorchError, DownloadError) as error:
                faults[str(release.torch)] = error
                continue
            if faults:
                context.reporter.announce(
                    f"building vLLM {release.version}: the torch of {wanted} cannot be had here; "
                    f"--source {wanted} tells why"
                )
            return replace(context, options=replace(options, source=release.version)), found
        raise next(iter(faults.values()))


def _candidates(matrix: Matrix, wanted: str) -> Sequence[Release]:
    """Return a version's release and the older ones, the newest first."""
    newest = Version(wanted)
    older = [release for release in matrix.releases if Version(release.version) <= newest]
    return sorted(older, key=lambda release: Version(release.version), reverse=True)
