"""The machine itself: programs, disk, memory, processor. Facts in, checks out; only `disk_facts` asks."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cpuwheels.core.filesystem import free_bytes
from cpuwheels.core.units import format_size
from cpuwheels.doctor.check import Check
from cpuwheels.verification.onednn_isa import VARIABLE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from cpuwheels.config.matrix import Target
    from cpuwheels.doctor.check import Status
    from cpuwheels.kernels.memory.limits import CpuLimit, JobPlan, MemoryLimit
    from cpuwheels.toolchain.native_helpers import CpuFeatures
    from cpuwheels.verification.onednn_isa import OnednnLimit

MINIMUM_PYTHON = (3, 11)
"""``requires-python`` of this project: `tarfile`'s data filter and `typing.Self`."""

DIST_BYTES = 512 << 20
"""Disk for the results: a wheel of at most 60 MB (three stripped libraries, packed 21 MB), staged before it is
renamed, its reports, and room for the separate debug symbols of a build with ``--debug-symbols``."""


@dataclass(frozen=True)
class DiskFacts:
    """A folder that a build writes to.

    Attributes:
        path: The folder; it need not be there yet.
        free: Bytes.
        fault: Why nothing can be written there; empty if it can.
    """

    path: Path
    free: int
    fault: str = ""


def disk_facts(path: Path) -> DiskFacts:
    """Look at a folder, or at the nearest one above it that is there, by writing a file that has no name."""
    nearest = path
    while not nearest.exists() and nearest != nearest.parent:
        nearest = nearest.parent
    try:
        with tempfile.TemporaryFile(dir=nearest) as stream:
            stream.write(b"\0")
    except OSError as error:
        return DiskFacts(path, 0, f"{nearest}: {error.strerror or error}")
    return DiskFacts(path, free_bytes(nearest))


def judge_disk(
    name: str, facts: DiskFacts, need: int, setting: str, *, kept: int = 0, kernels_stored: bool = False
) -> Check:
    """Check a folder's free space.

    Args:
        name: What the folder is.
        facts: What was found.
        need: Bytes a build may write there.
        setting: What moves it elsewhere, for the next step.
        kept: Bytes of those that stay there; 0 if that is not worth a word.
        kernels_stored: Whether some kernels are in the store, so that perhaps nothing is compiled.
    """
    if facts.fault:
        return Check(name, "fail", f"cannot be written: {facts.fault}", f"make it writable, or set {setting}")
    detail = f"{format_size(facts.free)} free at {facts.path}"
    stays = f", and keeps about {format_size(kept)} of it" if kept else ""
    if facts.free >= need:
        return Check(name, "ok", f"{detail}; a build takes about {format_size(need)}{stays}" if kept else detail)
    step = f"free space there, or set {setting} to a folder on a larger disk"
    status: Status = "warn" if kernels_stored else "fail"
    return Check(name, status, f"{detail}; a build may need {format_size(need)}{stays}", step)


def judge_python(version: tuple[int, int, int]) -> Check:
    """Check the Python that runs this program."""
    shown = ".".join(map(str, version))
    if version[:2] >= MINIMUM_PYTHON:
        return Check("Python", "ok", shown)
    wanted = ".".join(map(str, MINIMUM_PYTHON))
    return Check("Python", "fail", f"{shown} is too old", f"run nox with Python {wanted} or newer")


def judge_build_pythons(wanted: Sequence[str], found: Mapping[str, Path], stored: str | None) -> Check:
    """Check the interpreters that the build environment can be made from.

    Args:
        wanted: Versions in order of preference.
        found: Those there are.
        stored: Version of an environment that an earlier build left.
    """
    name = "build Python"
    if stored is not None:
        return Check(name, "ok", f"{stored}; its environment is in the store")
    if found:
        return Check(name, "ok", ", ".join(f"{version} ({path})" for version, path in found.items()))
    return Check(
        name,
        "fail",
        f"none of Python {', '.join(wanted)} is installed",
        f"install Python {wanted[0]}, for example: uv python install {wanted[0]}",
    )


def judge_program(name: str, status: int, output: str, *, needed: bool, step: str) -> Check:
    """Check a helper program by its answer to ``--version``.

    Args:
        name: The program.
        status: Its exit status; 127 if it is not there.
        output: What it wrote.
        needed: Whether a build fails without it.
        step: How to get it.
    """
    lines = output.strip().splitlines()
    if status == 0:
        return Check(name, "ok", lines[0] if lines else "present")
    found = "not found" if status == 127 else f"does not run (status {status})"  # noqa: PLR2004  (as shells say it)
    return Check(name, "fail" if needed else "info", found, step)


def judge_memory(target: Target, limit: MemoryLimit, cpus: CpuLimit, plan: JobPlan) -> Check:
    """Check the memory that jobs will share, given a plan that fits it."""
    jobs = "1 job" if plan.jobs == 1 else f"{plan.jobs} jobs at once"
    detail = (
        f"{format_size(limit.bytes)} ({limit.where}), {format_size(limit.available)} of it free; "
        f"{cpus.count} CPUs ({cpus.where}); {jobs}, set by {plan.reason}"
    )
    if limit.available < target.worst_peak:
        return Check(
            "memory",
            "warn",
            f"{detail}; the largest compilation needs {format_size(target.worst_peak)}",
            "end other programs before building, or compilers may be killed for memory",
        )
    return Check("memory", "ok", detail)


def judge_libraries(target: Target, cpu: CpuFeatures | None, *, foreign: bool = False) -> list[Check]:
    """Check which of a target's libraries this processor can load.

    vLLM takes the first that fits, in the order of the matrix. A build needs none of them to fit.

    Args:
        target: Whose libraries.
        cpu: This machine's processor, if it is known.
        foreign: Whether the libraries are for another kind of machine.
    """
    name = "CPU features"
    if foreign:
        return [Check(name, "info", f"the libraries are for {target.machine}; this machine can only emulate one")]
    if cpu is None:
        unknown = "not known: isaprobe is compiled by the first build, or when the package is installed with a compiler"
        return [Check(name, "info", unknown)]
    lacking = {library.name: sorted(set(library.needs) - cpu.features) for library in target.libraries}
    chosen = next((library for library, missing in lacking.items() if not missing), None)
    model = cpu.model or cpu.vendor or cpu.architecture
    rows = [
        Check(f"library {library}", "ok", "can be loaded here")
        if not missing
        else Check(f"library {library}", "info", f"cannot be loaded here: this CPU has no {', '.join(missing)}")
        for library, missing in lacking.items()
    ]
    if chosen is None:
        summary = Check(
            name,
            "warn",
            f"{model}: none of the libraries can be loaded here",
            "the wheel can be built here, but has to be tested on another machine",
        )
    else:
        summary = Check(name, "ok", f"{model}: vLLM would load {chosen}")
    return [summary, *rows]


def judge_amx(cpu: CpuFeatures, limit: OnednnLimit | None) -> list[Check]:
    """Check whether oneDNN and vLLM can use the tiles that an x86 processor announces.

    Args:
        cpu: This machine's processor.
        limit: How far oneDNN may go with it.
    """
    name = "AMX"
    if cpu.architecture != "x86_64":
        return []
    if cpu.amx is None:
        return [Check(name, "info", "this CPU has none")]
    held = _held_back(limit)
    if cpu.amx.usable_by_onednn:
        return [Check(name, "ok", f"usable by oneDNN and vLLM{held}")]
    detail = f"announced, but {cpu.amx.why_not}{held}"
    if limit is None or not cpu.amx.permitted:
        return [Check(name, "info", detail)]
    if limit.from_user:
        return [Check(name, "warn", detail, f"see that {limit.isa} is a level without AMX, such as AVX512_CORE_FP16")]
    step = f"set {VARIABLE}={limit.isa} where you run torch or another's wheel, or bfloat16 products die or fail"
    return [Check(name, "warn", detail, step)]


def _held_back(limit: OnednnLimit | None) -> str:
    if limit is None:
        return ""
    return f"; oneDNN is held back to {limit.isa}{f' because {limit.reason}' if limit.from_user else ''}"
