"""Whether a vLLM can run on a machine: tags, Python, C library, kernel library, AMX, OpenMP, allocator."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from packaging.specifiers import SpecifierSet

from cpuwheels.config.platform_policy import version_number
from cpuwheels.doctor.runtime.findings import Finding

if TYPE_CHECKING:
    from cpuwheels.doctor.runtime.choice import Choice
    from cpuwheels.doctor.runtime.findings import Group, Status
    from cpuwheels.doctor.runtime.machine import Machine
    from cpuwheels.doctor.runtime.package import Package

_LINUX_TAG = re.compile(r"(?:manylinux_(\d+)_(\d+)|(manylinux2014|manylinux2010|manylinux1|linux))_(\w+)")
_MACOS_TAG = re.compile(r"macosx_(\d+)_(\d+)_(\w+)")
_OLD_NAMES = {"manylinux2014": (2, 17), "manylinux2010": (2, 12), "manylinux1": (2, 5), "linux": (0, 0)}
_PRELOAD = "LD_PRELOAD"


def package_findings(machine: Machine, package: Package) -> list[Finding]:
    """Return whether a vLLM fits a machine, and what its processes will have loaded."""
    found = [_version(package), _platform(machine, package), _python(machine, package), *_cpu_build(machine, package)]
    if package.installed and not package.installed.torch:
        found.append(_finding("vLLM", "torch", "fail", "not installed", "install the wheel with its requirements"))
    found += _environment(machine)
    if machine.is_linux:
        found += [_openmp(machine, package), _allocator(machine, package)]
    return found


def kernel_findings(machine: Machine, package: Package, choice: Choice) -> list[Finding]:
    """Return which library is loaded, what is missing for a better one, and what becomes of AMX and BF16."""
    found = [_library(choice), *_better(choice)]
    if choice.amx.detail:
        found.append(_amx(choice))
    return [*found, *_bfloat16(machine, package, choice), *_zen(machine, package)]


def _finding(group: Group, name: str, status: Status, detail: str, step: str = "") -> Finding:
    return Finding(group=group, name=name, status=status, detail=detail, next_step=step)


def _version(package: Package) -> Finding:
    where = f"installed, Python {package.installed.python}" if package.installed else "wheel"
    return _finding("vLLM", "version", "ok", f"{package.version} ({where}: {package.name})")


def _platform(machine: Machine, package: Package) -> Finding:
    name = "platform"
    faults = [_unfit(machine, tag) for tag in package.platforms]
    if not faults or "" in faults:
        return _finding("vLLM", name, "ok", f"{', '.join(package.platforms) or 'no tag'} fits this system")
    step = "use a wheel for this machine, or a newer system; `nox -s build-<target>` builds wheels for old ones"
    return _finding("vLLM", name, "fail", faults[0], step)


def _unfit(machine: Machine, tag: str) -> str:
    """Return why a platform tag does not fit; empty if it does."""
    if linux := _LINUX_TAG.fullmatch(tag):
        needs = (int(linux[1]), int(linux[2])) if linux[1] else _OLD_NAMES[linux[3]]
        return _unfit_linux(machine, tag, linux[4], needs)
    if mac := _MACOS_TAG.fullmatch(tag):
        return _unfit_macos(machine, tag, mac[3], int(mac[1]))
    return "" if tag == "any" else f"{tag} is not known"


def _unfit_linux(machine: Machine, tag: str, architecture: str, needs: tuple[int, int]) -> str:
    if not machine.is_linux or architecture != machine.architecture:
        return f"{tag} is for Linux on {architecture}; this is {machine.probe.system} on {machine.architecture}"
    if machine.probe.glibc is None:
        return f"{tag} needs the GNU C library; this system has another one"
    if version_number(machine.probe.glibc)[:2] < needs:
        return f"{tag} needs glibc {needs[0]}.{needs[1]}; this system has {machine.probe.glibc}"
    return ""


def _unfit_macos(machine: Machine, tag: str, architecture: str, oldest: int) -> str:
    if machine.is_linux or architecture not in {machine.architecture, "universal2"}:
        return f"{tag} is for macOS on {architecture}; this is {machine.probe.system} on {machine.architecture}"
    if version_number(machine.probe.macos or "0")[:1] < (oldest,):
        return f"{tag} needs macOS {oldest}; this is {machine.probe.macos}"
    return ""


def _python(machine: Machine, package: Package) -> Finding:
    name = "Python"
    version = (package.installed.python if package.installed else "") or machine.probe.python
    if not package.requires_python or SpecifierSet(package.requires_python).contains(version, prereleases=True):
        return _finding("vLLM", name, "ok", f"{version}; it needs {package.requires_python or 'any'}")
    step = "make an environment with a Python in that range, for example: uv venv --python 3.12"
    return _finding("vLLM", name, "fail", f"{version} is outside {package.requires_python}", step)


def _cpu_build(machine: Machine, package: Package) -> list[Finding]:
    """Check that vLLM takes itself for a CPU build (``cpu_platform_plugin`` in vllm/platforms/__init__.py)."""
    if "cpu" in package.version or not machine.is_linux or machine.probe.environ.get("VLLM_TARGET_DEVICE") == "cpu":
        return []
    detail = f"version {package.version} has no 'cpu' in it, so vLLM finds no platform"
    return [_finding("vLLM", "CPU build", "fail", detail, "export VLLM_TARGET_DEVICE=cpu, or install a CPU build")]


def _environment(machine: Machine) -> list[Finding]:
    """List the variables that are set already: they count unless the lines that are pasted replace them."""
    found = {name: value for name, value in machine.probe.environ.items() if name.isupper() and name != _PRELOAD}
    listed = ", ".join(f"{name}={value}" for name, value in sorted(found.items()))
    return [_finding("vLLM", "environment", "info", f"sets {listed}")] if listed else []


def _openmp(machine: Machine, package: Package) -> Finding:
    name, preload = "OpenMP", machine.probe.environ.get(_PRELOAD, "")
    own = [part for part in ("libgomp", "libiomp", "libomp") if part in preload]
    if "libgomp" in own and len(own) > 1:
        detail = f"{_PRELOAD} names two runtimes ({preload}): the engine ends with an AssertionError"
        return _finding("vLLM", name, "fail", detail, f"leave one of them in {_PRELOAD}, or unset it")
    if own:
        return _finding("vLLM", name, "ok", f"{own[0]} from {_PRELOAD}; vLLM preloads no other one")
    if package.intel_openmp and (package.installed is None or package.installed.iomp):
        return _finding("vLLM", name, "ok", "vLLM preloads Intel's libiomp5, which the package requires")
    if package.installed and not package.installed.openmp:
        detail = "torch brings none, so vLLM preloads none: threads may not be bound"
        others = ", ".join(one for one in machine.probe.libraries if "omp" in one)
        step = f"export {_PRELOAD}={others}" if others else "install torch's own CPU build"
        return _finding("vLLM", name, "advice", detail, step)
    shown = package.installed.openmp[0] if package.installed else "the libgomp of torch"
    if package.installed and package.installed.iomp:
        detail = f"vLLM preloads {shown}; Intel's is installed, and is faster for speculative decoding"
        step = f"export {_PRELOAD}={package.installed.iomp}"
        return _finding("vLLM", name, "advice", detail, step)
    return _finding("vLLM", name, "ok", f"vLLM preloads {shown}")


def _allocator(machine: Machine, package: Package) -> Finding:
    name = "tcmalloc"
    if "libtcmalloc" in machine.probe.environ.get(_PRELOAD, ""):
        return _finding("vLLM", name, "ok", f"from {_PRELOAD}")
    if package.allocator:
        return _finding("vLLM", name, "ok", "in the package; vLLM preloads it")
    system = next((one for one in machine.probe.libraries if "tcmalloc" in one), None)
    step = f"export {_PRELOAD}={system}" if system else f"install libtcmalloc-minimal4 and name it in {_PRELOAD}"
    return _finding("vLLM", name, "advice", "not in the package: vLLM warns, and allocates more slowly", step)


def _library(choice: Choice) -> Finding:
    name = "library"
    if choice.fault:
        shown = f"{choice.library}: " if choice.library else ""
        step = "use another machine, or a package with a library for this one (docs/chooser.md)"
        return _finding("Kernels", name, "fail", f"{shown}{choice.fault}", step)
    return _finding("Kernels", name, "ok", f"{choice.library}: {choice.reason}")


def _better(choice: Choice) -> list[Finding]:
    found = []
    for candidate in choice.better:
        lacks = f"this CPU lacks {', '.join(candidate.missing)}" if candidate.missing else "not chosen"
        absent = "" if candidate.present else "; the package does not hold it"
        found.append(_finding("Kernels", f"better: {candidate.name}", "info", f"{lacks}{absent}"))
    return found


def _amx(choice: Choice) -> Finding:
    amx, name = choice.amx, "AMX"
    if amx.state in {"works", "none"}:
        return _finding("Kernels", name, "ok" if amx.state == "works" else "info", amx.detail)
    if amx.state == "without oneDNN":
        step = "let the hypervisor pass CPUID leaf 0x1d on; nothing has to be set for this package"
        return _finding("Kernels", name, "advice", amx.detail, step)
    if amx.state == "unknown":
        return _finding(
            "Kernels", name, "advice", amx.detail, "install cpuwheels with a C compiler, which makes isaprobe"
        )
    detail = f"{amx.detail}; products in bfloat16 and float16 end the process"
    step = "serve in float32 with the settings above, or use a wheel of this project, or another machine"
    return _finding("Kernels", name, "advice", detail, step)


def _bfloat16(machine: Machine, package: Package, choice: Choice) -> list[Finding]:
    if machine.has_bfloat16 or not choice.library or machine.architecture not in {"x86_64", "aarch64"}:
        return []
    if machine.architecture == "aarch64":
        detail = "this CPU has no instructions for it (as Graviton 2): it is converted to float32 and back"
    elif package.rounds_bfloat16:
        detail = "this CPU has no AVX512-BF16: it is converted to float32 and back"
    else:
        detail = "this CPU has no AVX512-BF16: results are cut off instead of rounded (docs/findings.md)"
    step = "serve in float32 if there is memory for it: with --model, --dtype above is chosen so"
    return [_finding("Kernels", "bfloat16", "advice", detail, step)]


def _zen(machine: Machine, package: Package) -> list[Finding]:
    if not machine.is_zen:
        return []
    name = "AMD Zen"
    if package.installed and package.installed.zentorch:
        return [_finding("Kernels", name, "ok", "zentorch is installed; vLLM computes with it")]
    if "zen" not in package.extras:
        return [_finding("Kernels", name, "info", "this package has no extra for zentorch")]
    detail = "AVX-512 on an AMD CPU: vLLM can compute with zentorch, which is an extra"
    what, where = ("vllm[zen]", "") if package.installed else (f"{package.name}[zen]", ", in the wheel's folder")
    step = f"install the extra{where}: uv pip install '{what}' --torch-backend cpu"
    return [_finding("Kernels", name, "advice", detail, step)]
