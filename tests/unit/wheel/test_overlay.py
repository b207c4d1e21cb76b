from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from cpuwheels.core.errors import WheelError
from cpuwheels.wheel.core_metadata import Project, read_project
from cpuwheels.wheel.overlay import BACKEND, Overlay, parts_of, write_overlay
from layout import ROOT

METADATA = (
    b"Metadata-Version: 2.4\nName: demo\nVersion: 1.0\nLicense-Expression: MIT\nLicense-File: LICENSE\n"
    b"Description-Content-Type: text/markdown\n\nText\n"
)


def written(folder: Path, project: Project, **parts: Any) -> Overlay:
    return write_overlay(folder, parts_of(project, **parts))


def tree(folder: Path, *names: str) -> Path:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    return folder


def package(folder: Path, *names: str) -> dict[str, Path]:
    return {name: tree(folder / f"file {number}", "x") / "x" for number, name in enumerate(names)}


def test_the_overlay_is_a_project_of_its_own(tmp_path: Path) -> None:
    overlay = written(
        tmp_path / "overlay",
        read_project(METADATA),
        package=package(tmp_path, "demo/__init__.py", "demo/sub/data.json"),
        kernels=tree(tmp_path / "kernels", "demo/_C.abi3.so", "debug/_C.abi3.so.debug", "manifest.json"),
        licenses=tree(tmp_path / "licenses", "LICENSE"),
    )
    assert overlay.files == {"demo/__init__.py", "demo/sub/data.json", "demo/_C.abi3.so"}
    assert (overlay.folder / "kernels/demo/_C.abi3.so").read_text() == "demo/_C.abi3.so"
    assert not (overlay.folder / "kernels/debug").exists()
    assert (overlay.folder / "package/demo/sub/data.json").read_text() == "x"
    assert (overlay.folder / "README.md").read_text() == "Text\n"
    table = tomllib.loads((overlay.folder / "pyproject.toml").read_text())
    assert table["project"]["license-files"] == ["LICENSE"]
    assert table["tool"]["scikit-build"]["wheel"]["packages"] == ["package/demo"]
    assert table["tool"]["scikit-build"]["wheel"]["py-api"] == "cp38"
    assert "LANGUAGES NONE" in (overlay.folder / "CMakeLists.txt").read_text()


def test_an_old_overlay_is_replaced(tmp_path: Path) -> None:
    tree(tmp_path / "overlay", "kernels/demo/_OLD.abi3.so")
    written(
        tmp_path / "overlay",
        read_project(b"Metadata-Version: 2.1\nName: demo\nVersion: 1.0\nLicense: MIT\nLicense-File: COPYING\n"),
        package=package(tmp_path, "demo/__init__.py"),
        kernels=tree(tmp_path / "kernels", "demo/_C.abi3.so"),
        licenses=tree(tmp_path / "licenses", "COPYING"),
    )
    assert [path.name for path in (tmp_path / "overlay/kernels/demo").iterdir()] == ["_C.abi3.so"]
    table = tomllib.loads((tmp_path / "overlay/pyproject.toml").read_text())
    assert table["tool"]["scikit-build"]["wheel"]["license-files"] == ["COPYING"]


@pytest.mark.parametrize(
    ("kernels", "message"),
    [(("debug/x.debug",), "no kernels"), (("demo/__init__.py",), "both a package file and a kernel")],
)
def test_kernels_that_do_not_fit_are_refused(tmp_path: Path, kernels: tuple[str, ...], message: str) -> None:
    with pytest.raises(WheelError, match=message):
        written(
            tmp_path / "overlay",
            read_project(METADATA),
            package=package(tmp_path, "demo/__init__.py"),
            kernels=tree(tmp_path / "kernels", *kernels),
            licenses=tree(tmp_path / "licenses", "LICENSE"),
        )


def test_a_module_beside_the_kernels(tmp_path: Path) -> None:
    overlay = written(
        tmp_path / "overlay",
        read_project(METADATA),
        package=package(tmp_path, "demo/__init__.py"),
        kernels=tree(tmp_path / "kernels", "demo/_C_NEON.abi3.so"),
        licenses=tree(tmp_path / "licenses", "LICENSE"),
        beside={"demo/_C.abi3.so": tree(tmp_path, "chooser") / "chooser"},
    )
    assert overlay.files == {"demo/__init__.py", "demo/_C.abi3.so", "demo/_C_NEON.abi3.so"}
    assert (overlay.folder / "kernels/demo/_C.abi3.so").read_text() == "chooser"


def test_a_module_beside_the_kernels_must_not_hide_one(tmp_path: Path) -> None:
    kernels = tree(tmp_path / "kernels", "demo/_C.abi3.so")
    with pytest.raises(WheelError, match=r"demo/_C.abi3.so is both a kernel and an additional module"):
        written(
            tmp_path / "overlay",
            read_project(METADATA),
            package=package(tmp_path, "demo/__init__.py"),
            kernels=kernels,
            licenses=tmp_path,
            beside={"demo/_C.abi3.so": kernels},
        )


def test_the_backend_is_pinned_as_in_our_own_project() -> None:
    own = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert BACKEND in own["build-system"]["requires"]
