"""Arm Compute Library, compiled for the kernels that link it through oneDNN."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cpuwheels.acl import KIND, NAME
from cpuwheels.kernels.project import Project, get_project

if TYPE_CHECKING:
    from pathlib import Path

    from cpuwheels.compiler_cache.settings import CompilerCache
    from cpuwheels.console import Reporter
    from cpuwheels.gate.session import CapPlan
    from cpuwheels.kernels.request import KernelRequest
    from cpuwheels.store import Store

LIBRARIES = ("arm_compute", "arm_compute_graph")
"""What oneDNN's cmake/FindACL.cmake looks for."""


def get_acl_library(
    request: KernelRequest,
    plan: CapPlan,
    cache: CompilerCache | None,
    *,
    store: Store,
    reporter: Reporter,
    logs: Path,
) -> Path | None:
    """Return the folder that oneDNN takes as ``ACL_ROOT_DIR``, or None if these kernels go without.

    The arguments and faults are those of `get_project`.
    """
    acl = request.acl
    if acl is None or acl.folder is None or acl.commit is None:
        return None
    project = Project(KIND, f"{NAME} {acl.tag}", acl.folder, acl.commit, acl.options, LIBRARIES)
    return get_project(project, request, plan, cache, store=store, reporter=reporter, logs=logs)
