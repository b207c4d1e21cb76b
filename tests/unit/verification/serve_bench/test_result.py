"""What is recorded of a comparison, and what a person sees of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from cpuwheels.verification.serve_bench.compare import BenchCase, Comparison, LoadSamples, Side
from cpuwheels.verification.serve_bench.load import Sample
from cpuwheels.verification.serve_bench.result import BenchedSide, ServeBench, bench_loads
from cpuwheels.verification.serving.environment import ServingEnvironment
from cpuwheels.wheel.kernel_wheel import KernelWheel
from pseudo_terminal import WIDTHS, printed

ENVIRONMENT = ServingEnvironment(Path("python"), Path("site"), "3.11", "2.13.0+cpu", "lock", "1" * 64, (), ())
OTHER = [100.0, 100.0, 100.0, 100.0, 100.0, 100.0]


def bench(wheel: list[float], against: list[float] = OTHER, speculation: str = "none") -> ServeBench:
    """Return a result in which the first token takes the time of ten tokens."""
    case = BenchCase("qwen3-tiny", Path("m"), speculation)  # type: ignore[arg-type]
    own, other = ([Sample(value, 10 / value) for value in values] for values in (wheel, against))
    found = Comparison([LoadSamples(case, 16, own, other)])
    side = Side(
        "against",
        KernelWheel(Path("dist/b.whl"), "2" * 64, "1.0", "2.13.0", {}),
        ENVIRONMENT,
        {"A": "1"},
        (Path("/x/libiomp5.so"),),
    )
    plain = Side("wheel", KernelWheel(Path("dist/a.whl"), "0" * 64, "1.0", "2.13.0", {}), ENVIRONMENT)
    return ServeBench(
        project="1.0",
        wheel=BenchedSide.of(plain, {"libgomp.so.1", "_C"}),
        against=BenchedSide.of(side, {"libiomp5.so", "_C"}),
        machine="A CPU",
        cpus=2,
        onednn_limit="",
        env={},
        dtype="bfloat16",
        prompt_tokens=128,
        answer_tokens=64,
        rounds=len(wheel),
        began="2026-11-24T00:00:00+00:00",
        seconds=1.0,
        loads=bench_loads(found),
    )


def test_ratios_are_medians_with_intervals_and_above_one_is_faster() -> None:
    (load,) = bench([90.0, 110.0, 120.0, 130.0, 140.0, 200.0]).loads
    for quantity in (load.tokens_per_second, load.first_token_seconds):
        assert quantity.ratio == pytest.approx(1.25)
        # Of six ratios the interval is the whole range.
        assert (quantity.low, quantity.high) == (pytest.approx(0.9), pytest.approx(2.0))
    assert load.first_token_seconds.wheel[-1] == 0.05


def test_only_a_whole_interval_below_is_slower() -> None:
    assert bench([90.0] * 5 + [98.0]).slower(0.97) == []
    slow = bench([90.0] * 5 + [96.0], speculation="draft")
    assert slow.slower(0.97) == [f"qwen3-tiny, draft, 16 at once, {name}" for name in ("tokens/s", "first token")]
    assert slow.slower(0.9) == []


def test_the_record_can_be_read_back_and_has_each_sides_setting() -> None:
    found = bench([100.0] * 6)
    assert ServeBench.model_validate_json(found.model_dump_json()) == found
    assert (found.wheel.name, found.against.name) == ("a.whl", "b.whl with libiomp5.so, A=1")
    assert found.against.loaded == ("_C", "libiomp5.so")
    assert (found.against.env, found.against.preload) == ({"A": "1"}, ("libiomp5.so",))


@pytest.mark.parametrize("width", WIDTHS)
def test_the_table_fits(width: int) -> None:
    lines = printed(bench([90.0] * 6, speculation="ngram").as_table(0.97).print, width).rows
    (row,) = (line for line in lines if "tokens/s" in line)
    assert row.split()[2:6] == ["tokens/s", "90.0", "100.0", "0.900"]
    assert sum("0.900 to 0.900" in line for line in lines) == 2
    assert any(
        "16 at once" in line and "TTFT, ms" in line and " 111.1 " in line and " 100.0 " in line for line in lines
    )
