"""A wheel compared with one that was built again: what is written next to it, and what comes of failures."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from cpuwheels.config.matrix import load_matrix
from cpuwheels.config.options import BuildOptions
from cpuwheels.config.paths import Paths
from cpuwheels.core.console import Reporter
from cpuwheels.core.digests import file_digest
from cpuwheels.core.errors import PostponedError, StoreError
from cpuwheels.pipeline import verify as module
from cpuwheels.pipeline.variation.axes import axes_of
from cpuwheels.pipeline.variation.machine import Machine
from cpuwheels.pipeline.variation.second_build import Arrangement, SecondBuildError
from cpuwheels.pipeline.verify import verify_wheel
from cpuwheels.toolchain.native_helpers import CpuFeatures
from cpuwheels.verification.verified import VERIFY, Verified
from recorded_wheel import write_build


class Again:
    """Verifies a wheel with a second one that is made up."""

    def __init__(self, base: Path, root: Path, reporter: Reporter) -> None:
        self.paths = Paths(root, base / "cache", base / "dist")
        self.first = write_build(base / "dist" / "x86" / "0.32.0")
        (base / "second").mkdir()
        self.second = Path(shutil.copy(self.first, base / "second"))
        self.matrix, self.reporter = load_matrix(root), reporter
        self.error: Exception | None = None
        self.asked: list[BuildOptions] = []
        self.why = "it lacks something"

    @contextmanager
    def build(self, context: Any, wanted: Arrangement, _: Machine) -> Iterator[tuple[Path, Arrangement]]:
        self.asked.append(context.options)
        if self.error:
            raise self.error
        happened = Arrangement(wanted.circumstances, wanted.varied, {"python": self.why})
        yield self.second, happened

    def run(self) -> Verified:
        machine = Machine()
        machine.namespaces = ""  # type: ignore[misc]  (a cached property)
        options = BuildOptions(locked=True)
        axes = axes_of(["umask", "time-zone"])
        return verify_wheel(self.paths, self.matrix, "x86", options, self.first, axes, self.reporter, machine)


@pytest.fixture
def again(tmp_path: Path, project_root: Path, reporter: Reporter, monkeypatch: pytest.MonkeyPatch) -> Again:
    found = Again(tmp_path, project_root, reporter)
    monkeypatch.setattr(module, "second_build", found.build)
    cpu = CpuFeatures(architecture="x86_64", vendor="v", model="A CPU", features=frozenset(), xcr0=None, amx=None)
    monkeypatch.setattr(module, "cpu_at_hand", lambda _: cpu)
    return found


def test_what_was_found_lies_next_to_the_wheel_and_in_its_report(again: Again) -> None:
    found = again.run()
    assert found.reproduced
    assert list(found.varied) == ["time-zone", "umask"]
    assert found.not_varied == {"python": "it lacks something"}, "what happened, and not what was wanted"
    assert (found.wheel, found.sha256) == (again.first.name, file_digest(again.first))
    assert again.asked == [BuildOptions(locked=True)]
    assert found.machine.endswith(", A CPU")
    written = Verified.model_validate_json((again.first.parent / VERIFY).read_bytes())
    assert written == found
    assert "the same bytes; varied: time-zone, umask" in (again.first.parent / "report.html").read_text()


def test_a_reason_of_any_length_is_kept_in_short(again: Again) -> None:
    again.why = "ld.so complains\n" * 999
    assert again.run().not_varied["python"].startswith("ld.so complains ld.so")


def test_differences_are_written_too(again: Again) -> None:
    again.second = write_build(again.second.parent, files={"vllm/__init__.py": "2"})
    found = again.run()
    assert not found.reproduced
    assert found.count == len(found.differences) > 0
    assert "vllm/__init__.py" in {one.member for one in found.differences}
    assert "give wheels that differ in" in (again.first.parent / "report.html").read_text()


def test_a_second_build_that_fails_says_nothing_of_the_wheel(again: Again) -> None:
    again.error = SecondBuildError(27)
    with pytest.raises(SecondBuildError):
        again.run()
    assert not (again.first.parent / VERIFY).exists()


def test_the_end_of_the_night_is_no_failure(again: Again) -> None:
    again.error = SecondBuildError(PostponedError.exit_code)
    with pytest.raises(PostponedError, match="the time is up"):
        again.run()
    assert not (again.first.parent / VERIFY).exists()


def test_a_wheel_that_somebody_took(again: Again) -> None:
    again.first.unlink()
    with pytest.raises(StoreError):
        again.run()
    assert again.asked == []
