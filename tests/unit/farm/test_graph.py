"""Which jobs wheels become, their keys, and their order."""

from __future__ import annotations

import pytest

from cpuwheels.farm.graph import RANK, Order, Wanted, longest_first, make_graph, still_needed
from farms import ESTIMATE, jobs_for


def test_kernels_that_several_wheels_have_are_compiled_once_before_them() -> None:
    wanted = [Wanted("x86", "a", "k"), Wanted("x86", "b", "k"), Wanted("x86", "c", "other"), Wanted("arm", "a", "k")]
    jobs = make_graph(wanted, Order("id", level="smoke"), ESTIMATE)
    kernels = [job for job in jobs if job.kind == "kernels"]
    assert [(job.target, job.source) for job in kernels] == [("x86", "a")]
    after = {(job.target, job.source): job.after for job in jobs if job.kind == "wheel"}
    assert after == {
        ("x86", "a"): (kernels[0].key,),
        ("x86", "b"): (kernels[0].key,),
        ("x86", "c"): (),
        ("arm", "a"): (),
    }
    known: set[str] = set()
    for job in jobs:  # each after those whose results it uses
        assert set(job.after) <= known
        known.add(job.key)
    assert len(known) == len(jobs) == 1 + 4 + 4


def test_the_longest_way_goes_first_and_a_priority_before_all_ways() -> None:
    jobs = jobs_for("a", "b", level="smoke", kernels="k")
    assert {str(job): job.priority for job in jobs} == {
        "kernels x86 a": 115.0,
        "wheel x86 a": 15.0,
        "parity x86 a": 5.0,
        "wheel x86 b": 15.0,
        "parity x86 b": 5.0,
    }
    assert min(job.priority for job in jobs_for("a", priority=1)) > max(job.priority for job in jobs)
    assert longest_first(jobs, -1)[0].priority == 115.0 - RANK


def test_a_wheel_that_has_to_be_compiled_takes_as_long_as_kernels() -> None:
    (alone,) = jobs_for("a")
    assert alone.seconds == 100.0
    assert [job.seconds for job in jobs_for("a", "b", kernels="k")] == [100.0, 10.0, 10.0]


@pytest.mark.parametrize(
    "change",
    [
        {"identity": "other"},
        {"options": ("--locked",)},
        {"check": False},
        {"level": "full"},
        {"features": frozenset({"amx-usable"})},
    ],
)
def test_a_key_names_everything_that_a_result_depends_on(change: dict[str, object]) -> None:
    base: dict[str, object] = {"identity": "id", "level": "smoke"}
    before = make_graph([Wanted("x86", "a")], Order(**base), ESTIMATE)  # type: ignore[arg-type]
    after = make_graph([Wanted("x86", "a")], Order(**base | change), ESTIMATE)  # type: ignore[arg-type]
    assert before[-1].key != after[-1].key
    tests_alone = set(change) & {"level", "features"}
    assert (before[0].key == after[0].key) is bool(tests_alone), "what tests a wheel does not change it"


def test_a_priority_and_the_class_of_kernels_are_not_part_of_a_wheels_key() -> None:
    (alone,) = jobs_for("a", priority=3)
    shared = jobs_for("a", "b", kernels="k")
    assert alone.key == shared[1].key


def test_what_is_stored_is_not_run_nor_what_only_it_needs() -> None:
    jobs = jobs_for("a", "b", level="smoke", kernels="k")
    kernels, first, parity, second, other = jobs
    assert still_needed(jobs, set()) == jobs
    assert still_needed(jobs, {first.key}) == (kernels, parity, second, other)
    assert still_needed(jobs, {first.key, second.key}) == (parity, other)
    assert still_needed(jobs, {job.key for job in jobs} - {kernels.key}) == ()


def test_serving_comes_after_the_wheel_and_names_the_models() -> None:
    wheel, serve = jobs_for("a", models=("qwen3", "llama"))
    assert (serve.kind, serve.after, serve.needs.can) == ("serve", (wheel.key,), "serve:x86")
    assert serve.options == ("--model", "qwen3", "--model", "llama")
