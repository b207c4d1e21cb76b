"""What is compared, and what is found said."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any, Self

import pytest
from rich.console import Console

from cpuwheels.core.console import Reporter
from cpuwheels.core.errors import UsageError
from cpuwheels.verification.benchmark import run as runs
from cpuwheels.verification.benchmark.compare import CaseTimes, LeftOut, OperatorSpeed
from cpuwheels.verification.benchmark.ratio import Ratio
from cpuwheels.verification.benchmark.result import SpeedResult
from cpuwheels.verification.benchmark.run import Side, SpeedRequest, compare_wheels, require_comparable
from cpuwheels.wheel.kernel_wheel import KernelWheel
from pseudo_terminal import WIDTHS, printed
from sides import Side as Timed

NEEDS = {"_C_AVX512": ["avx512f", "avx512bw"]}


def wheel(path: str, *libraries: str) -> KernelWheel:
    return KernelWheel(Path(path), "0" * 64, "0.32.0", "2.13.0", {name: f"vllm/{name}.so" for name in libraries})


@pytest.mark.parametrize(
    ("library", "one", "two", "message"),
    [
        ("_C", wheel("a.whl", "_C"), wheel("./a.whl", "_C"), "a.whl would be compared with itself"),
        ("_C_AVX2", wheel("a.whl", "_C", "_C_AVX2"), wheel("b.whl", "_C"), "b.whl has no library _C_AVX2"),
        ("_C_AVX512", wheel("a.whl", "_C_AVX512"), wheel("b.whl", "_C_AVX512"), "it lacks avx512bw"),
    ],
)
def test_what_cannot_be_compared_is_told(library: str, one: KernelWheel, two: KernelWheel, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        require_comparable(library, [one, two], NEEDS, {"avx512f"})


def test_copies_of_one_wheel_can_be_compared() -> None:
    require_comparable("_C", [wheel("a.whl", "_C"), wheel("other/a.whl", "_C")], NEEDS, set())


class Sides:
    """Installed wheels whose processes are `Timed`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, seconds: dict[str, float], against: dict[str, float]) -> None:
        self.started = 0
        times = {"a.whl": seconds, "b.whl": against}

        class Started(Timed):
            def __enter__(self) -> Self:
                return self

            def __exit__(self, *_: object) -> None:
                pass

        def worker(name: str, *_: object) -> Started:
            self.started += 1
            return Started(times[name], name)

        monkeypatch.setattr(runs, "Worker", worker)

    def compare(self, *operators: str, rounds: int = 7) -> Any:
        request = SpeedRequest("_C", operators, rounds, 1, 2)
        one, two = (Side(wheel(name, "_C"), Path("python"), Path()) for name in ("a.whl", "b.whl"))
        reporter = Reporter("x86", Console(file=io.StringIO()))
        return compare_wheels(request, one, two, script=Path(), logs=Path(), reporter=reporter)


def test_both_sides_are_started_anew_in_every_round(monkeypatch: pytest.MonkeyPatch) -> None:
    sides = Sides(monkeypatch, {"a[1]": 1e-3}, {"a[1]": 2e-3})
    assert sides.compare().times[0].ratios == [2.0] * 7
    assert sides.started == 2 * 7


def test_an_operator_that_nobody_has_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="_C of neither wheel has rms_nrom") as raised:
        Sides(monkeypatch, {"rms_norm[1]": 1.0}, {"rms_norm[1]": 1.0}).compare("rms_nrom")
    assert "did you mean rms_norm?" in str(raised.value)


def test_an_operator_that_one_has_leaves_nothing_to_compare(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="nothing to compare") as raised:
        Sides(monkeypatch, {"a[1]": 1.0}, {"b[1]": 1.0}).compare("a")
    assert "a: only one of the wheels has it" in str(raised.value)


def result() -> SpeedResult:
    times = CaseTimes("slow[1]", "slow", 0, [2e-3] * 6, [1e-3] * 6)
    speeds = (
        OperatorSpeed("slow", Ratio(0.5, 0.4, 0.96), (times,)),
        OperatorSpeed("unsure", Ratio(0.9, 0.8, 0.98), (times,)),
        OperatorSpeed("fast", Ratio(2.0, 1.9, 2.1), (times,)),
    )
    left = (
        LeftOut("fast", "fast[2]", "the call is refused"),
        LeftOut("ranks", "ranks[1]", "it is called in other processes"),
        LeftOut("ranks", "ranks[2]", "it is called in other processes"),
    )
    request = SpeedRequest("_C", (), 6, 1, 2)
    one, two = (Side(wheel(name, "_C"), Path(), Path()) for name in ("a.whl", "b.whl"))
    return SpeedResult(request, one, two, speeds, left, "a CPU", releases=("3.13.0", ""))


def test_only_an_operator_whose_whole_interval_is_below_is_slower() -> None:
    assert [speed.operator for speed in result().slower(0.97)] == ["slow"]
    assert result().geometric_mean == pytest.approx(0.9 ** (1 / 3))


@pytest.mark.parametrize("width", WIDTHS)
def test_the_table_fits_a_terminal(width: int) -> None:
    lines = printed(result().as_table(0.97).print, width).rows
    assert any("slow" in line and "0.500" in line and "0.400 to 0.960" in line for line in lines)
    assert lines[-1].split() == ["geometric", "mean", "0.965"]


def test_what_was_not_timed_is_said_once() -> None:
    assert result().as_lines() == ["ranks was not timed: it is called in other processes"]


def test_the_report_has_every_round_and_what_was_left_out() -> None:
    report = json.loads(result().as_text())
    (case,) = report["operators"][0]["cases"]
    assert (case["case"], len(case["seconds"]), case["ratio"]) == ("slow[1]", 6, 0.5)
    assert (report["wheel"]["onednn"], report["against"]["onednn"]) == ("3.13.0", "")
    assert report["left_out"][0] == {"operator": "fast", "case": "fast[2]", "reason": "the call is refused"}
