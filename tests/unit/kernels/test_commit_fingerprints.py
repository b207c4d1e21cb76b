"""Which commits have the same kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cpuwheels.core.errors import SourceError
from cpuwheels.fetch.git import Git
from cpuwheels.kernels.commit_fingerprints import kernel_fingerprints
from cpuwheels.kernels.depfile import Reads
from cpuwheels.kernels.fingerprint import tree_fingerprint
from cpuwheels.source.repository import Repository
from sample_source import commit, git, write_tree

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("plain_git")

READS = Reads(files=("CMakeLists.txt", "csrc/cpu/ops.cpp"), folders=("csrc/cpu",))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = write_tree(tmp_path / "vllm", {"csrc/gpu.cu": "one\n"})
    commit(folder)
    return folder


def change(folder: Path, name: str, text: str | None) -> str:
    if text is None:
        (folder / name).unlink()
    else:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return commit(folder, name)


@pytest.mark.parametrize(
    ("name", "text", "roughly", "by_reads"),
    [
        ("vllm/__init__.py", "import os\n", True, True),
        ("csrc/gpu.cu", "two\n", False, True),
        ("csrc/cpu/ops.cpp", "int two() { return 2; }\n", False, False),
        ("csrc/cpu/new.h", "", False, False),
        ("csrc/gpu/new.h", "", False, True),
        ("csrc/cpu/ops.cpp", None, False, False),
        ("CMakeLists.txt", "project(other)\n", False, False),
        ("requirements/cpu.txt", "torch==2.14.0\n", False, False),
    ],
)
def test_what_changes_the_kernels(folder: Path, name: str, text: str | None, roughly: bool, by_reads: bool) -> None:
    first = git(folder, "rev-parse", "HEAD")
    second = change(folder, name, text)
    repository = Repository(Git(folder), str(folder))
    for reads, same in ((None, roughly), (READS, by_reads)):
        (found,) = kernel_fingerprints(repository, [first, second], [reads])
        assert (found[first] == found[second]) is same


def test_going_back_is_the_same_again(folder: Path) -> None:
    first = git(folder, "rev-parse", "HEAD")
    original = (folder / "csrc/cpu/ops.cpp").read_text()
    second = change(folder, "csrc/cpu/ops.cpp", "other\n")
    third = change(folder, "csrc/cpu/ops.cpp", original)
    for reads in (None, READS):
        (found,) = kernel_fingerprints(Repository(Git(folder), str(folder)), [first, second, third], [reads])
        assert found[first] == found[third] != found[second]


def test_a_commit_that_is_not_there_counts_as_empty_or_is_told(folder: Path) -> None:
    repository = Repository(Git(folder), str(folder))
    assert len(kernel_fingerprints(repository, ["0" * 40], [None])[0]) == 1
    with pytest.raises(SourceError, match="git cannot check out"):
        kernel_fingerprints(repository, ["0" * 40], [READS])


def test_a_tree_has_the_class_of_its_commit(folder: Path) -> None:
    (folder / "csrc" / "cpu" / "generate.py").write_text("#!/usr/bin/env python3\n")
    (folder / "csrc" / "cpu" / "generate.py").chmod(0o755)
    (folder / "csrc" / "link.h").symlink_to("cpu/ops.cpp")
    name = commit(folder)
    files = (*READS.files, "csrc/cpu/generate.py", "csrc/link.h", "csrc/gone.h")
    reads = Reads(files=files, folders=("csrc", "csrc/cpu", "csrc/gone"))
    repository = Repository(Git(folder), str(folder))
    assert tree_fingerprint(folder, reads) == kernel_fingerprints(repository, [name], [reads])[0][name]
