"""What a server meets of the machine itself: cores, memory nodes, limits, allocator, system calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cpuwheels.core.units import format_size
from cpuwheels.doctor.runtime.findings import Finding
from cpuwheels.doctor.runtime.reading import format_list

if TYPE_CHECKING:
    from cpuwheels.doctor.runtime.findings import Status
    from cpuwheels.doctor.runtime.machine import Machine

_SHARED = "/dev/shm"  # noqa: S108  (a name)
_LEAST_SHARED = 1 << 30
"""Bytes of ``/dev/shm`` below which workers may not find room for what they exchange; Docker's default is 64 MiB."""


def machine_findings(machine: Machine, workers: int) -> list[Finding]:
    """Return what is found of a machine.

    Args:
        machine: Live or recorded.
        workers: Workers that vLLM will have.
    """
    found = [_processor(machine), _cores(machine), _nodes(machine), _memory(machine), *_control_groups(machine)]
    if machine.is_linux:
        found += [_huge_pages(machine), *_memory_policy(machine), *_programs(machine), *_shared(machine, workers)]
    return found


def _finding(name: str, status: Status, detail: str, step: str = "") -> Finding:
    return Finding(group="Machine", name=name, status=status, detail=detail, next_step=step)


def _processor(machine: Machine) -> Finding:
    model = " ".join(filter(None, (machine.vendor, machine.model)))
    unusable = sorted(
        name for name in machine.announced - machine.features if name.startswith(("avx", "amx")) and machine.probe.cpu
    )
    detail = f"{model or 'unknown'} ({machine.architecture})"
    if machine.probe.cpu is None:
        detail += "; features as the system lists them: there is no isaprobe, which tests what can be used"
    if unusable:
        detail += f"; announced but not usable: {', '.join(unusable)}"
    return _finding("processor", "ok", detail)


def _cores(machine: Machine) -> Finding:
    detail = f"{machine.cores} physical, {len(machine.allowed)} CPUs ({format_list(cpu.id for cpu in machine.allowed)})"
    if machine.threads_per_core > 1:
        detail += f"; SMT, {machine.threads_per_core} CPUs for each core"
    if len(machine.allowed) < len(machine.cpus):
        detail += f"; a cpuset or affinity excludes {len(machine.cpus) - len(machine.allowed)} of {len(machine.cpus)}"
    return _finding("cores", "ok", detail)


def _nodes(machine: Machine) -> Finding:
    nodes = machine.usable_nodes
    if len(machine.nodes) == 1:
        return _finding("memory nodes", "ok", "1")
    listed = ", ".join(f"{node.id}: {format_size(node.total)}" for node in nodes)
    excluded = len(machine.nodes) - len(nodes)
    more = f"; {excluded} more without CPUs or not allowed" if excluded else ""
    return _finding("memory nodes", "ok", f"{len(nodes)} ({listed}){more}")


def _memory(machine: Machine) -> Finding:
    total = sum(node.total for node in machine.nodes)
    free = sum(node.available for node in machine.nodes if node.allowed)
    return _finding("memory", "ok", f"{format_size(total)}, {format_size(free)} of it available")


def _control_groups(machine: Machine) -> list[Finding]:
    found = []
    if limit := machine.limit:
        detail = f"{format_size(limit.bytes)} ({limit.file}), {format_size(limit.used)} in use"
        if limit.seen_by_vllm:
            found.append(_finding("memory limit", "ok", detail))
        else:
            found.append(
                _finding(
                    "memory limit",
                    "advice",
                    f"{detail}; vLLM reads the limit of the root of the control groups and does not see this one",
                    "set VLLM_CPU_KVCACHE_SPACE as above; the share of RAM would be taken of the whole machine's",
                )
            )
    if machine.quota is not None:
        detail = f"{machine.quota:g} CPUs' worth of time (cgroup v{machine.cgroup})"
        if machine.quota < len(machine.allowed):
            detail += f" on {len(machine.allowed)} CPUs; vLLM does not see that and starts a thread for each core"
            step = "set VLLM_CPU_OMP_THREADS_BIND as above, or give the container CPUs of its own (--cpuset-cpus)"
            found.append(_finding("CPU quota", "advice", detail, step))
        else:
            found.append(_finding("CPU quota", "ok", detail))
    return found


def _huge_pages(machine: Machine) -> Finding:
    pages = machine.huge_pages
    pool = f"; {pages.reserved} pages reserved, which vLLM does not use" if pages.reserved else ""
    if pages.transparent == "never":
        return _finding("huge pages", "info", f"transparent ones are switched off{pool}")
    return _finding("huge pages", "info", f"transparent: {pages.transparent or 'none'}{pool}")


def _memory_policy(machine: Machine) -> list[Finding]:
    name, error = "get_mempolicy", machine.probe.get_mempolicy
    if error is None:
        return []
    if not error:
        return [_finding(name, "ok", "allowed; vLLM can bind memory to nodes")]
    detail = f"refused with {error}: libnuma prints 'Operation not permitted', and vLLM binds no memory"
    if len(machine.nodes) == 1:
        return [_finding(name, "info", f"{detail}, which changes nothing with one memory node")]
    step = "run the container with --cap-add SYS_NICE (Docker, Podman), or with a seccomp profile that allows it"
    return [_finding(name, "advice", f"{detail}: threads may compute on another node's memory", step)]


def _programs(machine: Machine) -> list[Finding]:
    if not machine.probe.lscpu:
        detail = "not found; each worker runs it when it starts, and ends with an error"
        return [_finding("lscpu", "fail", detail, "install util-linux")]
    if not machine.probe.compiler:
        detail = "no C++ compiler: torch.compile cannot be used, and vLLM's start fails unless it is switched off"
        step = "install g++, or serve with --enforce-eager as above"
        return [_finding("C++ compiler", "advice", detail, step)]
    return [_finding("C++ compiler", "ok", f"{machine.probe.compiler}, for torch.compile")]


def _shared(machine: Machine, workers: int) -> list[Finding]:
    size = machine.probe.shared_memory
    if workers == 1 or size is None or size >= _LEAST_SHARED:
        return []
    detail = f"{format_size(size)}, where {workers} workers exchange what they compute"
    return [_finding(_SHARED, "advice", detail, "run the container with --shm-size=4g")]
