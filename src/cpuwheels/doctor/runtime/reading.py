"""Reading a machine from ``/proc`` and ``/sys``, its own or recorded ones."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from cpuwheels.doctor.runtime.machine import Cpu, HugePages, Machine, MemoryLimit, Node
from cpuwheels.kernels.memory.cgroups import ROOT, cpu_quotas, groups, memory_groups, read_or_nothing

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from cpuwheels.doctor.runtime.machine import Probe

CPUINFO, MEMINFO, STATUS = "proc/cpuinfo", "proc/meminfo", "proc/self/status"
CPUS, NODES = "sys/devices/system/cpu", "sys/devices/system/node"
TRANSPARENT = "sys/kernel/mm/transparent_hugepage/enabled"

SEEN_BY_VLLM = ("sys/fs/cgroup/memory.max", "sys/fs/cgroup/memory/memory.limit_in_bytes")
"""The files that vLLM reads a limit from (``get_cgroup_memory_limit`` in vllm/utils/cpu_resource_utils.py)."""

_GIVEN_BACK = ("MemFree", "Active(file)", "Inactive(file)", "SReclaimable")
"""What vLLM counts as available (``get_memory_node_info`` there)."""


def read_machine(probe: Probe, root: Path = ROOT) -> Machine:
    """Read a machine.

    Args:
        probe: What no file tells.
        root: The folder that ``proc`` and ``sys`` are in.
    """
    cpuinfo = _fields(read_or_nothing(root / CPUINFO), ":")
    vendor = probe.cpu.vendor if probe.cpu and probe.cpu.vendor else cpuinfo.get("vendor_id", "")
    model = (probe.cpu.model if probe.cpu else "") or cpuinfo.get("model name", "")
    # Linux names them "flags" on x86, "Features" on Arm and "features" on IBM Z.
    flags = next((cpuinfo[name] for name in ("flags", "Features", "features") if name in cpuinfo), "")
    announced = frozenset(flags.split()) or (probe.cpu.features if probe.cpu else frozenset())
    status = _fields(read_or_nothing(root / STATUS), ":")
    cpus = _cpus(root, status.get("Cpus_allowed_list"), probe)
    quotas = [quota.cpus for quota in cpu_quotas(root / "proc", root)]
    return Machine(
        probe=probe,
        vendor=vendor,
        model=model,
        announced=announced,
        cpus=tuple(cpus),
        nodes=tuple(_nodes(root, status.get("Mems_allowed_list"), probe)),
        limit=_limit(root),
        quota=min(quotas, default=None),
        cgroup=_version(root),
        huge_pages=_huge_pages(root),
    )


def parse_list(text: str) -> list[int]:
    """Return the numbers of a list as Linux writes it, such as ``0-2,4``."""
    found: list[int] = []
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return found


def format_list(numbers: Iterable[int]) -> str:
    """Return numbers as Linux writes them, such as ``0-2,4``."""
    ranges: list[list[int]] = []
    for number in sorted(numbers):
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges)


def _fields(text: str, separator: str) -> dict[str, str]:
    """Return the first value of each field."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        name, _, value = line.partition(separator)
        found.setdefault(name.strip(), value.strip())
    return found


def _cpus(root: Path, allowed: str | None, probe: Probe) -> list[Cpu]:
    folder = root / CPUS
    online = parse_list(read_or_nothing(folder / "online"))
    if not online and probe.system == "Darwin":  # vLLM takes each for a core of its own there
        count = int(probe.environ.get("hw.physicalcpu", "1"))
        return [Cpu(id=number, core=number, node=0, allowed=True) for number in range(count)]
    node_of = {
        cpu: int(path.parent.name.removeprefix("node"))
        for path in (root / NODES).glob("node[0-9]*/cpulist")
        for cpu in parse_list(read_or_nothing(path))
    }
    if probe.architecture == "s390x":
        node_of = _groups_of_z(folder, online)
    may = set(online if allowed is None else parse_list(allowed))
    found = []
    for number in online:
        siblings = parse_list(read_or_nothing(folder / f"cpu{number}/topology/thread_siblings_list"))
        core = min(siblings, default=number)
        found.append(Cpu(id=number, core=core, node=node_of.get(number, 0), allowed=number in may))
    return found


def _groups_of_z(folder: Path, online: list[int]) -> dict[int, int]:
    """Return what vLLM binds by on IBM Z: books, or sockets if there is one book."""
    for name in ("book_id", "physical_package_id"):
        ids = {number: read_or_nothing(folder / f"cpu{number}/topology/{name}").strip() for number in online}
        if len(set(ids.values()) - {""}) > 1:
            return {number: int(text) for number, text in ids.items() if text}
    return {}


def _nodes(root: Path, allowed: str | None, probe: Probe) -> list[Node]:
    may = None if allowed is None else set(parse_list(allowed))
    found = []
    for path in sorted((root / NODES).glob("node[0-9]*/meminfo"), key=lambda path: int(path.parent.name[4:])):
        number = int(path.parent.name.removeprefix("node"))
        sizes = dict(re.findall(r"Node \d+ ([^:]+):\s+(\d+)", read_or_nothing(path)))
        if total := int(sizes.get("MemTotal", 0)) << 10:
            free = sum(int(sizes.get(name, 0)) << 10 for name in _GIVEN_BACK)
            found.append(Node(id=number, total=total, available=free, allowed=may is None or number in may))
    whole = Node(id=0, total=probe.total_memory, available=probe.available_memory, allowed=True)
    return found or [whole]


def _limit(root: Path) -> MemoryLimit | None:
    limits = memory_groups(root / "proc", root)
    if not limits:
        return None
    tightest = min(limits, key=lambda group: group.limit)
    name = tightest.file.relative_to(root).as_posix()
    return MemoryLimit(
        bytes=tightest.limit, used=tightest.used, file=f"/{name}", seen_by_vllm=_seen(root, tightest.limit)
    )


def _seen(root: Path, limit: int) -> bool:
    return any(read_or_nothing(root / name).strip() == str(limit) for name in SEEN_BY_VLLM)


def _version(root: Path) -> int | None:
    found = groups("memory", root / "proc", root)
    holds_memory = [group for group in found if not group.unified]
    if holds_memory:
        return 1
    return 2 if found else None


def _huge_pages(root: Path) -> HugePages:
    mode = re.search(r"\[(\w+)\]", read_or_nothing(root / TRANSPARENT))
    pool = _fields(read_or_nothing(root / MEMINFO), ":").get("HugePages_Total", "0")
    return HugePages(transparent=mode[1] if mode else "", reserved=int(pool))
