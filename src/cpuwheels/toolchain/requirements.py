"""Whether a compiler meets a target's requirements. Pure: takes compilers' answers, returns reasons."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from packaging.version import Version

if TYPE_CHECKING:
    from cpuwheels.config.matrix import Target

_MACRO = re.compile(r"^#define (\w+)(?: (.*))?$", re.MULTILINE)
_FAMILIES = (
    # Marker, family, the three parts of its version. Clang also calls itself GNU, so GNU comes last.
    ("__apple_build_version__", "AppleClang", ("__clang_major__", "__clang_minor__", "__clang_patchlevel__")),
    ("__INTEL_LLVM_COMPILER", "IntelLLVM", ("__clang_major__", "__clang_minor__", "__clang_patchlevel__")),
    ("__NVCOMPILER", "NVHPC", ("__NVCOMPILER_MAJOR__", "__NVCOMPILER_MINOR__", "__NVCOMPILER_PATCHLEVEL__")),
    ("__clang__", "Clang", ("__clang_major__", "__clang_minor__", "__clang_patchlevel__")),
    ("__GNUC__", "GNU", ("__GNUC__", "__GNUC_MINOR__", "__GNUC_PATCHLEVEL__")),
)
_SYSTEM_WORDS = {"Linux": "linux", "Darwin": "darwin"}


@dataclass(frozen=True)
class Identity:
    """What a compiler is.

    Attributes:
        family: As CMake names it.
        version: Three numbers.
        machine: The triplet it compiles for.
    """

    family: str
    version: str
    machine: str

    def __str__(self) -> str:
        """Return family and version, such as ``GNU 12.2.0``."""
        return f"{self.family} {self.version}"


def identify(macros: str, machine: str) -> Identity | None:
    """Return what a compiler is, or None if it is of no known family.

    Args:
        macros: Its predefined macros, from ``-dM -E``. Unlike ``--version``, they are not worded by whoever
            packaged it.
        machine: What ``-dumpmachine`` prints.
    """
    values = {name: value or "" for name, value in _MACRO.findall(macros)}
    for marker, family, parts in _FAMILIES:
        if marker in values:
            version = ".".join(values.get(part, "0") for part in parts)
            return Identity(family, version, machine.strip())
    return None


def objections(identity: Identity, target: Target) -> list[str]:
    """Return every reason why a target does not accept a compiler; an empty list means that it does."""
    gate = target.compiler
    faults = []
    if identity.family != gate.family:
        faults.append(f"{target.id} needs {gate.family} {gate.minimum} or newer")
    elif Version(identity.version) < Version(gate.minimum):
        faults.append(f"older than {gate.family} {gate.minimum}, which {target.id} needs")
    machine, _, rest = identity.machine.partition("-")
    if machine != target.machine or _SYSTEM_WORDS[target.system] not in rest:
        faults.append(f"it compiles for {identity.machine}, not for {target.machine} {target.system}")
    return faults


def search_list(text: str) -> tuple[str, ...]:
    """Return the folders that a compiler searches for ``<…>`` headers, from what ``-E -v`` prints."""
    _, found, rest = text.partition("#include <...> search starts here:")
    folders, _, _ = rest.partition("End of search list.")
    lines = (line.strip().removesuffix(" (framework directory)") for line in folders.splitlines())
    return tuple(line for line in lines if line) if found else ()
