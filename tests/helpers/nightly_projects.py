"""A nightly job on the stand-in: a project with cases for its operators, a clone of its repository, and an index."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path

from tiny_project import Tiny, commit_all

CASES = """
from typing import Any

import torch

from harness.case import Call, cases
from harness.draw import Draw
from harness.expected import Exact


@cases("scale", rows=[1, 7])
def scale(library: Any, draw: Draw, *, rows: int) -> Call:
    x = draw.normal((rows, 16), torch.float32)
    return Call(lambda: {"out": library.scale(x, 2.0)}, lambda: {"out": Exact(x * 2)})
"""
WAIVERS = """
[numa_nodes]
reason = "of the machine"
needed = "nothing"

[count_words]
reason = "of no number"
needed = "nothing"
"""


@dataclasses.dataclass(frozen=True)
class Nightly:
    """A project with cases for the stand-in's operators, and a clone."""

    tiny: Tiny
    clone: Path
    index: Path

    def run(self, *arguments: str, index: str = "", env: dict[str, str] | None = None) -> tuple[int, dict, str]:
        """Run a nightly job; return its exit code, its summary and what was said."""
        done = self.tiny.run(
            "nightly",
            "--repo",
            str(self.clone),
            "--index",
            index or str(self.index),
            "--target",
            "x86",
            "--level",
            "smoke",
            "--no-locked",  # the torch of the tiny project is not pinned by content
            *arguments,
            env=env,
        )
        summary = self.tiny.dist / "nightly" / "summary.json"
        return done.returncode, json.loads(summary.read_text()) if summary.is_file() else {}, done.stdout + done.stderr


def nightly_project(tiny: Tiny, folder: Path) -> Nightly:
    """Make the project and the clone in an empty folder."""
    root = folder / "project"
    shutil.copytree(tiny.root, root)
    (root / "tests" / "parity" / "cases" / "stand_in.py").write_text(CASES)
    with (root / "tests" / "parity" / "waivers.toml").open("a") as waivers:
        waivers.write(WAIVERS)
    with (root / "matrix.yaml").open("a") as matrix:
        matrix.write("nightly:\n  keep_days: 100000\n  serve: []\n")  # the commits are of 2023
    clone = folder / "vllm"
    shutil.copytree(tiny.tree, clone)
    (clone / "PKG-INFO").unlink()
    commit_all(clone, "release", tag="v0.1.0")
    return Nightly(dataclasses.replace(tiny, root=root, dist=folder / "dist"), clone, folder / "index")


def add_commit(nightly: Nightly, name: str, kernel: str = "") -> str:
    """Add a commit with a Python file, and with another kernel if its text is given; return its hash."""
    (nightly.clone / "vllm" / f"{name}.py").write_text("")
    if kernel:
        (nightly.clone / "csrc" / "cpu" / "ops.cpp").write_text(kernel)
    return commit_all(nightly.clone, name)
