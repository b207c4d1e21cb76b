"""The kernel stage: from a request to modules in the store, resumable at every point."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pydantic import TypeAdapter

from cpuwheels.core.concurrency import begun
from cpuwheels.core.errors import CompileError, reason
from cpuwheels.core.filesystem import remove_tree
from cpuwheels.core.sealed_entry import sealed_origin
from cpuwheels.core.trust import Trust
from cpuwheels.core.units import format_size
from cpuwheels.kernels.acl_library import get_acl_library
from cpuwheels.kernels.ccache.apart import cache_for
from cpuwheels.kernels.ccache.compress import compress_cache
from cpuwheels.kernels.collect import collect
from cpuwheels.kernels.compile_flags import flags_of, read_flags, write_flags
from cpuwheels.kernels.configure import configure
from cpuwheels.kernels.confined import confinement
from cpuwheels.kernels.depfile import kernels_key, read_files, reads_cache
from cpuwheels.kernels.executed import counted_files, unreported_reads
from cpuwheels.kernels.launchers import Launchers
from cpuwheels.kernels.memory.admission import MemoryUse, gate_session, open_gate
from cpuwheels.kernels.memory.ledger import LEDGER, read_records
from cpuwheels.kernels.ninja import compile_modules
from cpuwheels.kernels.onednn_library import find_library, keep_library
from cpuwheels.kernels.onednn_pruning import (
    lacks_onednn,
    read_unused,
    still_unused,
    unused_files,
    unused_name,
    write_unused,
)
from cpuwheels.kernels.request import configurations
from cpuwheels.kernels.result import MEMORY, MODULES, Kernels
from cpuwheels.kernels.workspace import Workspace

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from cpuwheels.config.context import BuildContext
    from cpuwheels.core.console import Reporter
    from cpuwheels.kernels.ccache.settings import CompilerCache
    from cpuwheels.kernels.depfile import Reads
    from cpuwheels.kernels.memory.admission import CapPlan
    from cpuwheels.kernels.onednn_library import OneDnnLibrary
    from cpuwheels.kernels.request import KernelRequest

KIND = "kernels"
_MEMORY_USE = TypeAdapter(MemoryUse)


def get_kernels(
    context: BuildContext,
    request: KernelRequest,
    *,
    cap: Callable[[Path], CapPlan],
    cache: Callable[[], CompilerCache | None],
) -> Kernels:
    """Return the kernels of a request, building them if the store does not have them.

    Args:
        context: The run; its store keeps kernels and unfinished builds.
        request: Their inputs.
        cap: Returns how a build in a folder is kept below its cap.
        cache: Returns the compiler cache, if one is to be used; only asked when something must be compiled.

    Raises:
        ConfigureError: CMake stopped.
        CompileError: A file did not compile.
        MemoryCapError: One file is known to need more memory than there is.
        OutOfMemoryError: A compiler was killed for memory.
    """
    store = context.store
    if found := _find(context, request):
        shared = f", which come from {found.origin.place}," if found.origin else ""
        context.reporter.info(f"kernels {found.key}{shared} are in the store; nothing to compile")
        return found
    build = request.key()
    with store.lock("kernel-build", build):
        if found := _find(context, request):
            return found
        with store.working(KIND, build) as work:
            workspaces = [Workspace(work, configuration) for configuration in configurations(request.target)]
            memory, compress = _build(context, request, workspaces, cap(workspaces[0].gate), cache())
            if request.key() != build:
                raise CompileError(
                    "the source in the store was changed while its kernels were built",
                    where=request.source.folder,
                    next_step="do not trust this source; the store makes its copy again",
                )
            with begun(compress) as compressed:
                reads = read_files(request, workspaces, store.root)
                key = kernels_key(request, reads)
                library = keep_library(store, request, workspaces[0])

                def fill(folder: Path) -> None:
                    collect(request, workspaces, folder, context.logs / "collect.log")
                    write_flags({**(library.flags if library else {}), **flags_of(workspaces)}, folder)
                    (folder / MEMORY).write_bytes(_MEMORY_USE.dump_json(memory, indent=1))

                folder = store.get(KIND, key, fill, ask=False)
                reads_cache(request, store).keep(reads)
                compressed()
            remove_tree(work)
    report_memory(memory, context.reporter)
    return _kernels(folder, key, reads, built=True)


def _find(context: BuildContext, request: KernelRequest) -> Kernels | None:
    """Return the kernels in the store that this request results in."""
    store = context.store
    counted = counted_files(request.source.folder)
    known: dict[str, Reads] = {}
    for reads in reads_cache(request, store).known():
        known.setdefault(kernels_key(request, reads, counted), reads.with_files(counted))
    for key, reads in known.items():
        if folder := store.find(KIND, key):
            try:
                return _kernels(folder, key, reads, built=False)
            except (OSError, ValueError) as error:
                _refuse_shared(context, folder, error)
    return None


def _refuse_shared(context: BuildContext, folder: Path, error: OSError | ValueError) -> None:
    """Take kernels out of the store that another machine shared and that are none; what was made here stays."""
    if (origin := sealed_origin(folder)) is None:
        raise error
    context.reporter.announce(f"{origin.place}: kernels {folder.name} are none, and are made here: {reason(error)}")
    for trust in Trust:
        if (own := context.store.trusting(trust)).path(KIND, folder.name) == folder:
            own.discard(KIND, folder.name)


def _build(
    context: BuildContext,
    request: KernelRequest,
    workspaces: Sequence[Workspace],
    plan: CapPlan,
    cache: CompilerCache | None,
) -> tuple[MemoryUse, Callable[[], None]]:
    """Configure and compile in workspaces, going on where an earlier run was interrupted.

    Returns:
        What the build did with its memory, and what compresses the compiler cache.
    """
    first = workspaces[0]
    # Whoever wants no cache wants everything compiled.
    library = find_library(context.store, request) if context.options.compiler_cache != "off" else None
    if library:
        context.reporter.info("oneDNN was made before with the same programs, and is linked as it is")
    first.prepare(request, has_onednn=library is not None)
    open_gate(plan)
    first.link_acl(get_acl_library(context, request, plan, cache))
    name = unused_name(request)
    learned = plan.learned.with_name(name)
    unused = read_unused(*(table.with_name(name) for table in reversed(plan.tables())))
    if not first.unused.is_file() or read_unused(first.unused) != unused:
        write_unused(first.unused, unused)
    if cache:
        cache = _own_cache(context, cache, request.source.folder)
    linked = [request.onednn.folder] if library and request.onednn else []
    confined = confinement(context, request, first.folder, plan.gate, cache, inputs=[first.acl, *linked])
    launchers = replace(Launchers.of(plan.gate, first.ledger, cache, request), confinement=confined)
    used = [_compile(context, request, first, launchers, plan, library)]
    if library and not library.fits(first):
        context.reporter.info("this source calls other functions of oneDNN than those before it: making its own")
        library = None
        used = [_compile(context, request, first, launchers, plan, None)]
    used += [_compile(context, request, workspace, launchers, plan, library) for workspace in workspaces[1:]]
    if request.onednn and library is None and not read_unused(first.unused):
        write_unused(learned, still_unused(unused, unused_files(first)))
    memory = replace(
        used[0], peak=max(use.peak for use in used), wrong=tuple(wrong for use in used for wrong in use.wrong)
    )

    def compress() -> None:
        if cache:
            with context.store.scratch("compress") as folder:
                compress_cache(cache, confined, folder, context.reporter, context.logs / "compiler-cache.log")

    return memory, compress


def _own_cache(context: BuildContext, cache: CompilerCache, source: Path) -> CompilerCache | None:
    if reason := unreported_reads(source):
        context.reporter.info(f"compiling without the compiler cache: {reason}, and it could not see what that reads")
        return None
    return cache_for(cache, context.store, source)


def _compile(
    context: BuildContext,
    request: KernelRequest,
    workspace: Workspace,
    launchers: Launchers,
    plan: CapPlan,
    library: OneDnnLibrary | None,
) -> MemoryUse:
    """Configure and compile one workspace, with a finished oneDNN if there is one."""
    reporter, logs = context.reporter, context.logs
    workspace.prepare(request, has_onednn=library is not None)
    open_gate(plan)
    suffix = f"-{workspace.configuration.name}" if workspace.configuration.name else ""
    reporter.info("configuring upstream's CMake project")
    configure(request, workspace, launchers, logs / f"configure{suffix}.log", library)
    log = logs / f"compile{suffix}.log"
    with gate_session(plan, workspace.outputs(), workspace.ledger) as session:
        reporter.info(f"compiling {', '.join(workspace.modules())}; log: {log}")
        reporter.info(f"memory cap {format_size(plan.jobs.cap)} ({plan.jobs.where}), enforced by {session.held.how}")
        compile_modules(request, workspace, launchers, session, reporter, log)
        if request.onednn and library is None and workspace.is_first and (lacking := lacks_onednn(workspace)):
            reporter.info(f"this source needs more of oneDNN than expected ({lacking[0]}, ...): compiling all of it")
            write_unused(workspace.unused, [])
            compile_modules(request, workspace, launchers, session, reporter, log)
    return session.finished()


def _kernels(folder: Path, key: str, reads: Reads, *, built: bool) -> Kernels:
    return Kernels(
        key=key,
        folder=folder,
        modules=tuple(sorted(path.name.partition(".")[0] for path in (folder / MODULES).iterdir())),
        jobs=read_records(folder / LEDGER),
        built=built,
        memory=_MEMORY_USE.validate_json((folder / MEMORY).read_bytes()),
        reads=reads,
        flags=read_flags(folder),
        origin=sealed_origin(folder),
    )


def report_memory(memory: MemoryUse, reporter: Reporter) -> None:
    """Report what the build did with its memory, and which predictions were wrong."""
    reporter.info(
        f"compilers and linkers used at most {format_size(memory.peak)} together; the cap left them "
        f"{format_size(memory.room)}"
    )
    for wrong in memory.wrong:
        needed, expected = format_size(wrong.measured), format_size(wrong.expected)
        reporter.info(f"{wrong.output} needed {needed}, not {expected}; noted for the next run")
