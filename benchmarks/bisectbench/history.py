"""A repository made of vLLM's releases with small commits between them, some of which change kernels."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from cpuwheels.core.errors import UsageError
from cpuwheels.core.filesystem import remove_tree
from cpuwheels.core.git_settings import git_environment
from cpuwheels.core.tree_faults import RESERVED

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

Fault = Literal["kernel", "python"]

PLACES: Mapping[Fault, tuple[str, str, str]] = {
    "kernel": ("csrc/cpu/layernorm.cpp", r"1\.0f / sqrtf\(", "1.01f / sqrtf("),
    "python": ("vllm/utils/math_utils.py", r"return -\(a // -b\)", "return a // b"),
}
"""File, pattern and replacement of each fault: a norm that is off by 1%, a division that is rounded down."""

KERNELS = ("csrc/cpu/activation.cpp", "csrc/cpu/layernorm.cpp", "csrc/cpu/pos_encoding.cpp")
"""The files that commits with kernel changes change, in turn."""

AT: Mapping[Fault, float] = {"python": 0.35, "kernel": 0.7}
"""The place of each fault after the last release, as a part of those commits."""

KERNELS_SUFFIXES = frozenset({"cpp", "hpp", "h"})

_EPOCH = 1_700_000_000


@dataclass(frozen=True)
class History:
    """A finished repository.

    Attributes:
        folder: The clone, with main checked out.
        commits: Hashes, the oldest first.
        first_bad: The commit that each fault came with.
        kernel_changes: Commits that change kernels, releases included.
    """

    folder: Path
    commits: tuple[str, ...]
    first_bad: Mapping[Fault, str]
    kernel_changes: tuple[str, ...]


class Repository:
    """A repository that is written commit by commit; the same content gives the same hashes.

    Args:
        folder: Made anew.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.commits: list[str] = []
        remove_tree(folder)
        folder.mkdir(parents=True)
        self.git("init", "--quiet", "--initial-branch=main")
        self.git("config", "gc.auto", "0")

    def git(self, *arguments: str) -> str:
        """Run git in it and return the output."""
        moment = f"{_EPOCH + 60 * len(self.commits)} +0000"
        person = {"NAME": "bench", "EMAIL": "bench@example.invalid", "DATE": moment}
        who = {f"GIT_{role}_{part}": value for role in ("AUTHOR", "COMMITTER") for part, value in person.items()}
        command = ["git", "-C", str(self.folder), *arguments]
        env = os.environ | git_environment() | who
        return subprocess.run(command, env=env, check=True, capture_output=True, text=True).stdout.strip()

    def release(self, tree: Path, version: str) -> str:
        """Commit a release with its tag, replacing everything that was there."""
        for path in self.folder.iterdir():
            if path.name != ".git":
                remove_tree(path) if path.is_dir() else path.unlink()
        # Files that an sdist has besides those of its commit; a build would write the last anew, over a tracked file.
        ignore = shutil.ignore_patterns(f"{RESERVED}*", "PKG-INFO", "*.egg-info", ".git", "_version.py")
        shutil.copytree(tree, self.folder, symlinks=True, ignore=ignore, copy_function=_copy, dirs_exist_ok=True)
        self.git("add", "--all", "--force")
        commit = self._commit(f"Release {version}")
        self.git("tag", f"v{version}")
        return commit

    def change(self, message: str, texts: Mapping[str, str]) -> str:
        """Commit files with new content, by their path."""
        for name, text in texts.items():
            (self.folder / name).write_text(text, encoding="utf-8")
        self.git("add", "--force", *texts)
        return self._commit(message)

    def _commit(self, message: str) -> str:
        self.git("commit", "--quiet", "--allow-empty", "-m", message)
        self.commits.append(self.git("rev-parse", "HEAD"))
        return self.commits[-1]


def make_history(folder: Path, releases: Mapping[str, Path], *, between: int, kernels_every: int) -> History:
    """Return a repository of releases, each followed by small commits; both faults come after the last release.

    Args:
        folder: Made anew.
        releases: Version → tree as its sdist has it, the oldest first.
        between: Commits after each release.
        kernels_every: One commit of so many changes a kernel; the others change a Python file.

    Raises:
        UsageError: A release does not have what is to be changed.
    """
    repository = Repository(folder)
    kernel_changes: list[str] = []
    first_bad: dict[Fault, str] = {}
    for number, (version, tree) in enumerate(releases.items()):
        kernel_changes.append(repository.release(tree, version))
        names = _python_files(folder)
        is_last = number == len(releases) - 1
        faults = {max(1, round(between * part)): fault for fault, part in AT.items()} if is_last else {}
        for step in range(1, between + 1):
            message = f"Change {step} after {version}"
            if fault := faults.get(step):
                texts = planted(folder, fault)
                first_bad[fault] = repository.change(message, texts)
            elif step % kernels_every == 0:
                name = KERNELS[step // kernels_every % len(KERNELS)]
                line = f"namespace {{ [[maybe_unused]] constexpr int change_{number}_{step} = {step}; }}\n"
                texts = _longer(folder, name, line)
                repository.change(message, texts)
            else:
                name = names[(number * between + step) * 37 % len(names)]
                texts = _longer(folder, name, f"# change {step}\n")
                repository.change(message, texts)
            if not KERNELS_SUFFIXES.isdisjoint(path.rpartition(".")[2] for path in texts):
                kernel_changes.append(repository.commits[-1])
    return History(folder, tuple(repository.commits), first_bad, tuple(kernel_changes))


def planted(folder: Path, fault: Fault) -> dict[str, str]:
    """Return the file with a fault planted in it.

    Raises:
        UsageError: It does not have the place.
    """
    name, pattern, wrong = PLACES[fault]
    text = (folder / name).read_text(encoding="utf-8")
    changed, count = re.subn(pattern, wrong, text)
    if not count:
        raise UsageError(f"{name} of this release has no place for the fault", where=pattern, next_step="choose others")
    return {name: changed}


def _longer(folder: Path, name: str, line: str) -> dict[str, str]:
    return {name: (folder / name).read_text(encoding="utf-8") + line}


def _python_files(folder: Path) -> Sequence[str]:
    return sorted(
        path.relative_to(folder).as_posix() for path in (folder / "vllm").rglob("*.py") if path.stat().st_size
    )


def _copy(source: str, target: str) -> None:
    shutil.copyfile(source, target)
    shutil.copymode(source, target)
