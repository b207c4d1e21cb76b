"""Which commits have the same kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cpuwheels.core.errors import SourceError
from cpuwheels.fetch.git import Git
from cpuwheels.kernels.commit_fingerprints import by_programs, by_reads, commit_fingerprints
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
    ("name", "text", "roughly", "read", "programs"),
    [
        ("vllm/__init__.py", "import os\n", True, True, True),
        ("csrc/gpu.cu", "two\n", False, True, True),
        ("csrc/cpu/ops.cpp", "int two() { return 2; }\n", False, False, True),
        ("csrc/cpu/new.h", "", False, False, True),
        ("csrc/gpu/new.h", "", False, True, True),
        ("csrc/cpu/ops.cpp", None, False, False, True),
        ("csrc/generate.py", "", False, True, False),
        ("CMakeLists.txt", "project(other)\n", False, False, False),
        ("requirements/cpu.txt", "torch==2.14.0\n", False, False, False),
    ],
)
def test_what_changes_the_kernels_and_what_the_compiler_cache(
    folder: Path, name: str, text: str | None, roughly: bool, read: bool, programs: bool
) -> None:
    first = git(folder, "rev-parse", "HEAD")
    second = change(folder, name, text)
    repository = Repository(Git(folder), str(folder))
    for way, same in ((None, roughly), (by_reads(READS), read), (by_programs, programs)):
        (found,) = commit_fingerprints(repository, [first, second], [way])
        assert (found[first] == found[second]) is same


def test_going_back_is_the_same_again(folder: Path) -> None:
    first = git(folder, "rev-parse", "HEAD")
    original = (folder / "csrc/cpu/ops.cpp").read_text()
    second = change(folder, "csrc/cpu/ops.cpp", "other\n")
    third = change(folder, "csrc/cpu/ops.cpp", original)
    for way in (None, by_reads(READS)):
        (found,) = commit_fingerprints(Repository(Git(folder), str(folder)), [first, second, third], [way])
        assert found[first] == found[third] != found[second]


def test_a_commit_that_is_not_there_counts_as_empty_or_is_told(folder: Path) -> None:
    repository = Repository(Git(folder), str(folder))
    assert len(commit_fingerprints(repository, ["0" * 40], [None])[0]) == 1
    with pytest.raises(SourceError, match="git cannot check out"):
        commit_fingerprints(repository, ["0" * 40], [by_reads(READS)])


def test_a_tree_has_the_class_of_its_commit(folder: Path) -> None:
    (folder / "csrc" / "cpu" / "generate.py").write_text("#!/usr/bin/env python3\n")
    (folder / "csrc" / "cpu" / "generate.py").chmod(0o755)
    (folder / "csrc" / "link.h").symlink_to("cpu/ops.cpp")
    name = commit(folder)
    files = (*READS.files, "csrc/cpu/generate.py", "csrc/link.h", "csrc/gone.h")
    reads = Reads(files=files, folders=("csrc", "csrc/cpu", "csrc/gone"))
    repository = Repository(Git(folder), str(folder))
    assert tree_fingerprint(folder, reads) == commit_fingerprints(repository, [name], [by_reads(reads)])[0][name]
