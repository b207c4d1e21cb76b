"""Wheels of commits that others make: once each, kernels once for all that have the same, errors as of a build."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from cpuwheels.bisect.farm_wheels import PRIORITY, FarmWheels
from cpuwheels.bisect.wheels import Got, Wheels
from cpuwheels.config.matrix import load_matrix
from cpuwheels.config.options import BuildOptions
from cpuwheels.core.console import Reporter
from cpuwheels.core.errors import CompileError
from cpuwheels.core.store import Store
from cpuwheels.farm.graph import RANK, Order
from cpuwheels.farm.local import LocalExecutor
from farms import ESTIMATE, begun, events_in, machine, site_in, wait_for

A, B, C = (letter * 40 for letter in "abc")


class Carrying(LocalExecutor):
    """One machine that hands its results over as another one would."""

    def __init__(self, folder: Path) -> None:
        super().__init__(site_in(folder, "one", events=folder / "events", carries=True), machine(), 2)


@pytest.fixture
def farm(tmp_path: Path) -> Iterator[FarmWheels]:
    with Carrying(tmp_path) as executor:
        order = Order("", ("--locked",), check=False, priority=PRIORITY)
        yield FarmWheels(executor, "x86", order, ESTIMATE, {A: "k", B: "k", C: "other"})


@pytest.fixture
def wheels(farm: FarmWheels, tmp_path: Path, project_root: Path, store: Store) -> Wheels:
    matrix = load_matrix(project_root)
    return Wheels(project_root, store, tmp_path / "out", matrix, matrix.target("x86"), BuildOptions(), farm=farm)


def test_a_wheel_comes_into_the_commits_own_folder(wheels: Wheels, tmp_path: Path, reporter: Reporter) -> None:
    got = wheels.get(A, reporter)
    assert got.path.is_relative_to(tmp_path / "out" / A[:12] / "x86")
    assert got == Got(got.path, got.sha256, "farm")
    assert wheels.get(A, reporter) is got


def test_kernels_that_commits_share_are_compiled_once(wheels: Wheels, tmp_path: Path, reporter: Reporter) -> None:
    for commit in (A, B, C):
        wheels.get(commit, reporter)
    events = tmp_path / "events"
    assert [len(begun(events, f"kernels x86 {commit}")) for commit in (A, B, C)] == [1, 0, 1]
    assert not [line for line in events_in(events) if line.startswith(("kernels ", "compiled "))], "they are there"


def test_a_wheel_that_an_earlier_run_left_is_not_made_again(
    farm: FarmWheels, wheels: Wheels, tmp_path: Path, reporter: Reporter
) -> None:
    path = wheels.get(A, reporter).path
    before = events_in(tmp_path / "events")
    assert farm.get(A, wheels.paths(A).dist, reporter)[0] == path
    assert events_in(tmp_path / "events") == before


def test_what_a_build_ends_with_is_the_error(wheels: Wheels, tmp_path: Path, reporter: Reporter) -> None:
    (tmp_path / "events" / f"fail-{A}").write_text(str(CompileError.exit_code))
    with pytest.raises(CompileError, match="told to fail with") as raised:
        wheels.get(A, reporter)
    assert "told to fail" in raised.value.output
    assert len(begun(tmp_path / "events", f"build x86 {A}")) == 1, "it may have other kernels than predicted"


def test_several_are_made_at_once_and_what_comes_next_is_begun(
    wheels: Wheels, tmp_path: Path, reporter: Reporter
) -> None:
    events = tmp_path / "events"
    (events / f"hang-{A}").touch()
    (events / f"hang-{C}").touch()
    got: dict[str, Got] = {}

    def get(commit: str) -> None:
        got[commit] = wheels.get(commit, reporter)

    threads = [threading.Thread(target=get, args=(commit,)) for commit in (A, C)]
    for thread in threads:
        thread.start()
    wait_for(lambda: bool(begun(events, f"kernels x86 {A}") and begun(events, f"kernels x86 {C}")))
    wheels.prepare(B, reporter)
    assert B not in got
    for commit in (A, C):
        (events / f"hang-{commit}").unlink()
    for thread in threads:
        thread.join(60)
    assert set(got) == {A, C}
    wheels.get(B, reporter)
    assert len(begun(events, f"build x86 {B}")) == 1


def test_a_bisection_goes_before_a_batch(farm: FarmWheels) -> None:
    kernels, wheel = farm._jobs(A)
    assert (kernels.priority, wheel.priority) == (PRIORITY * RANK + 110, PRIORITY * RANK + 10)
    assert wheel.options == ("--locked", "--no-check")
