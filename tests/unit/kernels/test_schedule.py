from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from cpuwheels.kernels.schedule import Job, makespan


def test_the_longest_first():
    jobs = [Job(name, seconds) for name, seconds in {"a": 2, "b": 3, "c": 2, "d": 5}.items()]
    assert makespan([], jobs, 2, 0) == 7  # d and a; b, c


def test_what_runs_holds_its_cpu_and_its_memory():
    assert makespan([Job("a", 4, 10)], [Job("b", 3, 1), Job("c", 3, 1)], 2, 10) == 7
    assert makespan([Job("a", 4, 1)], [Job("b", 3, 1), Job("c", 3, 1)], 2, 10) == 6


def test_a_chain():
    assert makespan([Job("a", 1)], [Job("b", 5, after="a"), Job("c", 2)], 2, 0) == 6
    assert makespan([], [Job("a", 1), Job("b", 5, after="a"), Job("c", 2)], 2, 0) == 6


def test_nothing():
    assert makespan([], [], 2, 0) == 0


@settings(max_examples=50)
@given(
    lengths=st.lists(st.tuples(st.floats(0.01, 100), st.integers(1, 200)), min_size=1, max_size=40),
    cpus=st.integers(1, 16),
)
def test_it_ends_and_within_the_bounds_of_list_scheduling(lengths: list[tuple[float, int]], cpus: int):
    jobs = [Job(str(number), *job) for number, job in enumerate(lengths)]
    end, work, longest = makespan([], jobs, cpus, 10_000), sum(job.seconds for job in jobs), max(jobs, key=_length)
    assert max(work / cpus, longest.seconds) <= end + 1e-6
    assert end <= work / cpus + longest.seconds + 1e-6  # Graham 1969
    assert makespan([], jobs, cpus, 1) >= work - 1e-6  # no room: one after the other


def _length(job: Job) -> float:
    return job.seconds
