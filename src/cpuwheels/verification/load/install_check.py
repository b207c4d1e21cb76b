"""The install check: the wheel in a fresh environment, every library loaded in a process of its own.

vLLM ignores the error of a library that cannot be loaded and dies later, at the first missing operator. Here each
library is loaded by its path, and what it registers is read from torch's dispatcher.
"""

from __future__ import annotations

import json
import signal
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.utils import parse_wheel_filename
from packaging.version import Version

from cpuwheels.core.errors import CommandError, InstallCheckError
from cpuwheels.core.filesystem import storage_errors, write_atomic
from cpuwheels.core.models import parse_as
from cpuwheels.core.process import Completed, how_ended, signal_name
from cpuwheels.fetch.uv import install_alone
from cpuwheels.verification.load.loader import Module

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from cpuwheels.verification.load.cpu_loaders import CpuLoaders
    from cpuwheels.verification.load.loader import Loaded, Loader

_SUFFIX = ".abi3.so"
_WHERE = (
    "import importlib.metadata as m, json, sys, sysconfig; "
    "print(json.dumps([m.version(sys.argv[1]), sysconfig.get_path('platlib')]))"
)


@dataclass(frozen=True)
class Operator:
    """An operator in torch's registry.

    Attributes:
        name: With its namespace and overload, such as ``_C::rms_norm``.
        schema: As torch prints it.
    """

    name: str
    schema: str


@dataclass(frozen=True)
class CheckedLibrary:
    """One extension module after the check.

    Attributes:
        name: Module name inside the package.
        operators: What it registered, by name; none if it was not loaded, or is not a torch library.
        not_loaded: Why it was not loaded, or empty.
    """

    name: str
    operators: tuple[Operator, ...]
    not_loaded: str = ""


@dataclass(frozen=True)
class InstallCheck:
    """The outcome of the install check.

    Attributes:
        wheel: File name of the wheel.
        version: Version that its installed metadata says.
        torch: Version of the torch it was loaded into.
        libraries: The libraries that register operators.
        modules: Every other extension module of the package.
        manifest: The file that holds all this.
        site: The folder that the wheel was installed into.
    """

    wheel: str
    version: str
    torch: str
    libraries: tuple[CheckedLibrary, ...]
    modules: tuple[CheckedLibrary, ...]
    manifest: Path
    site: Path


def check_install(
    wheel: Path,
    *,
    loader: Loader | CpuLoaders,
    libraries: Mapping[str, Sequence[str]],
    modules: Sequence[str],
    features: Collection[str],
    manifest: Path,
    log: Path,
    announce: Callable[[str], None],
    package: str = "vllm",
) -> InstallCheck:
    """Install a wheel and load each of its extension modules.

    Args:
        wheel: The finished wheel.
        loader: Has a fresh environment with torch, into which the wheel is installed.
        libraries: Library → CPU features it needs; each has to register operators.
        modules: Other extension modules that have to be there; any more that are found are loaded as well.
        features: Features of the CPUs that it is loaded on. A library that needs more is left out and announced.
        manifest: JSON file to write, next to the wheel.
        log: Log file of the step.
        announce: Called with important messages.
        package: The package that holds the modules.

    Raises:
        InstallCheckError: The wheel cannot be installed, says another version, or a library is missing,
            does not load or registers nothing.
    """
    version, platlib = _install(wheel, loader, log)
    folder = platlib / package
    found = {path.name.removesuffix(_SUFFIX) for path in folder.glob(f"*{_SUFFIX}")}
    if missing := sorted({*libraries, *modules} - found):
        raise InstallCheckError(
            f"the installed wheel has no {package}/{missing[0]}{_SUFFIX}",
            where=wheel,
            next_step=f"it has: {', '.join(sorted(found)) or 'no extension module at all'}",
            log=log,
        )
    paths = {name: folder / f"{name}{_SUFFIX}" for name in [*libraries, *sorted(found - libraries.keys())]}
    reasons = {
        name: f"this CPU lacks {', '.join(lacking)}"
        for name, needs in libraries.items()
        if (lacking := sorted(set(needs) - set(features)))
    }
    for name, reason in reasons.items():
        announce(f"{name} was not loaded: {reason}; its operators are not in the manifest")
    wanted = [
        Module("library" if name in libraries else "module", path)
        for name, path in paths.items()
        if name not in reasons
    ]
    loaded = loader.load(wanted)
    torch = next((one.torch for one in loaded.values()), "")
    checked = {
        name: CheckedLibrary(name, (), reasons[name])
        if name in reasons
        else CheckedLibrary(name, _operators(path, loaded[path], log, library=name in libraries))
        for name, path in paths.items()
    }
    check = InstallCheck(
        wheel=wheel.name,
        version=version,
        torch=torch,
        libraries=tuple(checked[name] for name in libraries),
        modules=tuple(checked[name] for name in checked if name not in libraries),
        manifest=manifest,
        site=platlib,
    )
    with storage_errors(manifest.parent):
        write_atomic(manifest, render_manifest(check))
    return check


def render_manifest(check: InstallCheck) -> str:
    """Return the operator manifest: what each library of the wheel registers, with schemas."""
    table = asdict(check)
    del table["manifest"], table["site"]
    return json.dumps(table, indent=1, sort_keys=True) + "\n"


def _install(wheel: Path, loader: Loader | CpuLoaders, log: Path) -> tuple[str, Path]:
    python = loader.python()
    name, expected, _, _ = parse_wheel_filename(wheel.name)
    try:
        install_alone(wheel, python, log)
    except CommandError as error:
        raise InstallCheckError(
            f"{wheel.name} cannot be installed",
            where=wheel,
            log=log,
            output=error.output,
            next_step="uv's output above says why; a tag that does not fit needs a machine of the wheel's target",
        ) from error
    asked = loader.ask(["-I", "-c", _WHERE, name])
    if asked.returncode != 0:
        raise InstallCheckError(
            f"{name} is not there after its installation",
            where=python,
            output=asked.output,
            log=log,
            next_step="the metadata names another project than the wheel's file name; compare METADATA with it",
        )
    version, platlib = parse_as(tuple[str, str], asked.output, python)
    if Version(version) != expected:
        raise InstallCheckError(
            f"the installed metadata says version {version}, the file name {expected}",
            where=wheel,
            log=log,
            next_step="the file was renamed, or built from other metadata: build it again",
        )
    return version, Path(platlib)


def _operators(path: Path, loaded: Loaded, log: Path, *, library: bool) -> tuple[Operator, ...]:
    name = path.name.removesuffix(_SUFFIX)
    if not loaded.torch:
        raise InstallCheckError(
            f"{name} does not load: {describe_end(loaded.done)}",
            where=path,
            log=log,
            output=loaded.done.output,
            next_step=_next_step(loaded.done),
        )
    if library and not loaded.operators:
        raise InstallCheckError(
            f"{name} loads but registers no operator",
            where=path,
            next_step="its registrations were linked away; look at its link command in the kernel log",
            log=log,
        )
    return tuple(Operator(name, schema) for name, schema in loaded.operators)


def _next_step(done: Completed) -> str:
    if done.returncode == -signal.SIGILL:
        return "compare 'needs' of the library in matrix.yaml with the options it was compiled with"
    return "the loading process's output is in the log; a symbol not found is missing on the link line"


def describe_end(done: Completed) -> str:
    """Return how a process ended, in words; for an illegal instruction, with what it means here."""
    if done.returncode >= 0:
        return f"its process {how_ended(done.returncode)}"
    meaning = " (an instruction this CPU does not have)" if done.returncode == -signal.SIGILL else ""
    return f"its process was ended by {signal_name(-done.returncode)}{meaning}"
