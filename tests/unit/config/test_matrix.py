from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import yaml

from cpuwheels.config.debian_lock import load_lock
from cpuwheels.config.matrix import Matrix, load_matrix
from cpuwheels.config.patch_series import load_series
from cpuwheels.core.errors import MatrixError, TargetNotBuiltError, UnknownTargetError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def text(project_root: Path) -> str:
    return (project_root / "matrix.yaml").read_text()


@pytest.fixture
def load(tmp_path: Path) -> Callable[[str | bytes], Matrix]:
    def write_and_load(content: str | bytes) -> Matrix:
        data = content.encode() if isinstance(content, str) else content
        (tmp_path / "matrix.yaml").write_bytes(data)
        return load_matrix(tmp_path)

    return write_and_load


def test_the_projects_own_files_fit_their_models(project_root: Path) -> None:
    matrix = load_matrix(project_root)
    assert [target.id for target in matrix.targets] == ["x86", "arm", "s390x", "macos"]
    assert matrix.buildable("x86").floor == "manylinux_2_28"
    for target in matrix.targets:
        for name in filter(None, (target.toolchain, target.sysroot)):
            assert load_lock(project_root, name).packages
        if target.is_ready:
            assert (project_root / "cmake" / "toolchains" / f"{target.id}.cmake").is_file()
    for patch in load_series(project_root).patches:
        assert (project_root / "patches" / patch.file).is_file()
        assert {*patch.targets} <= {target.id for target in matrix.targets}


@pytest.mark.parametrize(
    ("old", "new", "line_of", "message"),
    [
        ("    floor: many", "    flor: many", "flor:", "unknown key 'targets.0.flor'; did you mean 'floor'?"),
        ("default_source:", "default_sources:", "default_sources:", "did you mean 'default_source'?"),
        ("      minimum:", "      minimun:", "minimun", "'targets.0.compiler.minimun'; did you mean 'minimum'?"),
        ("    index: https", "    indx: https", "indx", "did you mean 'index'?"),
        ("        machine: x86_64", "        maschine: x86_64", "maschine", "did you mean 'machine'?"),
        ("debian:\n", "debian:\n  xyzzy: 1\n", "xyzzy", "unknown key 'debian.xyzzy'; allowed: mirrors"),
        ("worst_peak: 2.5G", "worst_peak: lots", "worst_peak: lots", "'lots' is not a size such as 8G"),
        ("worst_peak: 2.5G", "worst_peak: -1", "worst_peak: -1", "is not a size"),
        ("worst_peak: 2.5G", "worst_peak: [1]", "worst_peak: [1]", "is not a size"),
        ("status: ready", "status: redy", "status: redy", "Input should be 'ready' or 'planned', got 'redy'"),
        ('FP8: "ON"', "FP8: ON", "ENABLE_AMX_FP8", "Input should be a valid string, got True"),
        ('source: "0.33.0"', "source: 0.32", "default_source", "Input should be a valid string, got 0.32"),
        ('source: "0.33.0"', "source: latest", "default_source", "'latest' is not a version (PEP 440)"),
        ("size: 44549956", "size: 0", "size: 0", "Input should be greater than 0"),
        ("- id: x86", "- id: X 86", "- id: X 86", "String should match pattern"),
        ("0e2a5bfeef1bfbffc3137464606540233086ce9b", "v3.13", "commit: v3.13", "String should match pattern"),
        ("    floor: manylinux_2_28\n", "", "- id: x86", "targets.0.floor: Field required"),
    ],
)
def test_a_fault_is_told_with_line_and_hint(load, text: str, old: str, new: str, line_of: str, message: str) -> None:
    assert old in text
    changed = text.replace(old, new, 1)
    line = next(number for number, line in enumerate(changed.splitlines(), 1) if line_of in line)
    with pytest.raises(MatrixError) as raised:
        load(changed)
    assert message in raised.value.what
    assert raised.value.what.startswith(f"matrix.yaml:{line}: ")
    assert raised.value.where.endswith(f"matrix.yaml:{line}")
    assert raised.value.next_step


def test_every_fault_is_listed(load, text: str) -> None:
    with pytest.raises(MatrixError, match="and 1 more") as raised:
        load(text.replace("status: ready", "status: redy", 1).replace("size: 44549956", "size: zero"))
    assert "'zero'" in raised.value.what
    assert "redy" in raised.value.output


def _twice(name: str) -> Callable[[dict[str, Any]], None]:
    return lambda data: data[name].append(data[name][0])


def _unpinned_default(data: dict[str, Any]) -> None:
    data["default_source"] = "0.1.0"


def _no_gperftools(data: dict[str, Any]) -> None:
    del data["gperftools"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_no_gperftools, "x86, arm, s390x: tcmalloc needs the matrix's gperftools"),
        (_twice("targets"), "target x86 is listed twice"),
        (_twice("releases"), "release 0.33.0 is listed twice"),
        (_unpinned_default, "default_source 0.1.0 is not among the releases"),
    ],
)
def test_parts_must_fit_together(load, text: str, change: Callable[[dict[str, Any]], None], message: str) -> None:
    data = yaml.safe_load(text)
    change(data)
    with pytest.raises(MatrixError, match=message):
        load(yaml.safe_dump(data))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("targets: [\n", "is not valid YAML"),
        ("a: 'b\n", "is not valid YAML"),
        ("a: \tb: c\n", "is not valid YAML"),
        ("a: \x07\n", "is not valid YAML"),
        ("--- a\n--- b\n", "is not valid YAML"),
        ("", "matrix.yaml is empty"),
        ("- a\n", "the file: Input should be a valid dictionary"),
        (b"\xff\xfe\xff", "is not UTF-8 text"),
    ],
)
def test_what_is_no_matrix_at_all(load, content: str | bytes, message: str) -> None:
    with pytest.raises(MatrixError, match=message) as raised:
        load(content)
    assert "matrix.yaml" in raised.value.where


@pytest.mark.parametrize("place", ["none", "folder"])
def test_a_missing_matrix_is_told(tmp_path: Path, place: str) -> None:
    if place == "folder":
        (tmp_path / "matrix.yaml").mkdir()
    with pytest.raises(MatrixError, match=r"cannot read matrix\.yaml") as raised:
        load_matrix(tmp_path)
    assert "--root" in raised.value.next_step


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("x68", "did you mean 'x86'?"),
        ("X86", "x86"),
        ("s390", "did you mean 's390x'?"),
        ("riscv", "x86, arm, s390x, macos"),
        ("", "x86"),
    ],
)
def test_an_unknown_target_is_told_with_the_nearest(load, text: str, name: str, hint: str) -> None:
    with pytest.raises(UnknownTargetError, match=f"'{name}'") as raised:
        load(text).buildable(name)
    assert hint in raised.value.next_step


def test_a_planned_target_is_told_as_that(load, text: str) -> None:
    planned = text.replace("status: ready", "status: planned", 1)
    with pytest.raises(TargetNotBuiltError, match="planned but cannot be built yet") as raised:
        load(planned).buildable("x86")
    assert raised.value.next_step.startswith("ready now: arm, s390x")


def test_releases_are_found_by_meaning(load, text: str) -> None:
    matrix = load(text)
    assert matrix.release("0.32") == matrix.release("0.32.0")
    assert matrix.release("0.99.0") is None
