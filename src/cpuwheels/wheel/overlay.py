"""The overlay: a small project of our own that any PEP 517 front end can build into the wheel.

It holds upstream's package files, the finished kernels and upstream's metadata as a static ``[project]``
table. CMake only installs the kernels; nothing is compiled here.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import tomli_w

from cpuwheels.core.digests import tree_names
from cpuwheels.core.errors import WheelError
from cpuwheels.core.filesystem import link_or_copy, remove_tree, storage_errors
from cpuwheels.wheel.core_metadata import project_table

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from cpuwheels.wheel.core_metadata import Project

BACKEND = "scikit-build-core==1.1.2"
"""Build backend of the overlay; the same pin as in this project's own ``pyproject.toml``."""

CMAKE_MINIMUM = "3.26"
"""Also upstream's own minimum, so the overlay asks for nothing new."""

# No language: there is nothing to compile, and no compiler may be looked for.
_CMAKE = f"""\
cmake_minimum_required(VERSION {CMAKE_MINIMUM})
project(kernels LANGUAGES NONE)
install(DIRECTORY "${{CMAKE_CURRENT_SOURCE_DIR}}/kernels/"
        DESTINATION "${{SKBUILD_PLATLIB_DIR}}"
        USE_SOURCE_PERMISSIONS)
"""


@dataclass(frozen=True)
class Parts:
    """What a wheel is made of before it is audited.

    Attributes:
        project: The metadata.
        package: Name in the wheel → upstream's package file.
        kernels: Name in the wheel → extension module, or library of one.
        licenses: Folder with the licence files that the metadata names.
        py_api: Oldest Python whose stable ABI the kernels use, as scikit-build-core writes it.
    """

    project: Project
    package: Mapping[str, Path]
    kernels: Mapping[str, Path]
    licenses: Path
    py_api: str = "cp38"

    @property
    def files(self) -> frozenset[str]:
        """Paths that the wheel must hold outside ``.dist-info``."""
        return frozenset(self.package.keys() | self.kernels.keys())

    def table(self) -> dict[str, Any]:
        """Return the overlay's ``pyproject.toml``."""
        packages = sorted({name.partition("/")[0] for name in self.package})
        return overlay_table(self.project, packages=packages, py_api=self.py_api)


@dataclass(frozen=True)
class Overlay:
    """A written overlay project.

    Attributes:
        folder: The project.
        files: Paths that its wheel must hold outside ``.dist-info``.
    """

    folder: Path
    files: frozenset[str]


def parts_of(
    project: Project,
    *,
    package: Mapping[str, Path],
    kernels: Path,
    licenses: Path,
    beside: Mapping[str, Path] | None = None,
    py_api: str = "cp38",
) -> Parts:
    """Return what a wheel is made of.

    Args:
        project: The metadata.
        package: Name in the wheel → upstream's package file.
        kernels: Folder with the extension modules as they are in the wheel (``vllm/_C.abi3.so``,
            ``vllm/libs/…``); folders next to upstream's packages, such as debug symbols, stay out.
        licenses: Folder with the licence files that the metadata names.
        beside: Name in the wheel → extension module that is not among the kernels, such as a chooser.
        py_api: Oldest Python whose stable ABI the kernels use, as scikit-build-core writes it.

    Raises:
        WheelError: There are no kernels, or a file comes from two places.
    """
    package_files = set(package)
    packages = sorted({name.partition("/")[0] for name in package_files})
    kernel_files = {name: kernels / name for name in tree_names(kernels) if name.partition("/")[0] in packages}
    if not kernel_files:
        raise WheelError("no kernels to put into the wheel", where=kernels, next_step="build them first")
    if both := sorted(kernel_files.keys() & (beside or {}).keys()):
        raise WheelError(
            f"{both[0]} is both a kernel and an additional module",
            where=kernel_files[both[0]],
            next_step="give the target's libraries other names than its chooser in matrix.yaml",
        )
    kernel_files |= beside or {}
    if both := sorted(package_files & kernel_files.keys()):
        raise WheelError(
            f"{both[0]} is both a package file and a kernel",
            where=package[both[0]],
            next_step="the source tree holds built modules; build from a clean checkout",
        )
    return Parts(project, package, kernel_files, licenses, py_api)


def write_overlay(folder: Path, parts: Parts) -> Overlay:
    """Write the overlay project.

    Args:
        folder: Emptied first.
        parts: What its wheel is made of.

    Raises:
        StoreError: ``folder`` cannot be written.
    """
    project = parts.project
    with storage_errors(folder):
        remove_tree(folder)
        folder.mkdir(parents=True)
        _link(parts.package, folder / "package")
        _link(parts.kernels, folder / "kernels")
        for name in project.license_files:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(parts.licenses / name, folder / name)
        if project.readme:
            (folder / project.readme_name).write_text(project.readme + "\n", encoding="utf-8")
        (folder / "CMakeLists.txt").write_text(_CMAKE, encoding="utf-8")
        (folder / "pyproject.toml").write_text(tomli_w.dumps(parts.table()), encoding="utf-8")
    return Overlay(folder, parts.files)


def overlay_table(project: Project, *, packages: list[str], py_api: str) -> dict[str, Any]:
    """Return the overlay's ``pyproject.toml``."""
    table = project_table(project)
    wheel: dict[str, Any] = {"py-api": py_api, "packages": [f"package/{name}" for name in packages], "platlib": True}
    if project.license_files and "license-files" not in table:
        wheel["license-files"] = list(project.license_files)
    return {
        "build-system": {"requires": [BACKEND], "build-backend": "scikit_build_core.build"},
        "project": table,
        "tool": {
            "scikit-build": {
                "minimum-version": "build-system.requires",
                "build-dir": "build",
                "cmake": {"version": f">={CMAKE_MINIMUM}", "build-type": "Release"},
                # The kernels come stripped; the backend must not touch them again.
                "install": {"strip": False},
                # "explicit": every file counts, also one that some .gitignore above would leave out.
                "sdist": {"inclusion-mode": "explicit", "include": ["package", "kernels"]},
                "wheel": wheel,
            }
        },
    }


def _link(files: Mapping[str, Path], folder: Path) -> None:
    for parent in {name.rpartition("/")[0] for name in files}:
        (folder / parent).mkdir(parents=True, exist_ok=True)
    for name, path in files.items():
        link_or_copy(str(path), f"{folder}/{name}")
