"""Extension libraries for the real torch, compiled from one file, and the Python that tries them."""

from __future__ import annotations

import os
import subprocess
import sysconfig
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cpuwheels.environment.sealed_env import Environment
    from cpuwheels.toolchain.result import Toolchain


def compile_extension(environment: Environment, toolchain: Toolchain, source: Path, library: Path, *flags: str) -> Path:
    """Compile a file with operators and return the library.

    Raises:
        subprocess.CalledProcessError: It does not compile.
    """
    torch = environment.site_packages / "torch"
    includes = [source.parent, torch / "include", torch / "include" / "torch" / "csrc" / "api" / "include"]
    command = [
        toolchain.cxx,
        *toolchain.compile_flags,
        *toolchain.cxx_flags,
        "-std=c++20",
        "-O1",
        "-fPIC",
        "-shared",
        *flags,
        *(f"-I{folder}" for folder in includes),
        source,
        "-o",
        library,
        *toolchain.link_flags,
        f"-L{torch / 'lib'}",
        "-ltorch_cpu",
        "-lc10",
        *toolchain.cxx_libraries,
    ]
    subprocess.run(command, check=True)
    return library


def python_path(environment: Environment) -> str:
    """Return the ``PYTHONPATH`` with which the environment's Python also finds what these tests run with."""
    return os.pathsep.join(map(str, [environment.site_packages, sysconfig.get_path("purelib")]))
