"""Arm Compute Library, compiled for the kernels that link it through oneDNN."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cpuwheels.kernels.external_project import Project, get_project
from cpuwheels.source.acl import KIND, NAME

if TYPE_CHECKING:
    from pathlib import Path

    from cpuwheels.config.context import BuildContext
    from cpuwheels.kernels.ccache.settings import CompilerCache
    from cpuwheels.kernels.memory.admission import CapPlan
    from cpuwheels.kernels.request import KernelRequest

LIBRARIES = ("arm_compute", "arm_compute_graph")
"""What oneDNN's cmake/FindACL.cmake looks for."""


def get_acl_library(
    context: BuildContext, request: KernelRequest, plan: CapPlan, cache: CompilerCache | None
) -> Path | None:
    """Return the folder that oneDNN takes as ``ACL_ROOT_DIR``, or None if these kernels go without.

    The arguments and faults are those of `get_project`.
    """
    acl = request.acl
    if acl is None or acl.folder is None or acl.commit is None:
        return None
    project = Project(KIND, f"{NAME} {acl.tag}", acl.folder, acl.commit, acl.options, LIBRARIES)
    return get_project(context, project, request, plan, cache)
