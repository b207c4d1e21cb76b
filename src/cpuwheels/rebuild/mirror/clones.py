"""Repositories of a mirror: a bundle with the history of cpuwheels, and bare clones with commits of the others."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from cpuwheels.core.digests import file_digest
from cpuwheels.core.errors import MirrorError
from cpuwheels.core.filesystem import remove_tree, replace_tree, storage_errors
from cpuwheels.fetch.git import Git, place_of
from cpuwheels.rebuild.mirror.manifest import CLONES, MirroredClone

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cpuwheels.rebuild.mirror.wanted import WantedCommit

_SECONDS = 3600.0
_EVERYTHING = ("+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*")


def keep_commit(folder: Path, wanted: WantedCommit, repositories: Sequence[str]) -> MirroredClone:
    """Return a clone of the mirror that has a commit, fetched unless it is there already.

    vLLM's has its history, from which a commit's version is counted; of the others there is the commit alone.

    Args:
        folder: The mirror.
        wanted: The commit.
        repositories: Where it may be, in order.

    Raises:
        MirrorError: No repository has it.
    """
    place = folder / CLONES / f"{wanted.kind}.git"
    git = Git(place)
    kept = MirroredClone(kind=wanted.kind, name=place.name, commits=(wanted.commit,))  # type: ignore[arg-type]
    with storage_errors(folder):
        place.mkdir(parents=True, exist_ok=True)
    if git.ask("init", "--quiet", "--bare").returncode != 0:
        remove_tree(place)
        place.mkdir(parents=True)
        git.ask("init", "--quiet", "--bare")
    if not _has(git, wanted.commit):
        _fetch(git, wanted, repositories, place)
    # A build asks for a commit by its hash, by its tag, or for all branches.
    git.ask("config", "uploadpack.allowAnySHA1InWant", "true")
    git.ask("update-ref", f"refs/heads/kept-{wanted.commit}", wanted.commit)
    if wanted.tag and wanted.tag != wanted.commit:
        git.ask("update-ref", f"refs/tags/{wanted.tag}", wanted.commit)
    return kept


def keep_program(folder: Path, repository: str, commit: str) -> MirroredClone:
    """Return the bundle of the mirror that has a commit of cpuwheels with its history.

    Args:
        folder: The mirror.
        repository: Where the commit is.
        commit: Its full hash.

    Raises:
        MirrorError: git cannot make it.
    """
    target = folder / CLONES / f"cpuwheels-{commit}.bundle"
    if not (target.is_file() and _lists(target, commit)):
        with storage_errors(folder):
            target.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(prefix=".bundle-", dir=target.parent) as work:
                made = _bundle(Path(work), repository, commit)
                replace_tree(made, target)
    return MirroredClone(kind="cpuwheels", name=target.name, commits=(commit,), sha256=file_digest(target))


def _bundle(work: Path, repository: str, commit: str) -> Path:
    clone = work / "clone.git"
    clone.mkdir()
    git, made = Git(clone), work / "bundle"
    steps: list[list[str]] = [
        ["init", "--quiet", "--bare", "--initial-branch=main"],
        ["fetch", "--quiet", "--no-tags", "--", place_of(repository), "+refs/heads/*:refs/remotes/origin/*"],
        ["fetch", "--quiet", "--", place_of(repository), "+refs/tags/*:refs/tags/*"],
        ["update-ref", "refs/heads/main", commit],
        ["bundle", "create", "--quiet", str(made), "HEAD", "refs/heads/main"],
    ]
    for step in steps:
        _do(git, step, f"commit {commit} of cpuwheels cannot be kept", repository)
    return made


def _lists(bundle: Path, commit: str) -> bool:
    """Return whether a bundle is whole and has a commit."""
    with tempfile.TemporaryDirectory() as work:
        git = Git(Path(work))
        git.ask("init", "--quiet", "--bare")
        done = git.ask("fetch", "--quiet", "--no-tags", "--", str(bundle), "+refs/heads/*:refs/heads/*")
        return done.returncode == 0 and _has(git, commit)


def _fetch(git: Git, wanted: WantedCommit, repositories: Sequence[str], place: Path) -> None:
    faults: list[str] = []
    for repository in repositories:
        address = place_of(repository)
        whole = ["--no-tags", "--", address, *_EVERYTHING]
        tag = [["--no-tags", "--depth=1", "--", address, f"refs/tags/{wanted.tag}"]] if wanted.tag else []
        one = [["--no-tags", "--depth=1", "--", address, wanted.commit], *tag, whole]
        for arguments in [whole] if wanted.kind == "vllm" else one:
            done = git.ask("fetch", "--quiet", *arguments, timeout=_SECONDS)
            if _has(git, wanted.commit):
                return
        said: Sequence[str] = done.output.strip().splitlines()
        faults.append(f"{repository}: {said[0] if said else 'it does not have it'}")
    raise MirrorError(
        f"commit {wanted.commit} of {wanted.kind} cannot be fetched",
        where=place,
        output="\n".join(faults),
        next_step="make one of the repositories reachable, or name a clone (docs/mirrors.md)",
    )


def _do(git: Git, arguments: Sequence[str], what: str, where: str) -> None:
    done = git.ask(*arguments, timeout=_SECONDS)
    if done.returncode != 0:
        raise MirrorError(what, where=where, output=done.output, next_step="read git's message")


def _has(git: Git, commit: str) -> bool:
    return git.ask("cat-file", "-e", f"{commit}^{{commit}}").returncode == 0
