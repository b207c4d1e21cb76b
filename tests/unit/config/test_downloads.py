"""What a build may download: everything that is pinned, with digests, in one file for each target."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from cpuwheels.config.debian_lock import load_lock
from cpuwheels.config.downloads import FOLDER, TOOLS, ZIG, Download, download_files, released_source, target_downloads
from cpuwheels.config.matrix import Matrix, load_matrix
from cpuwheels.config.python_lock import locked_files
from cpuwheels.core.errors import MalformedDataError, MatrixError

HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")


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


@pytest.mark.parametrize(("name", "lock"), [("build-tools", TOOLS), ("zig", ZIG)])
def test_the_lock_with_file_names_is_the_same_as_that_which_is_installed(
    project_root: Path, name: str, lock: str
) -> None:
    files = locked_files(project_root / "locks" / lock)
    text = (project_root / "locks" / f"{name}.txt").read_text()
    assert {file.sha256 for file in files} <= set(HASH.findall(text))  # without those for older Pythons
    pins = dict(re.findall(r"^([\w-]+)==([^\s;\\]+)", text, re.MULTILINE))
    assert {file.project: file.version for file in files} == pins
    assert all(file.url.startswith("https://files.pythonhosted.org/") for file in files)


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


def test_a_release_has_the_address_of_its_own_bytes_alone(matrix: Matrix) -> None:
    version = matrix.default_source
    pinned = released_source(matrix, version, None)
    assert pinned.location.endswith(f"vllm-{version}.tar.gz")
    other = released_source(matrix, version, "0" * 64)
    assert (other.digest, other.location) == ({"sha256": "0" * 64}, "")
    assert released_source(matrix, "0.1.0", "1" * 64).uri == "pkg:pypi/vllm@0.1.0?file_name=vllm-0.1.0.tar.gz"


@pytest.mark.parametrize(
    "text", ["", "packages = 1", '[[packages]]\nname = "a"\nversion = "1"\nwheels = [{url = "b"}]']
)
def test_what_is_no_lock_is_one_message(tmp_path: Path, text: str) -> None:
    (tmp_path / TOOLS).write_text(text)
    with pytest.raises(MatrixError, match="is not a lock of files with digests"):
        locked_files(tmp_path / TOOLS)
    (tmp_path / TOOLS).write_text("[")
    with pytest.raises(MalformedDataError):
        locked_files(tmp_path / TOOLS)
