"""All checks of the doctor, in the order in which they are reported."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import uv

from cpuwheels.config.debian_lock import LICENCES, load_lock
from cpuwheels.config.host import check_host, is_foreign, markers, own_target, runs_here, this_machine
from cpuwheels.config.options import BuildOptions
from cpuwheels.core.capture import capture
from cpuwheels.core.errors import CpuwheelsError
from cpuwheels.core.store import Store
from cpuwheels.doctor import host, inputs, space
from cpuwheels.doctor.check import Check, from_error
from cpuwheels.doctor.compilers import judge_compilers, uses_pinned
from cpuwheels.doctor.needs import Need, judge_need, questions
from cpuwheels.doctor.network import PATIENCE, Answers, in_thread
from cpuwheels.doctor.sandbox import sandbox_check
from cpuwheels.environment.build_env import TOOLS_LOCK, EnvironmentRequest, stored_environment
from cpuwheels.environment.foreign_torch import environment_identity
from cpuwheels.fetch.debian.mirrors import APT_ROOT, mirrors
from cpuwheels.fetch.uv import found_interpreters
from cpuwheels.kernels.memory.limits import available_memory, choose_cap, usable_cpus
from cpuwheels.kernels.memory.plan import plan
from cpuwheels.source.acl import choose_acl
from cpuwheels.source.onednn import choose_onednn
from cpuwheels.source.request import wanted_source
from cpuwheels.source.result import KIND
from cpuwheels.source.sdist import SdistRequest
from cpuwheels.source.upstream_pins import read_pins
from cpuwheels.source.worktree import TreeRequest
from cpuwheels.toolchain.host_compilers import helpers_choice, survey_host
from cpuwheels.toolchain.native_helpers import cpu_at_hand
from cpuwheels.verification.onednn_isa import onednn_limit

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from cpuwheels.config.matrix import Matrix, Target
    from cpuwheels.config.options import ToolchainChoice
    from cpuwheels.config.paths import Paths
    from cpuwheels.config.pins import AclPin, OneDnnPin, TorchPin
    from cpuwheels.environment.sealed_env import Environment
    from cpuwheels.source.request import SourceRequest

_MACHINE, _COMPILERS, _INPUTS, _PROCESSOR = "Machine", "Compilers", "What a build fetches", "Processor"
"""Groups of checks."""


@dataclass(frozen=True)
class _Pins:
    """What the source needs, or may need as long as it cannot be read yet."""

    torch: dict[str, TorchPin]
    onednn: dict[str, OneDnnPin]
    acl: dict[str, AclPin]
    certain: bool


def diagnose(
    paths: Paths,
    matrix: Matrix,
    target: Target,
    options: BuildOptions | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    patience: float = PATIENCE,
    apt_root: Path = APT_ROOT,
) -> Iterator[Check]:
    """Check everything that a build of a target needs; nothing is fetched and nothing changed.

    The checks come in the same order each time, each as soon as it and all before it are known.

    Args:
        paths: Folders of a run.
        matrix: The configuration.
        target: What would be built.
        options: How it would be built.
        environ: The environment; this process's if not given.
        patience: Seconds for all questions to the network together.
        apt_root: Where apt's sources are, which name Debian mirrors.

    Yields:
        One check after the other.
    """
    environ = os.environ if environ is None else environ
    options = options or BuildOptions()
    store = Store(paths.cache)
    yield from _in(_MACHINE, [_machine(target, paths.root), host.judge_python(sys.version_info[:3])])
    try:
        request = wanted_source(matrix, target, options)
        pins = _pins(matrix, request, target, store)
        context = inputs.Context(
            root=paths.root,
            store=store,
            environ=environ,
            mirrors=mirrors(matrix.debian.mirrors, environ, apt_root),
            locked=options.locked,
            certain=pins.certain,
        )
    except CpuwheelsError as error:
        yield from _in(_INPUTS, [from_error("source", error)])
        return
    environment = _environment(paths, matrix, target, pins, store)
    # It takes seconds where some are not there; meanwhile the other checks are printed.
    searching = in_thread(lambda: {} if environment else found_interpreters(matrix.python))
    yield from _in(_MACHINE, _programs(pins, store))
    yield from _in(_MACHINE, [*_disk(paths, target, store), _memory(paths.root, target, options)])
    try:
        yield from _in(_MACHINE, [sandbox_check(context, matrix)])
        pythons = searching.result()
        stored_python = environment.python_version if environment else None
        yield from _in(_MACHINE, [host.judge_build_pythons(matrix.python, pythons, stored_python)])
        tools = 0 if _with_fallback(paths, matrix, target, pins, store) else space.tools_bytes(paths.root, pythons)
        yield from _in(_COMPILERS, _compilers(context, target, options.toolchain))
        needs = [
            *_toolchain_needs(context, target, options.toolchain),
            *_helper_needs(context, matrix, target, options.toolchain),
            *_needs(context, request, pins, target, pythons, tools, stored=environment is not None),
            inputs.debian_need(context, LICENCES, "the licences in the wheel"),
        ]
    except CpuwheelsError as error:
        yield from _in(_INPUTS, [from_error("locks", error)])
        return
    answers = Answers(questions(needs), patience)
    yield from _in(_INPUTS, (judge_need(need, answers) for need in needs))
    yield from _in(_INPUTS, [space.judge_downloads(needs, answers, space.unlisted_bytes(context, matrix, target))])
    cpu = cpu_at_hand(store)
    yield from _in(_PROCESSOR, host.judge_libraries(target, cpu, foreign=is_foreign(target)))
    if cpu is not None and not is_foreign(target):
        yield from _in(_PROCESSOR, host.judge_amx(cpu, onednn_limit(cpu, environ)))


def _in(group: str, checks: Iterable[Check]) -> Iterator[Check]:
    return (replace(check, group=group) for check in checks)


def _machine(target: Target, root: Path) -> Check:
    try:
        check_host(target, root)
    except CpuwheelsError as error:
        return from_error("machine", error)
    cross = f"; {target.id} is built for {target.machine} with a cross compiler" if is_foreign(target) else ""
    return Check("machine", "ok", f"{' '.join(this_machine())}{cross}")


def _compilers(context: inputs.Context, target: Target, choice: ToolchainChoice) -> list[Check]:
    survey = survey_host(target, context.environ)
    return judge_compilers(target, survey, choice, runs=_pinned_runs(context, target))


def _pinned_runs(context: inputs.Context, target: Target) -> bool:
    return target.toolchain is not None and runs_here(load_lock(context.root, target.toolchain))


def _pins(matrix: Matrix, request: SourceRequest, target: Target, store: Store) -> _Pins:
    """Return the source's pins if it can be read, else all known pins; it will need one of each kind."""
    folder: Path | None = None
    if isinstance(request, TreeRequest):
        folder = request.folder
    elif isinstance(request, SdistRequest) and store.path(KIND, request.key).is_dir():
        folder = store.path(KIND, request.key)
    tags, acl, wanted = list(matrix.onednn), list(matrix.acl), _pinned_torch(matrix, request)
    if folder is not None:
        pins = read_pins(folder, markers(target, matrix.python[0]))
        tags, acl, wanted = list(pins.onednn), list(pins.acl), pins.torch
    torch = {version: pin for version, pin in matrix.torch.items() if wanted in {None, version}}
    onednn = choose_onednn(tags, matrix.onednn, target.machine) if target.onednn else None
    asked = choose_acl(acl, matrix.acl, target.machine)
    return _Pins(
        torch,
        dict([onednn] if onednn else []),
        dict([asked] if asked else []),
        certain=folder is not None or len(torch) == 1,
    )


def _pinned_torch(matrix: Matrix, request: SourceRequest) -> str | None:
    release = matrix.release(request.version) if isinstance(request, SdistRequest) else None
    return release.torch if release else None


def _environment(paths: Paths, matrix: Matrix, target: Target, pins: _Pins, store: Store) -> Environment | None:
    lock = paths.root / "locks" / TOOLS_LOCK
    if not lock.is_file():
        return None
    requests = [EnvironmentRequest(version, pin, target, matrix.python, lock) for version, pin in pins.torch.items()]
    found = [stored_environment(request, store) for request in requests]
    # With several candidates, one in the store proves nothing about the one that will be needed.
    return found[0] if len(found) == 1 else None


def _with_fallback(paths: Paths, matrix: Matrix, target: Target, pins: _Pins, store: Store) -> bool:
    """Return whether the store has an environment with the torch that replaces one that cannot be had."""
    lock = paths.root / "locks" / TOOLS_LOCK
    for version, pin in pins.torch.items() if lock.is_file() else ():
        if other := pin.alternate(target.machine):
            torch = environment_identity(paths.root, other.root, other.version, store)
            request = EnvironmentRequest(version, pin, target, matrix.python, lock, foreign=torch)
            if stored_environment(request, store):
                return True
    return False


def _programs(pins: _Pins, store: Store) -> Iterator[Check]:
    step = "install cpuwheels anew: uv is among its requirements"
    try:
        done = capture([uv.find_uv_bin(), "--version"])
        yield host.judge_program("uv", done.returncode, done.output, needed=True, step=step)
    except FileNotFoundError as error:
        yield Check("uv", "fail", str(error), step)
    git_needed = not all(inputs.has_commit(store, "onednn", pin.commit) for pin in pins.onednn.values())
    done = capture(["git", "--version"])
    yield host.judge_program(
        "git", done.returncode, done.output, needed=git_needed, step="install git; oneDNN's pinned commit comes with it"
    )


def _disk(paths: Paths, target: Target, store: Store) -> list[Check]:
    cache = host.disk_facts(paths.cache)
    dist = host.disk_facts(paths.dist)
    return [
        host.judge_disk(
            "cache",
            cache,
            space.bytes_to_write(store, target),
            "CPUWHEELS_CACHE",
            kept=space.bytes_to_keep(store, target),
            kernels_stored=not store.is_empty("kernels"),
        ),
        host.judge_disk("output", dist, host.DIST_BYTES, "--dist"),
    ]


def _memory(root: Path, target: Target, options: BuildOptions) -> Check:
    try:
        jobs = plan(root, target, options)
        cap = choose_cap(options.memory, available_memory())
    except CpuwheelsError as error:
        return from_error("memory", error)
    return host.judge_memory(target, cap, usable_cpus(), jobs)


def _toolchain_needs(
    context: inputs.Context, target: Target, choice: ToolchainChoice, purpose: str = "the compiler"
) -> list[Need]:
    survey, needs = survey_host(target, context.environ), []
    if uses_pinned(target, survey, choice, runs=_pinned_runs(context, target)) and target.toolchain is not None:
        needs.append(inputs.debian_need(context, target.toolchain, purpose))
    if target.sysroot is not None:
        needs.append(inputs.debian_need(context, target.sysroot, "the glibc floor"))
    return needs


def _helper_needs(context: inputs.Context, matrix: Matrix, target: Target, choice: ToolchainChoice) -> list[Need]:
    own = own_target(matrix)
    if not is_foreign(target) or own is None:
        return []
    return _toolchain_needs(context, own, helpers_choice(choice), "the helpers that run on this machine")


def _needs(
    context: inputs.Context,
    request: SourceRequest,
    pins: _Pins,
    target: Target,
    pythons: Mapping[str, Path],
    tools: int | None,
    *,
    stored: bool,
) -> list[Need]:
    needs = [inputs.sdist_need(context, request)] if isinstance(request, SdistRequest) else []
    needs.append(inputs.index_need(context, stored=stored, size=tools))
    needs += [
        inputs.torch_need(context, version, pin, target, pythons, stored=stored) for version, pin in pins.torch.items()
    ]
    needs += [inputs.onednn_need(context, tag, pin) for tag, pin in pins.onednn.items()]
    needs += [inputs.acl_need(context, tag, pin) for tag, pin in pins.acl.items()]
    return needs
