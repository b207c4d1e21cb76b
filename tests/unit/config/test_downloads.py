"""Something that a build downloads: what its digest, name and address are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cpuwheels.config.downloads import TOOLS, ZIG, released_source
from cpuwheels.config.matrix import Matrix, load_matrix
from cpuwheels.config.python_lock import locked_files
from cpuwheels.core.errors import MalformedDataError, MatrixError

HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")


@pytest.fixture
def matrix(project_root: Path) -> Matrix:
    return load_matrix(project_root)


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
