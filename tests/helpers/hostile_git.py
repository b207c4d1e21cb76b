"""Git repositories of whoever wants something executed or somebody's file changed."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sample_source import git

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from cpuwheels.source.result import Source

    Get = Callable[..., Source]

PROFILE = "the user's own\n"
"""Text of a file in the user's folder that nothing may change."""


@dataclass(frozen=True)
class Trap:
    """A program that leaves a mark when it is run, and then behaves like `cat`."""

    path: Path
    mark: Path

    def __str__(self) -> str:
        return str(self.path)

    def works(self) -> bool:
        """Run it once, which has to leave its mark, and take that away."""
        subprocess.run([self.path], check=True, stdin=subprocess.DEVNULL)
        found = self.mark.exists()
        self.mark.unlink()
        return found


def raw_object(folder: Path, kind: str, content: bytes) -> str:
    """Write an object that git itself would not make, and return its name."""
    command = ["git", "-C", folder, "hash-object", "-t", kind, "-w", "--literally", "--stdin"]
    env = {"PATH": os.environ["PATH"], "GIT_CONFIG_GLOBAL": os.devnull}
    return subprocess.run(command, input=content, capture_output=True, check=True, env=env).stdout.decode().strip()


def commit_of_tree(folder: Path, entries: list[tuple[str, str, str]], date: str = "1700000000 +0000") -> str:
    """Write a commit whose tree has, besides those of HEAD, entries of any mode, name and object; return its name."""
    rows = git(folder, "ls-tree", "HEAD").splitlines()
    known = [(row.split()[0], row.partition("\t")[2], row.split()[2]) for row in rows]
    new = {name for _, name, _ in entries}
    tree = sorted([entry for entry in known if entry[1] not in new] + entries, key=_order)
    content = b"".join(f"{mode.lstrip('0')} {name}\0".encode() + bytes.fromhex(made) for mode, name, made in tree)
    name = raw_object(folder, "tree", content)
    who = f"a <a@example.invalid> {date}"
    head = git(folder, "rev-parse", "HEAD")
    text = f"tree {name}\nparent {head}\nauthor {who}\ncommitter {who}\n\nmade\n"
    return raw_object(folder, "commit", text.encode())


def _order(entry: tuple[str, str, str]) -> str:
    return entry[1] + ("/" if entry[0] in {"40000", "040000"} else "")
