"""The changes that are made to the sources between two builds."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from cpuwheels.core.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

KERNEL = "csrc/cpu/layernorm.cpp"
"""Part of all three libraries of vLLM for x86, and of medium length."""

PYTHON = "vllm/__init__.py"

_NUMBER = "namespace {{ [[gnu::used, gnu::retain]] const volatile long long benchmark_edit = {number}; }}\n"
"""Kept by compiler and linker, so that the libraries differ, and are audited and compressed as after most edits."""


def edit_kernel(tree: Path, name: str) -> None:
    """Give a C++ file a number that stays in the libraries; a comment would be the same file to a compiler cache.

    Args:
        tree: Sources to change.
        name: The file, below the tree.

    Raises:
        UsageError: There is no such file.
    """
    _change(tree, name, _NUMBER)


def edit_python(tree: Path, name: str) -> None:
    """Give a Python file another comment; arguments as `edit_kernel`.

    Raises:
        UsageError: There is no such file.
    """
    _change(tree, name, "# benchmark edit {number}\n")


def _change(tree: Path, name: str, line: str) -> None:
    """Add a line at the end, or replace the one of an earlier change; the line is never the same twice."""
    path = tree / name
    if not path.is_file():
        raise UsageError(
            f"the source has no {name} to change",
            where="--kernel",
            next_step="name a file of this source with --kernel",
        )
    before = path.read_text(encoding="utf-8")
    kept = [text for text in before.splitlines() if "benchmark_edit" not in text and "benchmark edit" not in text]
    path.write_text("\n".join([*kept, line.format(number=time.time_ns())]), encoding="utf-8")
