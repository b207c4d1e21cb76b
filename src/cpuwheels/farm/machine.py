"""What a machine offers to jobs, as far as it can be told without compiling or fetching anything."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cpuwheels.config.host import check_host, is_foreign, this_machine
from cpuwheels.core.errors import CpuwheelsError, FarmError
from cpuwheels.core.models import Strict
from cpuwheels.core.units import format_size
from cpuwheels.kernels.memory.limits import available_memory, choose_cap, usable_cpus
from cpuwheels.toolchain.native_helpers import cpu_at_hand

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from cpuwheels.config.matrix import Matrix, Target
    from cpuwheels.core.store import Store
    from cpuwheels.farm.job import Needs

AMX_USABLE = "amx-usable"
"""Not a name of Linux's: AMX that oneDNN's kernels work with, which not every machine that announces it has."""

SLOT, MEMORY, CPUS = "job", "memory", "cpus"
"""Resources that are amounts: the machine itself, which does one job at a time, its memory and its CPUs."""

_ABILITIES = frozenset({"build", "test", "serve"})
_PLENTY = 1e9
"""Of a resource that is there or not, and that nothing uses up."""


class Machine(Strict):
    """What a machine offers."""

    name: str
    cpus: int
    memory: int
    """Bytes that a build may take."""
    can: frozenset[str]
    """Such as ``build:x86``, ``test:arm``, ``serve:x86``."""
    features: frozenset[str]
    """Of the CPU, as Linux names them, and `AMX_USABLE`; empty where nothing reports them."""

    def lacks(self, needs: Needs) -> str:
        """Return what a job needs that this machine does not have, for people; empty if it can do it."""
        if needs.can not in self.can:
            return f"{self.name} cannot {needs.can.replace(':', ' ')}"
        if missing := needs.features - self.features:
            return f"the CPU of {self.name} has no {', '.join(sorted(missing))}"
        if needs.memory > self.memory:
            return f"{self.name} has {format_size(self.memory)} for a build that needs {format_size(needs.memory)}"
        return ""

    def resources(self) -> dict[str, float]:
        """Return what the machine offers as dask.distributed has it: names and amounts."""
        there = [*self.can, *(f"cpu:{name}" for name in self.features)]
        amounts = {SLOT: 1.0, MEMORY: float(self.memory), CPUS: float(self.cpus)}
        return {**amounts, **dict.fromkeys(there, _PLENTY)}


def resources_of(needs: Needs) -> dict[str, float]:
    """Return what a job needs as dask.distributed has it; the counterpart of `Machine.resources`."""
    there = [needs.can, *(f"cpu:{name}" for name in needs.features)]
    return {SLOT: 1.0, MEMORY: float(needs.memory), **dict.fromkeys(there, 1.0)}


def fits(needs: Needs, offered: Mapping[str, float]) -> bool:
    """Return whether a machine with these resources can do a job."""
    return all(offered.get(name, 0.0) >= amount for name, amount in resources_of(needs).items())


def this_offers(name: str, matrix: Matrix, root: Path, store: Store, memory: str | None) -> Machine:
    """Return what this machine offers.

    Args:
        name: What it is called.
        matrix: The configuration.
        root: The project's folder.
        store: Where an earlier build may have left what reports the CPU.
        memory: Memory cap as given.

    Raises:
        MemoryCapError: The cap is not a size.
    """
    cpu = cpu_at_hand(store)
    features = cpu.features if cpu else frozenset[str]()
    if cpu and cpu.amx and cpu.amx.usable_by_onednn:
        features |= {AMX_USABLE}
    return Machine(
        name=name,
        cpus=usable_cpus().count,
        memory=choose_cap(memory, available_memory()).bytes,
        can=frozenset(one for target in matrix.targets if target.is_ready for one in _abilities(target, matrix, root)),
        features=features,
    )


def _abilities(target: Target, matrix: Matrix, root: Path) -> list[str]:
    found = []
    try:
        check_host(target, root)
    except CpuwheelsError:
        pass
    else:
        found.append(f"build:{target.id}")
    system, architecture = this_machine()
    if not is_foreign(target):
        found += [f"test:{target.id}", f"serve:{target.id}"]
    elif target.root is not None and system == "Linux" and architecture in matrix.emulator:
        found.append(f"test:{target.id}")
    return found


def require_machine(needs: Needs, what: str, machines: Mapping[str, Mapping[str, float]]) -> list[str]:
    """Return the names of the machines that can do a job.

    Args:
        needs: What it needs.
        what: The job, for people.
        machines: What each offers, by its name.

    Raises:
        FarmError: None can.
    """
    found = [name for name, offered in machines.items() if fits(needs, offered)]
    if found:
        return found
    wanted = [needs.can.replace(":", " "), *sorted(needs.features)]
    size = f", with {format_size(needs.memory)}" if needs.memory else ""
    offers = "\n".join(f"{name}: {_offer(offered)}" for name, offered in machines.items())
    raise FarmError(
        f"no machine can do {what}: it has to {', '.join(wanted)}{size}",
        where=f"{len(machines)} machines",
        output=offers,
        next_step="start a worker on a machine that can (cpuwheels farm worker), or leave this job out",
    )


def _offer(offered: Mapping[str, float]) -> str:
    can = sorted(name.replace(":", " ") for name in offered if name.partition(":")[0] in _ABILITIES)
    size, cpus = format_size(int(offered.get(MEMORY, 0))), int(offered.get(CPUS, 0))
    return f"{', '.join(can) or 'nothing'}; {size}, {cpus} CPUs"
