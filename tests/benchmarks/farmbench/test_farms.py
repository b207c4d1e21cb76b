"""A week of commits on simulated farms, with costs that can be added up by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from farmbench.arrivals import Arrival, Week
from farmbench.costs import Costs, compile_seconds, with_numbers
from farmbench.farms import Setting, load_of, quantile, simulate_batch, simulate_farm, smallest_farm, whole_farm

from cpuwheels.core.errors import UsageError

NUMBERS = {
    "wheel": 10, "audit": 5, "parity": 20, "parity-emulated": 40, "overhead": 1, "network": 8, "wheel-bytes": 1_000_000,
    "kernels-bytes": 3_000_000,
}  # fmt: skip
"""A megabyte takes a second."""
COSTS = Costs({"x86": 100, "arm": 200}, {"x86": 10, "arm": 20}, frozenset({"x86"}), with_numbers(NUMBERS))
WHEEL = 10 + 1 + 1
"""Seconds that a wheel takes whose kernels are there, until it is home."""
KERNELS = 100 + 5 + 1
"""Seconds that compiling and auditing take."""


def setting(**changes: object) -> Setting:
    can = {"build:x86": 1.0, "build:arm": 1.0, "test:x86": 1.0, "test:arm": 1.0}
    base = Setting(("x86",), COSTS, cpus=2, memory=100, can=can, within=150.0)
    return replace(base, **changes)  # type: ignore[arg-type]


def week(*commits: tuple[float, str], before: str = "k0") -> Week:
    found = tuple(Arrival(f"commit{number}", at, kernels) for number, (at, kernels) in enumerate(commits))
    return Week("test", "2026-11-02", 1, found, before)


def test_stored_kernels_are_carried_for_the_first_wheel_alone() -> None:
    farm = simulate_farm(load_of(week((0, "k0"), (1000, "k0")), setting()), 1)
    assert (farm.delays.longest, farm.delays.median) == (WHEEL + 3, WHEEL)
    assert (farm.used.jobs, farm.used.compiled) == (2, 0)
    assert (farm.used.carried, farm.used.home) == (3_000_000, 2_000_000)
    assert farm.used.hours == pytest.approx((2 * WHEEL + 3) / 3600)
    assert farm.used.minutes_per_wheel == pytest.approx((2 * WHEEL + 3) / 2 / 60)
    assert farm.used.utilisation == pytest.approx((2 * WHEEL + 3) / 86_400)


def test_new_kernels_are_compiled_once_for_all_commits_of_their_class() -> None:
    farm = simulate_farm(load_of(week((0, "k1"), (0, "k1"), (500, "k1")), setting()), 1)
    assert (farm.used.jobs, farm.used.compiled) == (1 + 3, 1)
    # Kernels, then two wheels of them; nothing is carried.
    assert farm.delays.longest == KERNELS + WHEEL + WHEEL
    assert farm.used.carried == 0


def test_another_machine_packs_meanwhile_and_gets_the_kernels_for_it() -> None:
    farm = simulate_farm(load_of(week((0, "k1"), (0, "k1")), setting()), 2)
    assert farm.delays.longest == KERNELS + WHEEL + 3
    assert farm.used.carried == 3_000_000


def test_in_time_counts_wheels_and_whole_commits() -> None:
    farm = simulate_farm(load_of(week((0, "k1"), (5000, "k1")), setting(targets=("x86", "arm"))), 1)
    # arm's way is longer: compiled first. Only then x86's kernels, 312; both wheels come after.
    assert farm.delays.wheels == 4
    assert (farm.delays.within, farm.delays.commits_within) == (0.5, 0.5)
    late = simulate_farm(
        load_of(week((0, "k1"), (5000, "k1")), setting(targets=("x86", "arm"), within=KERNELS + WHEEL)), 2
    )
    assert (late.delays.within, late.delays.commits_within) == (0.75, 0.5)


def test_a_wheel_is_there_when_its_tests_are() -> None:
    farm = simulate_farm(load_of(week((0, "k0")), setting(level="smoke")), 1)
    assert farm.delays.longest == WHEEL + 3 + 1 + 20 + 1
    emulated = simulate_farm(load_of(week((0, "k0")), setting(level="smoke", targets=("arm",))), 1)
    assert emulated.delays.longest == farm.delays.longest + 20


def test_tests_that_no_machine_can_do_are_left_out() -> None:
    able = {"build:x86": 1.0, "build:arm": 1.0, "test:x86": 1.0}
    farm = simulate_farm(load_of(week((0, "k0")), setting(level="smoke", targets=("x86", "arm"), can=able)), 2)
    assert farm.used.jobs == 3


def test_all_at_once_on_one_machine_is_the_bound_whatever_the_order() -> None:
    load = load_of(week((0, "k1"), (9, "k1"), (99, "k2")), setting())
    batch = simulate_batch(load, 1, COSTS)
    # kernels of k1, two wheels of them; the third wheel compiles its own, as no other has them.
    assert batch.jobs == 4
    assert batch.makespan == batch.bound == KERNELS + WHEEL + WHEEL + (WHEEL + 100 + 5)
    assert (batch.ratio, batch.bound_of) == (1.0, "work")


def test_the_audit_of_kernels_is_carried_with_them() -> None:
    farm = whole_farm(load_of(week(*[(0, "k1")] * 4), setting()), 4)
    assert farm.batch is not None
    assert farm.batch.makespan == KERNELS + WHEEL + 3
    assert farm.batch.bound == KERNELS + WHEEL
    alone = simulate_batch(load_of(week(*[(0, "k1")] * 4), setting()), 1, COSTS)
    assert alone.makespan == alone.bound == KERNELS + 4 * WHEEL


def test_the_smallest_farm_is_enough_for_every_week() -> None:
    calm, busy = week((0, "k0")), week((0, "k1"), (0, "k2"))
    loads = [load_of(one, setting(within=125)) for one in (calm, busy)]
    assert (simulate_farm(loads[1], 1).delays.within, simulate_farm(loads[1], 2).delays.within) == (0.0, 1.0)
    farm = smallest_farm(loads, 4)
    assert farm is not None
    assert (farm.machines, farm.delays.wheels) == (2, 1)
    assert smallest_farm(loads[:1], 4).machines == 1  # type: ignore[union-attr]
    assert smallest_farm(loads, 1) is None


def test_of_what_a_part_of_the_machines_can_do_at_least_one_can() -> None:
    some = setting(can={"build:x86": 1.0, "build:arm": 0.3})
    assert [sum("build:arm" in one.can for one in some.machines(count)) for count in (1, 2, 4, 10)] == [1, 1, 2, 3]


def test_quantiles_are_values_that_occur() -> None:
    assert [quantile([1, 2, 3, 4], part) for part in (0.25, 0.5, 0.51, 0.95, 1.0)] == [1, 2, 3, 4, 4]


def test_compiling_is_limited_by_cpus_by_the_longest_file_and_by_memory(memgate: Path, tmp_path: Path) -> None:
    (tmp_path / "measured").mkdir()
    lines = [f"{seconds}\t{size}\tCMakeFiles/a.dir/{name}.o\n" for name, seconds, size in (("b", 8, 4), ("c", 2, 4))]
    lines += [f"2\t4\tCMakeFiles/a.dir/{name}.o\n" for name in "def"]
    (tmp_path / "measured" / "t.tsv").write_text("# seconds\n" + "".join(lines))
    found = {
        (cpus, cap): compile_seconds(tmp_path, ["t"], memgate, cpus, cap).compile["t"]
        for cpus, cap in ((1, 100), (2, 100), (8, 100), (8, 4))
    }
    assert found == {(1, 100): 16, (2, 100): 8, (8, 100): 8, (8, 4): 16}
    with pytest.raises(UsageError, match="the largest compilation of t needs 4 bytes and a machine has 3"):
        compile_seconds(tmp_path, ["t"], memgate, 8, 3)
    with pytest.raises(UsageError, match="nothing was measured of other"):
        compile_seconds(tmp_path, ["other"], memgate, 8, 4)
