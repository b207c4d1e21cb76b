"""Which packages have wheels for a machine, by the files that uv lists."""

from __future__ import annotations

from pathlib import Path

import pytest
from packaging.tags import Tag

from cpuwheels.config.host import markers
from cpuwheels.config.matrix import load_matrix
from cpuwheels.fetch import wheel_tags
from cpuwheels.fetch.wheel_tags import machine_tags, missing_wheels, without_wheels

PYLOCK = """\
lock-version = "1.0"
[[packages]]
name = "pure"
version = "1.0"
wheels = [{ url = "https://files.invalid/pure-1.0-py3-none-any.whl" }]
[[packages]]
name = "native"
version = "2.0"
wheels = [
  { url = "https://files.invalid/native-2.0-cp314-cp314-manylinux_2_28_x86_64.whl" },
  { name = "native-2.0-cp39-abi3-manylinux_2_17_aarch64.manylinux2014_aarch64.whl", url = "https://files.invalid/1" },
]
[[packages]]
name = "newer"
version = "3.0"
wheels = [{ url = "https://files.invalid/newer-3.0-cp314-cp314-manylinux_2_40_aarch64.whl" }]
[[packages]]
name = "source"
version = "4.0"
sdist = { url = "https://files.invalid/source-4.0.tar.gz" }
[[packages]]
name = "elsewhere"
version = "5.0"
marker = "platform_machine == 'x86_64'"
"""


@pytest.mark.parametrize(
    ("target", "glibc", "missing"),
    [
        ("arm", 41, ["source==4.0"]),
        ("arm", 36, ["newer==3.0", "source==4.0"]),
        ("s390x", 41, ["native==2.0", "newer==3.0", "source==4.0"]),
        ("x86", 41, ["elsewhere==5.0", "newer==3.0", "source==4.0"]),
    ],
)
def test_requirements_without_wheels_are_named(target: str, glibc: int, missing: list[str], project_root: Path) -> None:
    found = load_matrix(project_root).target(target)
    tags = machine_tags(found.machine, "3.14", glibc)
    assert without_wheels(PYLOCK, markers(found, "3.14"), tags) == missing


def test_tags_end_with_the_machines_c_library() -> None:
    tags = machine_tags("s390x", "3.11", 36)
    assert Tag("cp311", "cp311", "manylinux_2_36_s390x") in tags
    assert Tag("cp38", "abi3", "manylinux2014_s390x") in tags
    assert Tag("py3", "none", "any") in tags
    assert Tag("cp311", "cp311", "manylinux_2_37_s390x") not in tags
    assert Tag("cp312", "cp312", "manylinux_2_36_s390x") not in tags


def test_what_is_resolved_for_all_machines_is_looked_at_for_one(
    tmp_path: Path, project_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[object, ...]] = []

    def compile_(wanted: list[str], without: list[str], output: Path, **how: object) -> None:
        asked.append((wanted, without, how))
        output.write_text(PYLOCK)

    monkeypatch.setattr(wheel_tags, "compile_requirements", compile_)
    about, log = markers(load_matrix(project_root).target("s390x"), "3.14"), tmp_path / "log"
    found = missing_wheels(["demo"], ["torch"], tmp_path / "pylock.toml", about=about, glibc=41, log=log)
    assert found == ["native==2.0", "newer==3.0", "source==4.0"]
    how = {"python": "3.14", "options": ["--universal", "--format", "pylock.toml"], "log": log}
    assert asked == [(["demo"], ["torch"], how)]
