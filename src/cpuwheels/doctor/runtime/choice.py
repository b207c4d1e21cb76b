"""Which kernel library vLLM loads on a machine, and what is missing for a better one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from cpuwheels.core.models import Strict
from cpuwheels.verification.onednn_isa import highest_level

if TYPE_CHECKING:
    from cpuwheels.doctor.runtime.machine import Machine
    from cpuwheels.doctor.runtime.package import Package

FORCED = "CPUWHEELS_ISA"
"""Variable that makes a chooser load one library and no other."""


class _Row(NamedTuple):
    """A library on x86: what vLLM asks for, and what the library needs beyond that."""

    name: str
    asked: frozenset[str]
    needs: frozenset[str]


_AVX512 = frozenset({"avx512f", "avx512vl", "avx512bw", "avx512dq"})
_X86 = (
    _Row("_C", _AVX512 | {"avx512_bf16"}, frozenset({"avx512_vnni", "f16c", "fma"})),
    _Row("_C_AVX512", _AVX512, frozenset({"f16c", "fma"})),
    _Row("_C_AVX2", frozenset(), frozenset({"avx2", "f16c", "fma"})),
)
"""The order of ``import_kernels`` in vllm/platforms/cpu.py, with torch.cpu's questions (ATen/cpu/Utils.cpp: AVX-512 is
F, VL, BW and DQ), and the instruction sets that upstream's CMake compiles each library for."""


class Candidate(Strict):
    """A library of the package, as it is for a machine."""

    name: str
    present: bool
    """Whether the package holds it."""
    missing: tuple[str, ...]
    """Features that it needs and the machine lacks."""


class Amx(Strict):
    """What becomes of AMX."""

    state: Literal["none", "works", "without oneDNN", "dies", "unknown"]
    detail: str
    limit: str = ""
    """The value of ``ONEDNN_MAX_CPU_ISA`` that keeps oneDNN from using it; empty where that is not needed."""


class Choice(Strict):
    """The library that vLLM loads."""

    library: str
    """Empty if it loads none."""
    reason: str
    """A clause."""
    fault: str = ""
    """Why it cannot work; empty if it can."""
    candidates: tuple[Candidate, ...]
    """The best first."""
    amx: Amx

    @property
    def better(self) -> tuple[Candidate, ...]:
        """The libraries that would be preferred, if the machine or the package had what they need."""
        names = [candidate.name for candidate in self.candidates]
        return self.candidates[: names.index(self.library)] if self.library in names else ()


def choose(machine: Machine, package: Package) -> Choice:
    """Return what vLLM loads: as vLLM itself chooses on x86, or as the package's chooser does elsewhere."""
    amx = judge_amx(machine, package)
    if not _is_for(machine, package):
        fault = f"the package is for {', '.join(package.platforms)}"
        return Choice(library="", reason="", fault=fault, candidates=(), amx=amx)
    if package.chooser:
        return _by_chooser(machine, package, amx)
    if machine.architecture == "x86_64" and package.picks:
        return _by_vllm(machine, package, amx)
    present = "_C" in package.libraries
    return Choice(
        library="_C" if present else "",
        reason="it is the only one; the package does not tell which CPU it needs",
        fault="" if present else "the package holds no vllm/_C",
        candidates=(Candidate(name="_C", present=present, missing=()),),
        amx=amx,
    )


def _is_for(machine: Machine, package: Package) -> bool:
    endings = (machine.architecture, "universal2", "any")
    return not package.platforms or any(tag.endswith(endings) for tag in package.platforms)


def _by_vllm(machine: Machine, package: Package, amx: Amx) -> Choice:
    candidates = tuple(
        Candidate(
            name=row.name,
            present=row.name in package.libraries,
            missing=tuple(sorted((row.asked | row.needs) - machine.features)),
        )
        for row in _X86
    )
    row = next(row for row in _X86 if row.asked <= machine.features)
    chosen = next(candidate for candidate in candidates if candidate.name == row.name)
    if "avx512_bf16" in row.asked:
        reason = "vLLM loads it on CPUs with AVX-512 and its BF16 instructions"
    else:
        reason = "vLLM loads it on CPUs with AVX-512" if row.asked else "vLLM loads it on CPUs without AVX-512"
    fault = ""
    if not chosen.present:
        fault = f"the package does not hold {chosen.name}; vLLM logs a warning and fails at the first operator"
    elif chosen.missing:
        fault = f"this CPU has no {', '.join(chosen.missing)}: an illegal instruction ends the process"
    return Choice(library=chosen.name, reason=reason, fault=fault, candidates=candidates, amx=amx)


def _by_chooser(machine: Machine, package: Package, amx: Amx) -> Choice:
    candidates = tuple(
        Candidate(
            name=one.name,
            present=one.name in package.libraries,
            missing=tuple(need for need in one.needs if need not in machine.features),
        )
        for one in package.chooser
    )
    forced = machine.probe.environ.get(FORCED, "")
    wanted = [one for one in candidates if not forced or forced.upper() in {one.name, one.name.removeprefix("_C_")}]
    chosen = next((one for one in wanted if not one.missing), None)
    if chosen is None:
        lacks = "; ".join(f"{one.name} needs {', '.join(one.missing)}" for one in wanted if one.missing)
        fault = f"this CPU can run none of the package's libraries: {lacks}"
        if forced:
            fault = f"{FORCED}={forced}: {lacks or 'the package has no such library'}"
        return Choice(library="", reason="", fault=fault, candidates=candidates, amx=amx)
    needs = next(one.needs for one in package.chooser if one.name == chosen.name)
    reason = f"{FORCED}={forced} asks for it" if forced else f"this CPU has {', '.join(needs)}, all that it needs"
    fault = "" if chosen.present else f"the package does not hold {chosen.name}"
    return Choice(library=chosen.name, reason=reason, fault=fault, candidates=candidates, amx=amx)


def judge_amx(machine: Machine, package: Package) -> Amx:
    """Return whether vLLM and oneDNN can use the tiles of a CPU that announces AMX."""
    if not machine.announces_amx:
        return Amx(state="none", detail="this CPU has none" if machine.architecture == "x86_64" else "")
    if machine.probe.cpu is None or machine.probe.cpu.amx is None:
        return Amx(state="unknown", detail="announced; without isaprobe it is not known whether it can be used")
    found = machine.probe.cpu.amx
    if found.usable_by_onednn:
        return Amx(state="works", detail="usable by oneDNN and by vLLM's own kernels")
    limit = highest_level(machine.features)
    if found.enabled and found.permitted and package.sees_to_amx:
        detail = f"{found.why_not}; the library keeps oneDNN from using it, and its own kernels use it"
        return Amx(state="without oneDNN", detail=f"announced, but {detail}")
    return Amx(state="dies", detail=f"announced, but {found.why_not}", limit=limit)
