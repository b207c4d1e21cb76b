from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from cpuwheels.config import Places
from cpuwheels.errors import StoreError, WheelError
from cpuwheels.output import KEPT_LOGS, new_logs, newest_wheel, put_in_place, staging

if TYPE_CHECKING:
    from pathlib import Path

WHEEL = "vllm-0.32.0+cpu-cp38-abi3-manylinux_2_28_x86_64.whl"


@pytest.fixture
def places(tmp_path: Path) -> Places:
    return Places(tmp_path, tmp_path / "cache", tmp_path / "dist")


def stage(staged: Path, wheel: str = WHEEL, content: str = "wheel") -> Path:
    (staged / wheel).write_text(content)
    (staged / "record.json").write_text(content)
    (staged / "debug").mkdir()
    (staged / "debug" / "_C.debug").write_text(content)
    return staged


def everything(folder: Path) -> dict[str, str]:
    return {path.relative_to(folder).as_posix(): path.read_text() for path in folder.rglob("*") if path.is_file()}


def test_what_is_staged_appears_together(places: Places) -> None:
    output = places.output("x86", "0.32.0")
    with staging(places, "x86", "0.32.0") as staged:
        assert put_in_place(stage(staged), output) == output / WHEEL
    assert everything(places.dist / "x86") == {
        f"0.32.0/{name}": "wheel" for name in (WHEEL, "record.json", "debug/_C.debug")
    }


def test_an_earlier_build_is_replaced_whatever_its_wheel_is_called(places: Places) -> None:
    output = places.output("x86", "0.32.0")
    with staging(places, "x86", "0.32.0") as staged:
        put_in_place(stage(staged, "vllm-0.32.0+cpu-cp38-abi3-manylinux_2_31_x86_64.whl", "old"), output)
    (output / "debug" / "_C_OLD.debug").write_text("old")
    with staging(places, "x86", "0.32.0") as staged:
        put_in_place(stage(staged), output)
    assert everything(output) == dict.fromkeys((WHEEL, "record.json", "debug/_C.debug"), "wheel")


def test_staging_starts_empty_is_no_output_and_is_gone_afterwards(places: Places) -> None:
    (places.dist / "x86" / ".new-0.32.0").mkdir(parents=True)
    (places.dist / "x86" / ".new-0.32.0" / "left by a killed run").write_text("")

    def interrupted() -> None:
        with staging(places, "x86", "0.32.0") as staged:
            assert everything(staged) == {}
            stage(staged)
            with pytest.raises(WheelError):
                newest_wheel(places, "x86")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert list((places.dist / "x86").iterdir()) == []


@pytest.mark.parametrize("wheels", [[], ["a.whl", "b.whl"]])
def test_there_must_be_one_wheel(places: Places, wheels: list[str]) -> None:
    with staging(places, "x86", "0.32.0") as staged:
        for name in wheels:
            (staged / name).write_text("")
        with pytest.raises(WheelError, match=f"{len(wheels)} wheels are staged"):
            put_in_place(staged, places.output("x86", "0.32.0"))
    assert not places.output("x86", "0.32.0").exists()


def test_the_newest_wheel_is_found(places: Places) -> None:
    for age, version in ((100, "0.32.0"), (300, "0.31.0"), (200, "0.30.0")):
        folder = places.output("x86", version)
        folder.mkdir(parents=True)
        (folder / f"vllm-{version}.whl").write_text("")
        os.utime(folder / f"vllm-{version}.whl", (1_700_000_000 - age, 1_700_000_000 - age))
    assert newest_wheel(places, "x86").name == "vllm-0.32.0.whl"
    with pytest.raises(WheelError, match="no wheel for target arm") as raised:
        newest_wheel(places, "arm")
    assert "nox -s build-arm" in raised.value.next_step


def test_old_logs_are_removed_and_new_ones_do_not_collide(places: Places) -> None:
    made = [new_logs(places, "x86") for _ in range(KEPT_LOGS + 5)]
    assert len(set(made)) == len(made)
    assert sorted((places.dist / "logs" / "x86").iterdir()) == made[-KEPT_LOGS:]


@pytest.mark.parametrize(
    "make", [lambda places: new_logs(places, "x86"), lambda places: staging(places, "x86", "1").__enter__()]
)
def test_an_output_folder_that_cannot_be_written_is_told(places: Places, make) -> None:
    places.dist.write_text("a file")
    with pytest.raises(StoreError, match="cannot use") as raised:
        make(places)
    assert "--dist" in raised.value.next_step
