"""The whole examination: what is asked, in which order it is told."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import uv

from cpuwheels.acl import choose_acl
from cpuwheels.debian.mirrors import APT_ROOT, mirrors
from cpuwheels.doctor import machine, sources
from cpuwheels.doctor.check import Check, from_error
from cpuwheels.doctor.compilers import judge_compilers, uses_pinned
from cpuwheels.doctor.needs import Need, judge_need, questions
from cpuwheels.doctor.reach import PATIENCE, ask_all
from cpuwheels.environment import EnvironmentRequest, stored_environment
from cpuwheels.errors import CpuwheelsError
from cpuwheels.memory import available_memory, choose_cap, usable_cpus
from cpuwheels.model.lock import load_lock
from cpuwheels.native import cpu_at_hand
from cpuwheels.onednn import choose_onednn
from cpuwheels.onednn_isa import onednn_limit
from cpuwheels.options import BuildOptions
from cpuwheels.platforms import check_host, is_foreign, markers, own_target, runs_here, this_machine
from cpuwheels.process import capture
from cpuwheels.run import TOOLS_LOCK, helpers_choice, plan
from cpuwheels.source.pins import read_pins
from cpuwheels.source.request import request_source
from cpuwheels.source.result import KIND
from cpuwheels.source.sdist import SdistRequest
from cpuwheels.source.tree import TreeRequest
from cpuwheels.store import Store
from cpuwheels.toolchain.host import survey_host
from cpuwheels.venvs import found_interpreters

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from cpuwheels.config import Places
    from cpuwheels.environment import Environment
    from cpuwheels.model.matrix import Matrix, Target
    from cpuwheels.model.pins import AclPin, OneDnnPin, TorchPin
    from cpuwheels.options import ToolchainChoice
    from cpuwheels.source.request import SourceRequest


@dataclass(frozen=True)
class _Pins:
    """What the source asks for, or may ask for while it is not there to be read."""

    torch: dict[str, TorchPin]
    onednn: dict[str, OneDnnPin]
    acl: dict[str, AclPin]
    certain: bool


def default_target(matrix: Matrix) -> Target:
    """Return the target that is meant when none is named: the first ready one for this machine."""
    ready = [target for target in matrix.targets if target.is_ready]
    here = [target for target in ready if not is_foreign(target)]
    return (here or ready)[0]


def diagnose(
    places: Places,
    matrix: Matrix,
    target: Target,
    options: BuildOptions | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    patience: float = PATIENCE,
    apt_root: Path = APT_ROOT,
) -> tuple[Check, ...]:
    """Check everything that a build of a target needs; nothing is fetched and nothing changed.

    Args:
        places: Folders of a run.
        matrix: The configuration.
        target: What would be built.
        options: How it would be built.
        environ: The environment; this process's if not given.
        patience: Seconds for all questions to the network together.
        apt_root: Where apt's sources are, which name Debian mirrors.
    """
    environ = os.environ if environ is None else environ
    options = options or BuildOptions()
    store = Store(places.cache)
    checks = [_machine(target, places.root), machine.judge_python(sys.version_info[:3])]
    try:
        request = request_source(
            options.source, options.sha256, matrix, default=matrix.source_of(target), clone=options.repo,
            locked=options.locked,
        )  # fmt: skip
        pins = _pins(matrix, request, target, store)
        context = sources.Context(
            root=places.root,
            store=store,
            environ=environ,
            mirrors=mirrors(matrix.debian.mirrors, environ, apt_root),
            locked=options.locked,
            certain=pins.certain,
        )
    except CpuwheelsError as error:
        return (*checks, from_error("source", error))
    environment = _environment(places, matrix, target, pins, store)
    pythons = {} if environment else found_interpreters(matrix.python)
    checks += [
        machine.judge_build_pythons(matrix.python, pythons, environment.python_version if environment else None),
        *_programs(pins, store),
        *_disk(places, target, store, environment),
        _memory(places.root, target, options),
    ]
    try:
        checks += _compilers(context, target, options.toolchain)
        needs = [
            *_toolchain_needs(context, target, options.toolchain),
            *_helper_needs(context, matrix, target, options.toolchain),
            *_needs(context, request, pins, target, pythons, stored=environment is not None),
        ]
    except CpuwheelsError as error:
        return (*checks, from_error("locks", error))
    answers = ask_all(questions(needs), patience)
    checks += [judge_need(need, answers) for need in needs]
    cpu = cpu_at_hand(store)
    checks += machine.judge_libraries(target, cpu, foreign=is_foreign(target))
    if cpu is not None and not is_foreign(target):
        checks += machine.judge_amx(cpu, onednn_limit(cpu, environ))
    return tuple(checks)


def _machine(target: Target, root: Path) -> Check:
    try:
        check_host(target, root)
    except CpuwheelsError as error:
        return from_error("machine", error)
    cross = f"; {target.id} is built for {target.machine} with a cross compiler" if is_foreign(target) else ""
    return Check("machine", "ok", f"{' '.join(this_machine())}{cross}")


def _compilers(context: sources.Context, target: Target, choice: ToolchainChoice) -> list[Check]:
    survey = survey_host(target, context.environ)
    return judge_compilers(target, survey, choice, runs=_pinned_runs(context, target))


def _pinned_runs(context: sources.Context, target: Target) -> bool:
    return target.toolchain is not None and runs_here(load_lock(context.root, target.toolchain))


def _pins(matrix: Matrix, request: SourceRequest, target: Target, store: Store) -> _Pins:
    """Return the source's pins if it can be read; else all there are, of which it will need one each."""
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


def _environment(places: Places, matrix: Matrix, target: Target, pins: _Pins, store: Store) -> Environment | None:
    lock = places.root / "locks" / TOOLS_LOCK
    if not lock.is_file():
        return None
    requests = [EnvironmentRequest(version, pin, target, matrix.python, lock) for version, pin in pins.torch.items()]
    found = [stored_environment(request, store) for request in requests]
    # With several candidates one of them in the store proves nothing about the one that will be needed.
    return found[0] if len(found) == 1 else None


def _programs(pins: _Pins, store: Store) -> list[Check]:
    git_needed = not all(sources.has_commit(store, "onednn", pin.commit) for pin in pins.onednn.values())
    done = capture(["git", "--version"])
    git = machine.judge_program(
        "git", done.returncode, done.output, needed=git_needed,
        step="install git; oneDNN's pinned commit comes with it",
    )  # fmt: skip
    try:
        done = capture([uv.find_uv_bin(), "--version"])
    except FileNotFoundError as error:
        return [Check("uv", "fail", str(error), "install cpuwheels anew: uv is among its requirements"), git]
    step = "install cpuwheels anew: uv is among its requirements"
    return [machine.judge_program("uv", done.returncode, done.output, needed=True, step=step), git]


def _disk(places: Places, target: Target, store: Store, environment: Environment | None) -> list[Check]:
    need = machine.COLD_BUILD_BYTES - (machine.ENVIRONMENT_BYTES if environment else 0)
    need += machine.CROSS_BYTES if is_foreign(target) else 0
    kernels = any((store.root / "kernels").glob("[!.]*"))
    cache = machine.disk_facts(places.cache)
    dist = machine.disk_facts(places.dist)
    return [
        machine.judge_disk("cache", cache, need, "CPUWHEELS_CACHE", kernels_stored=kernels),
        machine.judge_disk("output", dist, machine.DIST_BYTES, "--dist"),
    ]


def _memory(root: Path, target: Target, options: BuildOptions) -> Check:
    try:
        jobs = plan(root, target, options)
        cap = choose_cap(options.memory, available_memory())
    except CpuwheelsError as error:
        return from_error("memory", error)
    return machine.judge_memory(target, cap, usable_cpus(), jobs)


def _toolchain_needs(
    context: sources.Context, target: Target, choice: ToolchainChoice, purpose: str = "the compiler"
) -> list[Need]:
    survey, needs = survey_host(target, context.environ), []
    if uses_pinned(target, survey, choice, runs=_pinned_runs(context, target)) and target.toolchain is not None:
        needs.append(sources.debian_need(context, target.toolchain, purpose))
    if target.sysroot is not None:
        needs.append(sources.debian_need(context, target.sysroot, "the glibc floor"))
    return needs


def _helper_needs(context: sources.Context, matrix: Matrix, target: Target, choice: ToolchainChoice) -> list[Need]:
    own = own_target(matrix)
    if not is_foreign(target) or own is None:
        return []
    return _toolchain_needs(context, own, helpers_choice(choice), "the helpers that run on this machine")


def _needs(
    context: sources.Context,
    request: SourceRequest,
    pins: _Pins,
    target: Target,
    pythons: Mapping[str, Path],
    *,
    stored: bool,
) -> list[Need]:
    needs = [sources.sdist_need(context, request)] if isinstance(request, SdistRequest) else []
    needs.append(sources.index_need(context, stored=stored))
    needs += [
        sources.torch_need(context, version, pin, target, pythons, stored=stored) for version, pin in pins.torch.items()
    ]
    needs += [sources.onednn_need(context, tag, pin) for tag, pin in pins.onednn.items()]
    needs += [sources.acl_need(context, tag, pin) for tag, pin in pins.acl.items()]
    return needs
