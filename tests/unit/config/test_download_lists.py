"""What a build may download: everything that is pinned, with digests, in one file for each target."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from cpuwheels.config.debian_lock import load_lock
from cpuwheels.config.download_lists import FOLDER, download_files, source_downloads, target_downloads
from cpuwheels.config.downloads import Download
from cpuwheels.config.matrix import Matrix, load_matrix


@pytest.fixture
def matrix(project_root: Path) -> Matrix:
    return load_matrix(project_root)


def downloads(root: Path, matrix: Matrix, target: str) -> tuple[Download, ...]:
    return target_downloads(root, matrix, matrix.target(target)).downloads


@pytest.mark.parametrize("target", ["x86", "arm", "s390x", "macos"])
def test_each_has_a_digest_and_a_name_that_others_know(project_root: Path, matrix: Matrix, target: str) -> None:
    found = downloads(project_root, matrix, target)
    assert len(found) > 100
    for one in found:
        assert one.digest.keys() in ({"sha256"}, {"gitCommit"}), one.name
        assert re.match(r"pkg:(deb|generic|pypi)/|git\+https://", one.uri), one.name
    stages = {one.stage for one in found}
    assert {"source", "torch", "build-tools", "toolchain"} <= stages
    assert ("onednn" in stages) is matrix.target(target).onednn
    assert ("tcmalloc" in stages) is matrix.target(target).tcmalloc


def test_packages_of_debian_are_those_of_the_locks(project_root: Path, matrix: Matrix) -> None:
    found = {one.name: one for one in downloads(project_root, matrix, "x86") if one.stage == "toolchain"}
    lock = load_lock(project_root, str(matrix.target("x86").toolchain))
    assert found.keys() == {package.name for package in lock.packages}
    for package in lock.packages:
        assert found[package.name].digest == {"sha256": package.sha256}
        assert found[package.name].location.endswith(package.path)
    gcc = found["gcc-15-x86-64-linux-gnu"]
    assert gcc.uri == f"pkg:deb/debian/gcc-15-x86-64-linux-gnu@{gcc.version}?arch=amd64"
    (libc,) = (one for one in downloads(project_root, matrix, "x86") if (one.stage, one.name) == ("sysroot", "libc6"))
    assert "%2Bdeb11u" in libc.uri  # a plus sign would be read as a blank


def test_the_generated_files_are_there_and_can_be_read(project_root: Path, matrix: Matrix) -> None:
    files = download_files(project_root, matrix)
    assert {path.relative_to(project_root).as_posix() for path in files} == {
        f"{FOLDER}/{target.id}.json" for target in matrix.targets if target.is_ready
    }
    for path, text in files.items():
        assert path.read_text() == text
        data: dict[str, Any] = json.loads(text)
        assert data["source"] == matrix.source_of(matrix.target(data["target"]))
        # A line for each, so that a change can be reviewed.
        assert text.count("\n") == len(data["downloads"]) + 2


@pytest.mark.parametrize("target", ["x86", "arm", "s390x", "macos"])
def test_each_lock_that_a_build_reads_is_in_the_list(project_root: Path, matrix: Matrix, target: str) -> None:
    """Whichever machine builds: its sandbox, its compiler of helpers and its emulator, too."""
    this = matrix.target(target)
    x86 = matrix.target("x86")
    locks = {this.toolchain, this.sysroot, this.binutils, this.python_headers, "bubblewrap-amd64", "ccache-amd64"}
    locks |= {"licenses"} if this.system == "Linux" else set()
    if target != "x86":  # built on x86-64, whose helpers it needs
        locks |= {x86.toolchain, x86.sysroot}
    if this.root:
        locks |= {this.root, matrix.emulator["x86_64"]}
    found = {one.digest.get("sha256") for one in downloads(project_root, matrix, target)}
    for lock in filter(None, locks):
        assert {package.sha256 for package in load_lock(project_root, lock).packages} <= found, lock


def test_the_target_of_the_machine_that_builds_needs_no_other(project_root: Path, matrix: Matrix) -> None:
    stages = {one.stage for one in downloads(project_root, matrix, "x86")}
    assert stages.isdisjoint({"helpers", "emulation"})


def test_another_release_has_its_own_source_and_torch(project_root: Path, matrix: Matrix) -> None:
    found = source_downloads(project_root, matrix, matrix.target("x86"), "0.32.0")
    (source,) = (one for one in found if one.stage == "source")
    pinned = matrix.release("0.32.0")
    assert pinned is not None
    assert source.digest == {"sha256": pinned.sdist.sha256}
    assert [one.version for one in found if one.stage == "torch"] == ["2.13.0+cpu"]
    assert [one.page for one in found if one.stage == "torch"] == ["https://download.pytorch.org/whl/cpu/torch/"]


def test_a_commit_may_want_any_torch_that_is_pinned(project_root: Path, matrix: Matrix) -> None:
    found = source_downloads(project_root, matrix, matrix.target("x86"), None)
    assert "source" not in {one.stage for one in found}
    torches = {one.version for one in found if one.stage == "torch" and one.name in {"torch", "python3-torch"}}
    assert {"2.13.0+cpu"} < torches


def test_a_release_that_is_not_pinned_is_looked_up(project_root: Path, matrix: Matrix) -> None:
    found = source_downloads(project_root, matrix, matrix.target("x86"), "0.20.0", "0" * 64)
    (source,) = (one for one in found if one.stage == "source")
    assert (source.digest, source.location) == ({"sha256": "0" * 64}, "")
    assert source.page == "https://pypi.org/simple/vllm/"
