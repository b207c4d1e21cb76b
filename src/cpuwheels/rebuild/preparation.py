"""What a rebuild and a mirror begin with: a published wheel, how it is rebuilt, and the cpuwheels that built it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cpuwheels.rebuild.program import get_program, matrix_of, trusted_repositories
from cpuwheels.rebuild.published import get_published
from cpuwheels.rebuild.reading import read_published

if TYPE_CHECKING:
    from pathlib import Path

    from cpuwheels.attestation.verify import Trust
    from cpuwheels.config.matrix import Matrix, Target
    from cpuwheels.config.paths import Paths
    from cpuwheels.core.console import Reporter
    from cpuwheels.core.store import Store
    from cpuwheels.rebuild.program import Program
    from cpuwheels.rebuild.published import Published
    from cpuwheels.rebuild.reading import Found


@dataclass(frozen=True)
class WheelChoice:
    """Which wheel is meant, and what is believed of it.

    Attributes:
        wheel: A path or an address; with an index a version or a commit.
        index: Address of an index.
        commit: Of the cpuwheels that built the wheel, if nothing says it.
        repositories: Where versions of cpuwheels may come from, besides this checkout and matrix.yaml.
        trust: Whose signatures on the provenance count; it is believed without one when None.
        called: An address and what it is called in a report: an index in a folder is served while it is read.
    """

    wheel: str
    index: str | None = None
    commit: str | None = None
    repositories: tuple[str, ...] = ()
    trust: Trust | None = None
    called: tuple[str, str] | None = None


@dataclass(frozen=True)
class Prepared:
    """A wheel that can be rebuilt.

    Attributes:
        published: The wheel.
        found: How it is rebuilt, and who says that.
        program: The cpuwheels that built it.
        matrix: The matrix.yaml that it was built with, if it is not the program's own.
    """

    published: Published
    found: Found
    program: Program
    matrix: Path | None


def prepare(
    paths: Paths, matrix: Matrix, target: Target, choice: WheelChoice, base: Path, *, store: Store, reporter: Reporter
) -> Prepared:
    """Fetch and read a wheel, and get the cpuwheels that built it.

    Args:
        paths: With the matrix that the user names, if any.
        matrix: The configuration of this version: which repositories are trusted.
        target: Which wheel is meant, where an index has several.
        choice: What the user chose.
        base: An empty folder.
        store: Where clones are kept.
        reporter: Told of every step.

    Raises:
        CpuwheelsError: A step's own error.
    """
    (base / "published").mkdir()
    with reporter.stage("published", "the wheel, and what says how it was built"):
        place = base / "published"
        published = get_published(choice.wheel, choice.index, target, place, reporter, called=choice.called)
        found = read_published(published, choice.commit, choice.trust)
    reporter.info(f"{published.wheel.name}: sha256 {published.sha256}")
    for remark in found.plan.remarks:
        reporter.announce(remark)
    own = trusted_repositories(choice.repositories, matrix.own_repositories)
    program = get_program(found.plan.program, own, base / "program", store=store, reporter=reporter)
    reporter.info(f"cpuwheels: commit {program.commit}, tree {program.tree}, from {program.repository}")
    return Prepared(published, found, program, matrix_of(program, found.plan.program, paths.other_matrix))
