"""The kernels of a source without its wheel: in the store, for the wheels of all commits that have the same ones."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from cpuwheels.config.host import check_debug_symbols, check_host
from cpuwheels.kernels.build import get_kernels
from cpuwheels.kernels.ccache.install import chosen_cache
from cpuwheels.kernels.fingerprint import keep_fingerprint
from cpuwheels.kernels.memory.plan import memory_cap
from cpuwheels.kernels.memory.plan import plan as plan_jobs
from cpuwheels.kernels.tcmalloc import get_tcmalloc
from cpuwheels.pipeline.context import open_context
from cpuwheels.pipeline.default_source import with_default_source
from cpuwheels.pipeline.inputs import compiler, gather, upstream
from cpuwheels.pipeline.locked_run import watched_requests
from cpuwheels.source.request import wanted_source
from cpuwheels.toolchain.select import check_choice

if TYPE_CHECKING:
    from cpuwheels.config.matrix import Matrix
    from cpuwheels.config.options import BuildOptions
    from cpuwheels.config.paths import Paths
    from cpuwheels.core.console import Reporter


def build_kernels(paths: Paths, matrix: Matrix, name: str, options: BuildOptions, reporter: Reporter) -> str:
    """Compile the kernels of a source into the store, as a build of its wheel would, and return their key.

    Args:
        paths: Folders to read and write.
        matrix: The configuration.
        name: Target id.
        options: What the user chose; ``kernels_from`` does not count.
        reporter: Told of every step.

    Raises:
        CpuwheelsError: Any stage's own error.
    """
    target = matrix.buildable(name)
    check_host(target, paths.root)
    if options.debug_symbols:
        check_debug_symbols(target)
    check_choice(target, options.toolchain, paths.root, os.environ)
    plan = plan_jobs(paths.root, target, options)
    wanted_source(matrix, target, options)
    context, known = with_default_source(open_context(paths, matrix, target, options, reporter))
    request = wanted_source(matrix, target, context.options)
    context = replace(context, store=context.store.trusting(request.trust))
    with watched_requests(context, request):
        found = upstream(context, request)
        toolchain, native = compiler(context)
        inputs = gather(context, found, known)
        wanted = inputs.request(context, toolchain)
        with reporter.stage("kernels", f"upstream's extension modules; {plan.jobs} jobs at once ({plan.reason})"):
            cap, cache = memory_cap(context, plan, native.memgate), partial(chosen_cache, context)
            kernels = get_kernels(context, wanted, cap=cap, cache=cache)
            get_tcmalloc(context, wanted, cap=cap, cache=cache)
        keep_fingerprint(context.store, target.id, inputs.source.folder, kernels)
    return kernels.key
