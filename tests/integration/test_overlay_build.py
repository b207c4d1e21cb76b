"""The overlay project built by the hook of this project and by another PEP 517 front end."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
from packaging.utils import parse_wheel_filename
from uv import find_uv_bin

from contexts import build_context
from cpuwheels.core.store import Store, default_root
from cpuwheels.sandbox.prepare import get_sandbox
from cpuwheels.wheel.core_metadata import Project, read_project
from cpuwheels.wheel.overlay import Overlay, parts_of, write_overlay
from cpuwheels.wheel.pep517 import build_overlay, check_complete

METADATA = """\
Metadata-Version: 2.4
Name: demo-kernels
Version: 1.0+cpu
Summary: A demonstration
Author: Demo Team
License-Expression: Apache-2.0
License-File: LICENSE
Project-URL: Homepage, https://example.org
Requires-Python: >=3.11
Description-Content-Type: text/markdown
Requires-Dist: numpy<3,>=2
Requires-Dist: av; (os_name == "posix" or os_name == "nt") and extra == "audio"
Requires-Dist: fast @ https://example.org/fast-2.0+cpu-py3-none-any.whl ; os_name == "posix"
Provides-Extra: audio
Provides-Extra: empty

# Démonstration
"""
ENTRY_POINTS = "[console_scripts]\ndemo = demo:main\n\n[demo.plugins]\nfirst = demo.a:A\n"


def written(folder: Path, project: Project, **parts: Any) -> Overlay:
    return write_overlay(folder, parts_of(project, **parts))


@pytest.fixture
def project() -> Project:
    return read_project(METADATA.encode(), ENTRY_POINTS)


@pytest.fixture
def overlay(tmp_path: Path, project: Project) -> Overlay:
    files = {
        "package/demo/__init__.py": "def main() -> None: ...\n",
        "package/demo/data.json": "{}",
        "package/demo/.gitignore": "*.json\n",
        "kernels/demo/_C.abi3.so": "kernel",
        "kernels/demo/libs/libx.so.1": "library",
        "licenses/LICENSE": "terms",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return written(
        tmp_path / "overlay",
        project,
        package={name.removeprefix("package/"): tmp_path / name for name in files if name.startswith("package/")},
        kernels=tmp_path / "kernels",
        licenses=tmp_path / "licenses",
    )


def test_the_hook_builds_all_of_it(tmp_path: Path, overlay: Overlay, project: Project) -> None:
    wheel = build_overlay(
        overlay,
        python=Path(sys.executable),
        epoch=1_700_000_000,
        out=tmp_path / "raw",
        log=tmp_path / "log",
        sandbox=get_sandbox(build_context(tmp_path, store=Store(default_root() / "tests"))),
    )
    check_complete(wheel, overlay.files, project)
    tags = {(tag.interpreter, tag.abi) for tag in parse_wheel_filename(wheel.name)[3]}
    assert tags == {("cp38", "abi3")}
    with zipfile.ZipFile(wheel) as archive:
        assert "Root-Is-Purelib: false" in archive.read("demo_kernels-1.0+cpu.dist-info/WHEEL").decode()
        assert archive.read("demo/_C.abi3.so") == b"kernel"


def test_another_front_end_builds_the_same(tmp_path: Path, overlay: Overlay, project: Project) -> None:
    out = tmp_path / "other"
    command = [find_uv_bin(), "build", "--wheel", "--no-build-isolation", "--offline", "--python", sys.executable]
    done = subprocess.run([*command, "--out-dir", out, overlay.folder], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    check_complete(next(out.glob("*.whl")), overlay.files, project)
