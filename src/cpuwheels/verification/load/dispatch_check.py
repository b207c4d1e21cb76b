"""What a chooser loads on each CPU: the first library of its target that the CPU can run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from cpuwheels.core.environ import closed_environment
from cpuwheels.core.errors import InstallCheckError
from cpuwheels.core.models import parse_as
from cpuwheels.core.process import run
from cpuwheels.kernels.isa_dispatch import file_name
from cpuwheels.sandbox.confine import unconfined
from cpuwheels.verification.load.loader import PROBES

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from cpuwheels.config.matrix import Target
    from cpuwheels.sandbox.confine import Confine
    from cpuwheels.verification.emulation.cpus import Cpu

_PROBE = PROBES / "dispatch_probe.py"


def require_chosen(
    cpus: Sequence[Cpu], target: Target, site: Path, log: Path, package: str = "vllm", confine: Confine = unconfined
) -> dict[str, str]:
    """Check that a wheel's chooser loads on each CPU the first library that the CPU can run.

    Args:
        cpus: The CPUs.
        target: Names the chooser, and the libraries in the order of preference.
        site: The folder that the wheel is installed into.
        log: Log file of the step.
        package: The package that the chooser is in.
        confine: Confines a command of the interpreter; it runs as it is if not given.

    Returns:
        CPU → library; CPUs that can run none are left out, as are all if there is no chooser.

    Raises:
        InstallCheckError: It loads another one, or none.
    """
    if target.chooser is None:
        return {}
    path = site / package / file_name(target.chooser)
    wanted = [(cpu, library.name) for cpu in cpus if (library := cpu.first(target.libraries))]
    return {cpu.name: _require(cpu, name, f"{package}.{target.chooser}", path, log, confine) for cpu, name in wanted}


def _require(cpu: Cpu, wanted: str, module: str, path: Path, log: Path, confine: Confine) -> str:
    where = cpu.name or "this machine's CPU"
    said: list[str] = []
    confined = confine([*cpu.python, "-P", _PROBE, module, path], closed_environment(cpu.environment))
    done = run(confined.argv, log=log, env=confined.env, on_line=said.append, check=False)
    if done.returncode != 0:
        raise InstallCheckError(
            f"{path.name} cannot be imported on {where}",
            where=path,
            log=log,
            output=done.output,
            next_step=f"it has to load {wanted}; its output says what it did",
        )
    found = parse_as(str, said[-1] if said else "", log)
    if found != wanted:
        raise InstallCheckError(
            f"{path.name} loads {found} on {where}, and not {wanted}",
            where=path,
            log=log,
            next_step="compare 'needs' of the libraries in matrix.yaml with what the chooser reads of the CPU",
        )
    return wanted
