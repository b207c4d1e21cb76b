"""Which packages a set of packages needs, from a suite's index. Pure; `resolve` reads and writes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from debian.deb822 import Packages, PkgRelation

from cpuwheels.config.debian_lock import DebianPackage
from cpuwheels.core.errors import ToolchainError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


@dataclass(frozen=True)
class Candidate:
    """A package of a suite: its pin, and what it depends on as the index writes it."""

    package: DebianPackage
    depends: str

    @property
    def needs(self) -> tuple[str, ...]:
        """Names it depends on: the first of each set of alternatives."""
        return tuple(dict.fromkeys(_first(self.depends)))


@dataclass(frozen=True)
class Index:
    """A suite's packages for one architecture.

    Attributes:
        suite: Its name, for messages.
        candidates: By package name.
        providers: Virtual package name → packages that provide it, sorted.
    """

    suite: str
    candidates: dict[str, Candidate]
    providers: dict[str, list[str]] = field(default_factory=dict)


def read_index(suite: str, text: str) -> Index:
    """Read the text of a ``Packages`` file.

    Of several versions of a package the last one counts, which is the newest in Debian's own files.

    Raises:
        ToolchainError: A package's entry lacks something, or names a file outside of the mirror.
    """
    candidates: dict[str, Candidate] = {}
    providers: dict[str, set[str]] = {}
    for paragraph in Packages.iter_paragraphs(text.splitlines(keepends=True), use_apt_pkg=False):
        package = _package(suite, paragraph)
        depends = [paragraph[field] for field in ("Pre-Depends", "Depends") if field in paragraph]
        candidates[package.name] = Candidate(package, ", ".join(depends))
        for virtual in _first(paragraph.get("Provides", "")):
            providers.setdefault(virtual, set()).add(package.name)
    return Index(suite, candidates, {name: sorted(found) for name, found in providers.items()})


def closure(
    index: Index, roots: Sequence[str], *, leave_out: Iterable[str] = (), dependencies: bool = True
) -> list[DebianPackage]:
    """Return the packages needed by ``roots``, sorted by name.

    Args:
        index: The suite.
        roots: Packages to take.
        leave_out: Packages not to take, nor what only they need.
        dependencies: Whether to follow dependencies at all.

    Raises:
        ToolchainError: The suite lacks a package.
    """
    left_out = set(leave_out)
    todo = [(name, "the lock's suites") for name in roots]
    found: dict[str, DebianPackage] = {}
    while todo:
        name, wanted_by = todo.pop()
        if name in left_out:
            continue
        if name not in index.candidates:
            name = _provider(index, name, wanted_by)
        if name in found or name in left_out:
            continue
        candidate = index.candidates[name]
        found[name] = candidate.package
        if dependencies:
            todo += [(need, name) for need in candidate.needs]
    return sorted(found.values(), key=lambda package: package.name)


def _package(suite: str, paragraph: Packages) -> DebianPackage:
    try:
        return DebianPackage(
            name=paragraph["Package"],
            version=paragraph["Version"],
            path=paragraph["Filename"],
            size=int(paragraph["Size"]),
            sha256=paragraph["SHA256"],
        )
    except (KeyError, ValueError) as error:
        raise ToolchainError(
            f"the index of Debian suite {suite} has an entry that cannot be used: {' '.join(str(error).split())}",
            where=paragraph.get("Package", "a package without a name"),
            next_step="use another mirror (CPUWHEELS_DEBIAN_MIRROR)",
        ) from error


def _provider(index: Index, name: str, wanted_by: str) -> str:
    providers = index.providers.get(name, [])
    if not providers:
        raise ToolchainError(
            f"Debian suite {index.suite} has no package {name}",
            where=f"needed by {wanted_by}",
            next_step="correct the name in the lock's suites, or add it to leave_out if it is not needed",
        )
    return providers[0]


def _first(relations: str) -> list[str]:
    return [group[0]["name"] for group in PkgRelation.parse_relations(relations) if group] if relations else []
