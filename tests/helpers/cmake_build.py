"""Small CMake projects that tests write, configure and build with this machine's compiler."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


def built(folder: Path, texts: Mapping[str, str], settings: Mapping[str, str], *, source: str = ".") -> Path:
    """Write a project and build it.

    Args:
        folder: Where it is written; the build folder is ``build`` in it.
        texts: Of its files, by their paths in the folder.
        settings: Of CMake's cache.
        source: Folder with the project's CMakeLists.txt, below the first one.

    Returns:
        The build folder.

    Raises:
        AssertionError: It is not built, or there is no compiler or no CMake.
    """
    places = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    compiler, cmake = shutil.which("g++"), shutil.which("cmake", path=places)
    assert compiler is not None
    assert cmake is not None
    for name, text in texts.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    build = folder / "build"
    defined = [f"-D{name}={value}" for name, value in {"CMAKE_CXX_COMPILER": compiler, **settings}.items()]
    for command in ([cmake, "-S", folder / source, "-B", build, *defined], [cmake, "--build", build]):
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
    return build
