"""A tiny project with the shape of vLLM, and how to build it."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

from cpuwheels.config.matrix import load_matrix
from cpuwheels.core.trust import Trust
from layout import ROOT

EPOCH = 1_700_000_000


@dataclasses.dataclass(frozen=True)
class Tiny:
    """A project folder like ours whose matrix builds the tiny stand-in.

    Attributes:
        root: The project folder.
        tree: The stand-in's sources, to be copied and changed.
        dist: Output folder.
        cache: The stores.
    """

    root: Path
    tree: Path
    dist: Path
    cache: Path

    def command(self, *arguments: str | Path) -> list[str]:
        """Return the command line of a cpuwheels command in this project."""
        places = ("--root", self.root, "--cache", self.cache, "--dist", self.dist)
        return [str(part) for part in (sys.executable, "-m", "cpuwheels", *places, *arguments)]

    def run(
        self, *arguments: str | Path, env: dict[str, str] | None = None, umask: int = -1
    ) -> subprocess.CompletedProcess[str]:
        """Run a command to its end."""
        return subprocess.run(
            self.command(*arguments),
            env=os.environ | (env or {}),
            umask=umask,
            text=True,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )

    def build(
        self, *arguments: str | Path, target: str = "x86", env: dict[str, str] | None = None, umask: int = -1
    ) -> Path:
        """Build the wheel of a target and return its path."""
        done = self.run("build", target, *arguments, env=env, umask=umask)
        assert done.returncode == 0, done.stderr
        return Path(done.stdout.strip())

    def changed_tree(self, folder: Path, **files: str) -> Path:
        """Return a copy of the sources in which the named kernels have other text, or one more comment."""
        shutil.copytree(self.tree, folder)
        kernel = folder / "csrc" / "cpu" / "ops.cpp"
        kernel.write_text(f"// {folder.name}\n{kernel.read_text()}")
        for name, text in files.items():
            (folder / "csrc" / "cpu" / f"{name}.cpp").write_text(text)
        return folder


def pin_torch(root: Path) -> str:
    """Pin the torch of a tiny project by content, as the real matrix does, and return its digest."""
    (wheel,) = load_matrix(ROOT).torch["2.13.0"].wheels
    matrix, place = root / "matrix.yaml", "    index: https://download.pytorch.org/whl/cpu\n"
    text = matrix.read_text()
    assert place in text
    matrix.write_text(text.replace(place, f"{place}    wheels: {json.dumps([wheel.model_dump()])}\n"))
    return wheel.sha256


def forget(cache: Path, *kinds: str) -> None:
    """Remove what stores have of some kinds, whoever vouches for it."""
    for trust in Trust:
        for kind in kinds:
            shutil.rmtree(cache / trust.value / kind, ignore_errors=True)


def make_sdist(tree: Path, archive: Path) -> Path:
    """Pack a tree as an sdist whose bytes are always the same."""

    def plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
        member.mtime, member.uid, member.gid, member.uname, member.gname = EPOCH, 0, 0, "", ""
        return member

    with tarfile.open(archive, "w:gz", compresslevel=1) as tar:
        tar.add(tree, archive.name.removesuffix(".tar.gz"), filter=plain)
    return archive


def make_repository(tree: Path, folder: Path) -> tuple[Path, str]:
    """Commit a tree with the tag v0.1 and return the clone and the commit."""
    shutil.copytree(tree, folder)
    return folder, commit_all(folder, "v0.1", tag="v0.1")


def commit_all(folder: Path, message: str, *, tag: str = "") -> str:
    """Commit everything in a folder on main, making it a repository first, and return the commit."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")} | {
        f"GIT_{who}_{what}": value
        for who in ("AUTHOR", "COMMITTER")
        for what, value in {"NAME": "t", "EMAIL": "t@example.invalid", "DATE": f"{EPOCH} +0000"}.items()
    }

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(folder), *arguments]
        return subprocess.run(command, env=env, check=True, capture_output=True, text=True).stdout.strip()

    if not (folder / ".git").exists():
        git("init", "--quiet", "--initial-branch=main")
    git("add", "--all")
    git("commit", "--quiet", "-m", message)
    if tag:
        git("tag", tag)
    return git("rev-parse", "HEAD")
