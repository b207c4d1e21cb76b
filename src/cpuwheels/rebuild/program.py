"""The cpuwheels that built a wheel: this very checkout, if it is that, or one from a repository that is trusted."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.version import InvalidVersion, Version

from cpuwheels.config.installation import find_checkout
from cpuwheels.config.paths import MATRIX, PACKAGE, is_packaged, project_files
from cpuwheels.core.digests import file_digest, package_digest, tree_names
from cpuwheels.core.errors import CpuwheelsError, RebuildError
from cpuwheels.core.filesystem import storage_errors
from cpuwheels.core.tree_faults import link_faults, name_faults
from cpuwheels.fetch.git import Git
from cpuwheels.pipeline.variation.circumstances import NotVariedError
from cpuwheels.pipeline.variation.driver import driver_environment
from cpuwheels.source.clone import Project, remote_repository
from cpuwheels.source.repository import Repository

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cpuwheels.core.console import Reporter
    from cpuwheels.core.store import Store
    from cpuwheels.rebuild.plan import ProgramFacts

OPTION = "--cpuwheels-repo"
_OWN = Project("cpuwheels", f"with {OPTION}")
_PACKAGE = Path("src") / PACKAGE.name


@dataclass(frozen=True)
class Program:
    """A version of cpuwheels that can be run.

    Attributes:
        commit: Its commit.
        tree: git's name of all files of that commit.
        code: Digest of its code.
        repository: Where it is from.
        root: The folder with its project's files.
        python: An interpreter with all that it requires; None until it is needed.
    """

    commit: str
    tree: str
    code: str
    repository: str
    root: Path
    python: Path | None = None

    @property
    def source(self) -> Path:
        """The folder with its package."""
        return self.root / _PACKAGE.parent


def trusted_repositories(chosen: Sequence[str], pinned: Sequence[str]) -> tuple[str, ...]:
    """Return where versions of cpuwheels may come from: no wheel names any.

    Args:
        chosen: By the user.
        pinned: In matrix.yaml.
    """
    own = [] if is_packaged() or find_checkout(project_files()) is None else [str(project_files())]
    return tuple(dict.fromkeys([*chosen, *own, *pinned]))


def get_program(
    facts: ProgramFacts, repositories: Sequence[str], folder: Path, *, store: Store, reporter: Reporter
) -> Program:
    """Return the version that built a wheel.

    Args:
        facts: Which one it is.
        repositories: That are trusted, tried in order; the commit has to be on a branch or below a tag of one.
        folder: An empty one, for its files unless it is this checkout.
        store: Where clones are kept.
        reporter: Reports which repository is asked.

    Raises:
        RebuildError: No repository publishes the commit, or the wheel was built with other code than it has.
    """
    found = _running(facts) or _fetched(facts, repositories, folder, store=store, reporter=reporter)
    if facts.code and found.code != facts.code:
        raise RebuildError(
            f"the wheel was built with code that commit {facts.commit} of cpuwheels does not have",
            where=found.repository,
            output=f"digest of the code in the statement: {facts.code:.64}\ndigest of the commit's code: {found.code}",
            next_step="a changed checkout built it, or the statement is wrong: do not trust the wheel for it",
        )
    return found


def matrix_of(program: Program, facts: ProgramFacts, given: Path | None) -> Path | None:
    """Return the matrix.yaml that a wheel was built with, if it is not the program's own.

    Args:
        program: The version that built it.
        facts: With the matrix's digest.
        given: A file that the user names.

    Raises:
        RebuildError: It is neither.
    """
    wanted = facts.matrix
    if not wanted or file_digest(program.root / MATRIX) == wanted:
        return None
    if given is not None and file_digest(given) == wanted:
        return given
    raise RebuildError(
        f"the wheel was built with another matrix.yaml than that of commit {program.commit}: sha256 {wanted:.64}",
        where=given or program.root / MATRIX,
        next_step="name that file with --matrix",
    )


def with_python(program: Program, facts: ProgramFacts, folder: Path, log: Path) -> Program:
    """Return a program with an interpreter that runs it.

    Args:
        program: The version.
        facts: With the version as it was installed.
        folder: Of the environment, unless this one is used.
        log: uv's output.

    Raises:
        RebuildError: What it requires cannot be installed.
    """
    if program.root == project_files():
        return replace(program, python=Path(sys.executable))
    try:
        version = str(Version(facts.version))
    except InvalidVersion:
        version = "0"
    try:
        python = driver_environment(folder, Path(sys.executable), program.root, log, version)
    except NotVariedError as error:
        raise RebuildError(
            f"what commit {program.commit} of cpuwheels requires cannot be installed: {error}",
            where=program.root / "locks/run.txt",
            next_step="make the package index reachable, or give a mirror that has it with --mirror",
        ) from error
    return replace(program, python=python)


def _running(facts: ProgramFacts) -> Program | None:
    """Return this very checkout, if it is of that commit and without changes."""
    root = project_files()
    checkout = None if is_packaged() else find_checkout(root)
    if checkout is None or checkout.changed or checkout.commit != facts.commit:
        return None
    return Program(facts.commit, _tree(Git(root), facts.commit), package_digest(PACKAGE), str(root), root)


def _fetched(
    facts: ProgramFacts, repositories: Sequence[str], folder: Path, *, store: Store, reporter: Reporter
) -> Program:
    faults = []
    for address in repositories:
        try:
            repository = _published(address, facts.commit, store=store, reporter=reporter)
            if repository is None:
                faults.append(f"{address}: no branch and no tag leads to it")
                continue
            _export(repository, facts.commit, folder)
        except CpuwheelsError as error:
            faults += [f"{address}: {error.what}", *(f"  {line}" for line in error.output.splitlines())]
            continue
        code = package_digest(folder / _PACKAGE)
        return Program(facts.commit, _tree(repository.git, facts.commit), code, address, folder)
    raise RebuildError(
        f"no repository that is trusted has commit {facts.commit} of cpuwheels, which built the wheel",
        where=", ".join(repositories) or "own_repositories in matrix.yaml",
        output="\n".join(faults),
        next_step=f"name a clone or an address of cpuwheels that you trust with {OPTION}",
    )


def _published(address: str, commit: str, *, store: Store, reporter: Reporter) -> Repository | None:
    """Return a repository if a branch or a tag of it leads to a commit; servers also give those of every fork."""
    # A name that is no tag's has the remote asked again.
    for wanted in ([commit], [commit, "main"]):
        found = remote_repository([address], wanted, store=store, reporter=reporter, project=_OWN)
        if found.has(commit) and found.publishes(commit):
            return Repository(found.git, address)
    return None


def _export(repository: Repository, commit: str, folder: Path) -> None:
    """Write a commit's files into a folder.

    Raises:
        CpuwheelsError: git cannot, or one of its files is not what the commit names.
    """
    with storage_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    objects = repository.objects(commit)
    repository.check_out(commit, folder)
    repository.check_objects(commit, {about.split()[-1] for about in objects.values()})
    names = tree_names(folder)
    if faults := [*name_faults(names), *link_faults(folder, names)]:
        raise RebuildError(f"it has a file that may not be in a source: {faults[0]}", where=repository.name)
    if not (folder / _PACKAGE / "__main__.py").is_file() or not (folder / MATRIX).is_file():
        raise RebuildError(f"commit {commit} is none of cpuwheels", where=repository.name)


def _tree(git: Git, commit: str) -> str:
    return git.ask("rev-parse", "--verify", "--quiet", f"{commit}^{{tree}}").output.strip()
