"""The CPUs that a wheel's libraries are tested on: this machine's own, and emulated ones."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cpuwheels.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from pathlib import Path

    from cpuwheels.config.matrix import Library


@dataclass(frozen=True)
class Cpu:
    """A CPU, and the Python that runs on it.

    Attributes:
        name: As QEMU names it; empty for this machine's own.
        features: What it has, as `isaprobe` names it.
        python: The interpreter, preceded by an emulator or the like.
        libraries: Those that are tested on it; all that it can run if None.
        environment: Variables that programs need on it.
    """

    name: str
    features: frozenset[str]
    python: Sequence[str | Path]
    libraries: tuple[str, ...] | None = None
    environment: Mapping[str, str] = field(default_factory=dict)

    def tries(self, library: str) -> bool:
        """Return whether a library is to be tested on it, if it can run it."""
        return self.libraries is None or library in self.libraries

    def lacks(self, needs: Iterable[str]) -> list[str]:
        """Return the features that a library needs and this CPU lacks."""
        return sorted(set(needs) - self.features)

    def first(self, libraries: Iterable[Library]) -> Library | None:
        """Return the first of some libraries that it can run."""
        return next((library for library in libraries if not self.lacks(library.needs)), None)


def require_runnable(library: str, needs: Mapping[str, Collection[str]], features: Collection[str]) -> None:
    """Check that this machine's CPU can run a library.

    Args:
        library: Its name.
        needs: CPU features that libraries need, by name.
        features: What this CPU has.

    Raises:
        UsageError: It cannot.
    """
    if lacking := sorted(set(needs.get(library, ())) - set(features)):
        raise UsageError(
            f"this CPU cannot run {library}: it lacks {', '.join(lacking)}",
            where="--library",
            next_step="choose another library, or run it on a CPU that has what is needed",
        )


def emulated_features(libraries: Iterable[Library]) -> dict[str, frozenset[str]]:
    """Return the emulated CPUs that libraries name, in their order, each with what its libraries need."""
    found: dict[str, frozenset[str]] = {}
    for library in libraries:
        if library.emulated:
            found[library.emulated] = found.get(library.emulated, frozenset()) | frozenset(library.needs)
    return found


def plainest_cpu(libraries: Iterable[Library]) -> str:
    """Return the last of the emulated CPUs that libraries name: the plainest, which is the fastest to emulate."""
    return list(emulated_features(libraries))[-1]
