"""The file that a package was installed from is told by what it keeps of its name."""

from __future__ import annotations

from pathlib import Path

import pytest

from cpuwheels.config.python_lock import LockedFile
from cpuwheels.environment.installed_files import installed_files


def file(name: str, project: str = "scikit-build-core", version: str = "1.0") -> LockedFile:
    return LockedFile(project=project, version=version, name=name, url=f"https://a.org/{name}", sha256="a" * 64)


FILES = [
    file("scikit_build_core-1.0-py3-none-any.whl"),
    file("scikit_build_core-1.0-cp311-cp311-manylinux2014_x86_64.manylinux_2_17_x86_64.whl"),
    file("scikit_build_core-1.0-cp312-cp312-manylinux2014_x86_64.manylinux_2_17_x86_64.whl"),
    file("scikit_build_core-1.0.tar.gz"),
    file("scikit_build_core-2.0-py3-none-any.whl", version="2.0"),
]
NATIVE = ("cp311-cp311-manylinux2014_x86_64", "cp311-cp311-manylinux_2_17_x86_64")


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        (("py3-none-any",), 0),
        (NATIVE, 1),
        (NATIVE[::-1], 1),
        (NATIVE[:1], None),  # another file than any of the lock: perhaps one that was built here
        ((), None),
    ],
)
def test_it_is_found_by_its_tags(tmp_path: Path, tags: tuple[str, ...], expected: int | None) -> None:
    folder = tmp_path / "scikit_build_core-1.0.dist-info"
    folder.mkdir()
    (folder / "WHEEL").write_text("Wheel-Version: 1.0\n" + "".join(f"Tag: {tag}\n" for tag in tags))
    found = installed_files(tmp_path, FILES)
    assert found == {"scikit-build-core 1.0": None if expected is None else FILES[expected]}


def test_a_package_that_no_lock_has_is_listed_without_a_file(tmp_path: Path) -> None:
    (tmp_path / "torch-2.13.0+cpu.dist-info").mkdir()
    assert installed_files(tmp_path, FILES) == {"torch 2.13.0+cpu": None}
