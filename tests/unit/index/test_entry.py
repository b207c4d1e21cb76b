"""What an index says of a wheel."""

from __future__ import annotations

import contextlib
import hashlib
import re
import zipfile
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from cpuwheels.core.errors import PublishError, UnusableWheelError
from cpuwheels.index.entry import read_entry, stamp
from cpuwheels.wheel.sbom.schema import FILE
from wheel_notes import wheel_note
from wheel_sboms import with_sbom
from wheel_writer import with_record, write_raw

NAME = "vllm-0.32.0+cpu-cp38-abi3-manylinux_2_27_x86_64.whl"
INFO = "vllm-0.32.0+cpu.dist-info"
COMMIT = "c" * 40


def wheel(folder: Path, name: str = NAME, **changes: bytes | None) -> Path:
    """Write a wheel; a keyword replaces a file of its ``.dist-info``, None leaves it out."""
    files: dict[str, bytes | None] = {
        "METADATA": b"Metadata-Version: 2.4\nName: vllm\nVersion: 0.32.0+cpu\nRequires-Python: >=3.11\n",
        "WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: cp38-abi3-manylinux_2_27_x86_64\n",
        "cpuwheels.json": wheel_note(commit=COMMIT, epoch=1_700_000_000, kernel_key="key").render(),
    } | {key.replace("_json", ".json"): value for key, value in changes.items()}
    members = {f"{INFO}/{key}": value for key, value in files.items() if value is not None}
    members = {"vllm/_C.abi3.so": b"", **members}
    with contextlib.suppress(KeyError, ValueError):  # what is no wheel of ours has none
        members = with_sbom(members, INFO, name)
    return write_raw(folder / name, with_record(members, INFO))


def test_a_wheel_of_ours_says_it_all(tmp_path: Path) -> None:
    path = wheel(tmp_path)
    entry, metadata = read_entry(path, now=datetime(2026, 11, 23, 6, 0, 1, 5, tzinfo=timezone(timedelta(hours=1))))
    assert (entry.filename, entry.size) == (NAME, path.stat().st_size)
    assert entry.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert entry.metadata_sha256 == hashlib.sha256(metadata).hexdigest()
    assert (entry.target, entry.commit, entry.kernels) == ("x86", COMMIT, "key")
    assert (entry.version, entry.requires_python) == ("0.32.0+cpu", ">=3.11")
    assert (entry.made, entry.uploaded) == ("2023-11-14T22:13:20Z", "2026-11-23T05:00:01Z")
    assert entry.parity == "not run"


@pytest.mark.parametrize(
    ("said", "fixed"),
    [
        ({}, None),
        ({"upstream_kernels": True}, 0),
        ({"patches": [{"file": "a", "sha256": "b", "state": "applied", "fixes": ["One", "Two"]}]}, 2),
    ],
)
def test_it_says_how_many_faults_are_fixed(tmp_path: Path, said: dict[str, Any], fixed: int | None) -> None:
    note = wheel_note(commit=COMMIT, **said).render()
    assert read_entry(wheel(tmp_path, cpuwheels_json=note))[0].fixed_faults == fixed


def test_it_says_which_kernels_no_cpu_has_run(tmp_path: Path) -> None:
    note = wheel_note(commit=COMMIT, untried={"_C": ["AMX-FP8", "AVX10.2"]}).render()
    assert read_entry(wheel(tmp_path, cpuwheels_json=note))[0].gaps == (
        "AMX-FP8 of _C: compiled and audited, but no CPU has run it yet",
        "AVX10.2 of _C: compiled and audited, but no CPU has run it yet",
    )


def test_a_note_that_no_page_can_hold_is_refused(tmp_path: Path) -> None:
    note = wheel_note(commit=COMMIT).render().replace(b'"untried": {}', b'"untried": {"_C": ["%s"]}' % (b"x" * 1000))
    with pytest.raises(PublishError, match="another version"):
        read_entry(wheel(tmp_path, cpuwheels_json=note))


def without_sbom(wheel: Path, sbom: bytes | None = None) -> Path:
    """Write a wheel anew with another bill of materials, or without one, and with a ``RECORD`` that fits."""
    with zipfile.ZipFile(wheel) as archive:
        members = {name: archive.read(name) for name in archive.namelist() if not name.endswith("/RECORD")}
    del members[f"{INFO}/{FILE}"]
    return write_raw(wheel, with_record(members | ({f"{INFO}/{FILE}": sbom} if sbom else {}), INFO))


def test_a_wheel_of_ours_without_a_bill_of_materials_is_refused(tmp_path: Path) -> None:
    path = without_sbom(wheel(tmp_path))
    with pytest.raises(PublishError) as raised:
        read_entry(path)
    assert raised.value.what == f"{NAME} cannot be published: it has no sboms/cpuwheels.cdx.json"
    assert (raised.value.where, raised.value.next_step) == (str(path), "publish wheels of vllm as they were built")
    # An index may hold wheels of versions that wrote none.
    assert read_entry(path, listed=True)[0].kernels == "key"


@pytest.mark.parametrize("listed", [True, False])
@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        (b'"vllm/_C.abi3.so"', b'"vllm/_D.abi3.so"', "does not list vllm/_C.abi3.so"),
        (b'"version": "0.32.0+cpu"', b'"version": "0.31.0+cpu"', "is of 'vllm' '0.31.0"),
        (b'"type": "file"', b'"type": "secret"', "is not CycloneDX 1.7: metadata/component/components/0/type"),
        (b'"specVersion": "1.7"', b'"specVersion": "1.5"', "is not CycloneDX 1.7"),
    ],
)
def test_a_tampered_bill_of_materials_is_refused(
    tmp_path: Path, before: bytes, after: bytes, words: str, *, listed: bool
) -> None:
    path = wheel(tmp_path)
    with zipfile.ZipFile(path) as archive:
        sbom = archive.read(f"{INFO}/{FILE}")
    assert before in sbom
    tampered = without_sbom(path, sbom.replace(before, after))
    with pytest.raises(PublishError, match=f"^{re.escape(NAME)} cannot be published: its {FILE} .*{words}"):
        read_entry(tampered, listed=listed)


def test_of_another_wheel_target_and_commit_are_given(tmp_path: Path) -> None:
    path = wheel(tmp_path, cpuwheels_json=None)
    entry, _ = read_entry(path, commit=COMMIT, target="x86")
    assert (entry.target, entry.commit) == ("x86", COMMIT)
    assert read_entry(path, target="x86")[0].commit is None
    with pytest.raises(PublishError, match="does not say which target"):
        read_entry(path)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"target": "arm"}, "built for target x86, not arm"),
        ({"commit": "d" * 40}, f"built from commit {COMMIT}, not d"),
        ({"commit": "main"}, "'main' is not a full hash"),
    ],
)
def test_what_the_wheel_says_otherwise_is_refused(tmp_path: Path, given: dict[str, str], words: str) -> None:
    with pytest.raises(PublishError, match=words):
        read_entry(wheel(tmp_path), **given)


@pytest.mark.parametrize(
    ("name", "changes", "words"),
    [
        ("vllm 0.whl", {}, "not a name for a wheel"),
        ("vllm-0.32.0\x07-cp38-abi3-any.whl", {}, "not a name for a wheel"),
        ("vllm.zip", {}, "not a name for a wheel"),
        ("vllm-0.32.0.whl", {}, "is not a wheel"),
        (NAME, {"METADATA": None}, "is not a wheel"),
        (NAME, {"cpuwheels_json": b"{"}, r"cpuwheels\.json is of another version"),
        ("other-0.32.0+cpu-cp38-abi3-manylinux_2_27_x86_64.whl", {}, "it is a wheel of other"),
        ("vllm-0.33.0+cpu-cp38-abi3-manylinux_2_27_x86_64.whl", {}, "METADATA says version 0.32.0"),
        ("vllm-0.32.0+cpu-cp38-abi3-manylinux_2_28_x86_64.whl", {}, "28_x86_64 is in the file name and not"),
        (NAME, {"METADATA": b"Name: vllm\nVersion: 0.32.0+cpu\nRequires-Dist: a @ https://e.org/a.whl\n"}, "has a URL"),
    ],
)
def test_what_is_not_what_its_name_says_is_refused(
    tmp_path: Path, name: str, changes: dict[str, bytes | None], words: str
) -> None:
    with pytest.raises(PublishError, match=words):
        read_entry(wheel(tmp_path, name, **changes))


@pytest.mark.parametrize("name", [NAME, "nothere.whl", "not there"])
def test_no_file(tmp_path: Path, name: str) -> None:
    with pytest.raises(UnusableWheelError) as raised:
        read_entry(tmp_path / name)
    assert raised.value.what == f"{tmp_path / name} is not there"


def test_a_folder_is_no_wheel(tmp_path: Path) -> None:
    (tmp_path / NAME).mkdir()
    with pytest.raises(PublishError, match="is not a wheel"):
        read_entry(tmp_path / NAME)


def test_moments_are_written_in_utc() -> None:
    assert stamp(datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)) == "2026-01-02T03:04:05Z"
