"""Timing a call of an operator in a case, on operators made up here."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from harness import timing
from harness.case import Call, Case, refusal
from harness.draw import Draw
from harness.library import Library
from harness.timing import PAGE, Moment, NotTimedError, Replay, Watch, largest_call

SEEN: list[Any] = []


@pytest.fixture(scope="module")
def library() -> Iterator[Library]:
    """Operators in Python that note what they are given."""
    definition = torch.library.Library("_C", "FRAGMENT")

    def timed_add(total: torch.Tensor, x: torch.Tensor) -> None:
        SEEN.append((total.clone(), total.data_ptr(), x.data_ptr()))
        total += x

    def timed_hidden(total: torch.Tensor, x: torch.Tensor) -> int:
        SEEN.append(total.clone())
        total += x
        return 1

    def timed_sum(parts: list[torch.Tensor]) -> torch.Tensor:
        SEEN.append([(part.data_ptr(), part.stride(), part.tolist()) for part in parts])
        time.sleep(0.002)
        return parts[0].clone()

    def timed_refusing(x: torch.Tensor) -> torch.Tensor:  # noqa: ARG001
        raise RuntimeError("not supported")

    for name, signature, function in (
        ("timed_add", "(Tensor! total, Tensor x) -> ()", timed_add),
        ("timed_hidden", "(Tensor total, Tensor x) -> int", timed_hidden),
        ("timed_sum", "(Tensor[] parts) -> Tensor", timed_sum),
        ("timed_refusing", "(Tensor x) -> Tensor", timed_refusing),
    ):
        definition.define(name + signature)
        definition.impl(name, function, "CPU")
    made = Library.__new__(Library)
    made.operators, made.called, made._checked = ["timed_add"], set(), False
    yield made
    definition._destroy()


@pytest.fixture(autouse=True)
def nothing_seen() -> None:
    SEEN.clear()


def case_of(run: Any) -> Case:
    return Case(("timed_add",), "case", "", lambda library, _: Call(lambda: run(library) or {}, dict), {})


def adding(*sizes: int) -> Case:
    def run(library: Any) -> None:
        for size in sizes:
            library.timed_add(torch.zeros(size), torch.ones(size))

    return case_of(run)


def test_the_largest_call_is_chosen(library: Library) -> None:
    assert largest_call(adding(1, 100, 7), library, "timed_add") == 1


def test_calls_that_are_refused_are_not_chosen(library: Library) -> None:
    refused = case_of(lambda library: refusal(lambda: library.timed_refusing(torch.ones(3))))
    with pytest.raises(NotTimedError, match="refused"):
        largest_call(refused, library, "timed_refusing")


def test_calls_in_other_processes_are_not_seen(library: Library) -> None:
    def run(library: Any) -> None:
        if os.fork() == 0:
            library.timed_add(torch.zeros(1), torch.ones(1))
            os._exit(0)
        assert os.wait()[1] == 0

    with pytest.raises(NotTimedError, match="other processes"):
        largest_call(case_of(run), library, "timed_add")


def test_a_call_for_its_effects_alone_is_not_repeated(library: Library) -> None:
    case = case_of(lambda library: library.timed_hidden(torch.zeros(1), torch.ones(1)) and None)
    with pytest.raises(NotTimedError, match="changes what later calls find"):
        largest_call(case, library, "timed_hidden")


def test_the_visit_comes_before_the_call_itself(library: Library) -> None:
    visits: list[Replay] = []
    watch = Watch(library, "timed_add", 1, visits.append)
    call = adding(1, 5, 2).build(watch, Draw(1))
    call.run()
    assert len(visits) == 1
    assert watch.moments == [Moment(2, refused=False), Moment(10, refused=False), Moment(4, refused=False)]


def test_each_call_finds_the_same_and_the_case_its_own(library: Library) -> None:
    total, x = torch.full((8,), 3.0), torch.ones(8)
    assert Replay(library, "timed_add", (total, x), {}).sample(5) > 0
    assert len(SEEN) >= 6
    assert all(torch.equal(before, torch.full((8,), 3.0)) for before, _, _ in SEEN)
    assert torch.equal(total, torch.full((8,), 3.0))


def test_what_a_schema_does_not_declare_is_put_back_too(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "may_write", lambda *_: True)
    Replay(library, "timed_hidden", (torch.zeros(2), torch.ones(2)), {}).sample(3)
    assert all(torch.equal(before, torch.zeros(2)) for before in SEEN)


def test_much_memory_is_put_back_before_each_sample_only(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "_RESTORED", 16)
    monkeypatch.setattr(timing, "_WARM_SECONDS", 0)
    replay = Replay(library, "timed_add", (torch.zeros(8), torch.ones(8)), {})
    for _ in range(2):
        replay.sample(3)
    assert [before[0].item() for before, _, _ in SEEN] == [0, 1, 2, 3] * 2


def test_tensors_keep_their_places_to_each_other(library: Library) -> None:
    whole = torch.arange(24.0)
    parts = [whole[1:9:2], whole.view(4, 6)[:, 2:4], torch.ones(2)]
    Replay(library, "timed_sum", (parts,), {}).sample(1)
    (first, second, other) = SEEN[-1]
    assert second[0] - first[0] == 4
    assert (first[1:], second[1:]) == ((((2,)), parts[0].tolist()), ((6, 1), parts[1].tolist()))
    assert other[2] == [1, 1]


def test_memory_is_aligned_as_before_but_elsewhere_in_every_sample(library: Library) -> None:
    whole = torch.zeros(40)
    replay = Replay(library, "timed_add", (whole[8:], torch.ones(32)), {})
    for _ in range(16):
        replay.sample(1)
    places = {place % PAGE for _, place, _ in SEEN}
    assert {place % 64 for place in places} == {32}
    assert len(places) > 4


def test_a_sample_is_the_median_of_single_calls(library: Library) -> None:
    assert 0.002 < Replay(library, "timed_sum", ([torch.ones(1)],), {}).sample(4) < 0.02
