from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from cpuwheels.config.paths import Paths
from cpuwheels.core.errors import StoreError, UnusableWheelError, WheelError
from cpuwheels.core.filesystem import remove_tree
from cpuwheels.pipeline.dist import KEPT_LOGS, new_logs, newest_wheel, put_in_place, staging

if TYPE_CHECKING:
    from pathlib import Path

WHEEL = "vllm-0.32.0+cpu-cp38-abi3-manylinux_2_28_x86_64.whl"


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    return Paths(tmp_path, tmp_path / "cache", tmp_path / "dist")


def stage(staged: Path, wheel: str = WHEEL, content: str = "wheel") -> Path:
    (staged / wheel).write_text(content)
    (staged / "record.json").write_text(content)
    (staged / "debug").mkdir()
    (staged / "debug" / "_C.debug").write_text(content)
    return staged


def everything(folder: Path) -> dict[str, str]:
    return {path.relative_to(folder).as_posix(): path.read_text() for path in folder.rglob("*") if path.is_file()}


def test_what_is_staged_appears_together(paths: Paths) -> None:
    output = paths.output("x86", "0.32.0")
    with staging(paths, "x86", "0.32.0") as staged:
        assert put_in_place(stage(staged), output) == output / WHEEL
    assert everything(paths.dist / "x86") == {
        f"0.32.0/{name}": "wheel" for name in (WHEEL, "record.json", "debug/_C.debug")
    }


def test_a_wheel_is_put_in_place_in_one_rename_after_all_else(paths: Paths) -> None:
    output = paths.output("x86", "0.32.0")
    with staging(paths, "x86", "0.32.0") as staged:
        before = (stage(staged) / WHEEL).stat()
        (output / "record.json").mkdir(parents=True)
        (output / "record.json" / "in the way").write_text("")
        with pytest.raises(StoreError):
            put_in_place(staged, output)
        assert not (output / WHEEL).exists()
        remove_tree(output / "record.json")
        assert put_in_place(staged, output).stat().st_ino == before.st_ino


def test_what_was_signed_of_the_wheel_before_goes_with_it(paths: Paths) -> None:
    output = paths.output("x86", "0.32.0")
    output.mkdir(parents=True)
    for suffix in (".provenance.json", ".intoto.jsonl", ".slsa.attestation", ".publish.attestation", ".provenance"):
        (output / f"{WHEEL}{suffix}").write_text("of other bytes")
    (output / "serve.json").write_text("stays")
    with staging(paths, "x86", "0.32.0") as staged:
        stage(staged)
        (staged / f"{WHEEL}.provenance.json").write_text("of these")
        put_in_place(staged, output)
    assert everything(output) == {
        **dict.fromkeys((WHEEL, "record.json", "debug/_C.debug"), "wheel"),
        f"{WHEEL}.provenance.json": "of these",
        "serve.json": "stays",
    }


def test_an_earlier_build_is_replaced_whatever_its_wheel_is_called(paths: Paths) -> None:
    output = paths.output("x86", "0.32.0")
    with staging(paths, "x86", "0.32.0") as staged:
        put_in_place(stage(staged, "vllm-0.32.0+cpu-cp38-abi3-manylinux_2_31_x86_64.whl", "old"), output)
    (output / "debug" / "_C_OLD.debug").write_text("old")
    with staging(paths, "x86", "0.32.0") as staged:
        put_in_place(stage(staged), output)
    assert everything(output) == dict.fromkeys((WHEEL, "record.json", "debug/_C.debug"), "wheel")


def test_staging_starts_empty_is_no_output_and_is_gone_afterwards(paths: Paths) -> None:
    (paths.dist / "x86" / ".new-0.32.0").mkdir(parents=True)
    (paths.dist / "x86" / ".new-0.32.0" / "left by a killed run").write_text("")

    def interrupted() -> None:
        with staging(paths, "x86", "0.32.0") as staged:
            assert everything(staged) == {}
            stage(staged)
            with pytest.raises(UnusableWheelError):
                newest_wheel(paths, "x86")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert list((paths.dist / "x86").iterdir()) == []


@pytest.mark.parametrize("wheels", [[], ["a.whl", "b.whl"]])
def test_there_must_be_one_wheel(paths: Paths, wheels: list[str]) -> None:
    with staging(paths, "x86", "0.32.0") as staged:
        for name in wheels:
            (staged / name).write_text("")
        with pytest.raises(WheelError, match=f"{len(wheels)} wheels are staged"):
            put_in_place(staged, paths.output("x86", "0.32.0"))
    assert not paths.output("x86", "0.32.0").exists()


def test_the_newest_wheel_is_found(paths: Paths) -> None:
    # Its name is neither the first nor the last.
    for age, version in ((200, "0.30.0"), (300, "0.32.0"), (100, "0.31.0")):
        folder = paths.output("x86", version)
        folder.mkdir(parents=True)
        (folder / f"vllm-{version}.whl").write_text("")
        os.utime(folder / f"vllm-{version}.whl", (1_700_000_000 - age, 1_700_000_000 - age))
    assert newest_wheel(paths, "x86").name == "vllm-0.31.0.whl"
    with pytest.raises(UnusableWheelError, match="no wheel for target arm") as raised:
        newest_wheel(paths, "arm")
    assert "nox -s build-arm" in raised.value.next_step


def test_old_logs_are_removed_and_new_ones_do_not_collide(paths: Paths) -> None:
    made = [new_logs(paths, "x86") for _ in range(KEPT_LOGS + 5)]
    assert len(set(made)) == len(made)
    assert sorted((paths.dist / "logs" / "x86").iterdir()) == made[-KEPT_LOGS:]


@pytest.mark.parametrize(
    "make", [lambda paths: new_logs(paths, "x86"), lambda paths: staging(paths, "x86", "1").__enter__()]
)
def test_an_output_folder_that_cannot_be_written_is_told(paths: Paths, make) -> None:
    paths.dist.write_text("a file")
    with pytest.raises(StoreError, match="cannot use") as raised:
        make(paths)
    assert "--dist" in raised.value.next_step
