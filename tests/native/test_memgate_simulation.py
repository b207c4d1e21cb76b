"""The policy on jobs of known cost: memgate's own admission code, driven without starting anything."""

from __future__ import annotations

import json
import random
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from simulation import CAPS, CPUS, Job, cells, fixed, jobs_of, lower_bound, safe_jobs

from cpuwheels.kernels.memory.costs import Cost, read_costs

GIB = 1 << 30


def simulate(memgate: Path, jobs: list[tuple[float | str, ...]], cpus: int, capacity: int) -> dict[str, float]:
    text = "".join(" ".join(str(value) for value in job) + "\n" for job in jobs)
    done = subprocess.run(
        [memgate, "--simulate", str(cpus), str(capacity)], input=text, capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


def test_by_hand(memgate):
    # Two CPUs and room for 10: (4 s, 6) and (4 s, 4) fit together; (1 s, 10) has to wait for both.
    jobs = [(1, 10), (4, 6), (4, 4)]
    assert simulate(memgate, jobs, 2, 10) == {"jobs": 3, "makespan": 5, "peak_bytes": 10, "passed_over": 0}


def test_nothing_to_do(memgate):
    assert simulate(memgate, [], 2, 10)["makespan"] == 0


@settings(max_examples=60, deadline=None)
@given(
    jobs=st.lists(st.tuples(st.floats(0.01, 100), st.integers(1, 100)), min_size=1, max_size=60),
    cpus=st.integers(1, 16),
    capacity=st.integers(100, 1000),
)
def test_ends_within_the_room_and_near_the_bound(memgate, jobs, cpus, capacity):
    result = simulate(memgate, jobs, cpus, capacity)
    assert result["jobs"] == len(jobs)
    assert result["peak_bytes"] <= capacity
    bound = lower_bound([Job(Cost(*job)) for job in jobs], cpus, capacity)
    # List scheduling with one more resource than CPUs is within 3 times the optimum (Garey and Graham 1975).
    assert bound - 1e-5 <= result["makespan"] <= 3 * bound + max(wall for wall, _ in jobs)


def test_jobs_larger_than_the_room_run_alone(memgate):
    assert simulate(memgate, [(1, 50), (1, 50), (1, 1)], 4, 10)["makespan"] == 3


def test_wrong_predictions_change_the_order_only(memgate):
    chance = random.Random(7)
    jobs = [(chance.uniform(1, 50), chance.randrange(1, 2 * GIB)) for _ in range(300)]
    wrong = [(*job, job[0] * chance.uniform(0.2, 5), job[1]) for job in jobs]
    known, unknown = (simulate(memgate, rows, 8, 8 * GIB) for rows in (jobs, wrong))
    assert unknown["peak_bytes"] <= 8 * GIB
    assert unknown["makespan"] < 1.3 * known["makespan"]


def test_jobs_wait_for_others(memgate):
    # The third one for both that fit together, the last one for the third alone.
    jobs = [(4, 1), (2, 1), (1, 1, "after 1,2"), (3, 1, "after 3")]
    assert simulate(memgate, jobs, 4, 10) == {"jobs": 4, "makespan": 8, "peak_bytes": 2, "passed_over": 0}


def test_little_jobs_do_not_take_the_room_that_a_large_one_waits_for(memgate):
    """The room comes free in small pieces, which little jobs would fill until none of them is left."""
    little = [(1.5 + 0.01 * number, 1) for number in range(100)]
    large = (20, 6, "after 1")
    assert simulate(memgate, [(3, 1), *little, large], 10, 10)["makespan"] < 36  # else 40: one after the other


@pytest.mark.parametrize(
    "text",
    [
        "x\n",
        "1\n",
        "1 2 3\n",
        "-1 5\n",
        "1 -5\n",
        "1 1 after\n",
        "1 1 after 2\n",
        "1 1 after 1,\n",
        "1 1 after 0\n",
        "1 1 after 1x\n",
        "1 1 after -1\n",
    ],
)
def test_jobs_that_cannot_be_read(memgate, text):
    done = subprocess.run(
        [memgate, "--simulate", "2", "10"], input="1 1\n" + text, capture_output=True, text=True, check=False
    )
    assert done.returncode == 125
    assert "line 2" in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize("arguments", [["0", "10"], ["2", "0"], ["2"], ["x", "10"], []])
def test_wrong_use(memgate, arguments):
    done = subprocess.run([memgate, "--simulate", *arguments], input="", capture_output=True, text=True, check=False)
    assert done.returncode == 125
    assert "usage" in done.stderr


def test_near_the_bound_on_every_machine(memgate, project_root: Path):
    """Measured files of a cold x86 build, 4 to 128 CPUs and 4 to 256 GiB: see benchmarks/simulation.py."""
    found = cells(memgate, read_costs(project_root / "measured" / "x86.tsv"))
    assert len(found) == len(CPUS) * len(CAPS)
    assert max(cell.ratio for cell in found) <= 1.15
    assert min(cell.gain for cell in found) > 0.95
    assert all(cell.makespan >= cell.bound * 0.999 for cell in found)


def jobs(*costs: tuple[float, int]) -> list[Job]:
    return [Job(Cost(*cost)) for cost in costs]


def test_safe_number_of_jobs():
    of_sizes = jobs((1, 5), (1, 1), (1, 4), (1, 1))
    assert [safe_jobs(of_sizes, 4, cap) for cap in (5, 8, 9, 10, 11, 100)] == [1, 1, 2, 3, 4, 4]
    assert safe_jobs(of_sizes, 2, 100) == 2


def test_a_fixed_number_of_jobs():
    assert fixed(jobs((3, 1), (1, 1), (2, 1)), 2) == 3
    waiting = [*jobs((3, 1), (1, 1)), Job(Cost(2, 1), (0,)), Job(Cost(1, 1), (1,))]
    assert fixed(waiting, 2) == 5


def test_no_order_comes_below_the_bound():
    independent = jobs((4, 6), (4, 4), (1, 10))
    assert lower_bound(independent, 1, 100) == 9
    assert lower_bound(independent, 9, 100) == 4
    assert lower_bound(independent, 9, 10) == 5
    chain = [*jobs((3, 1)), Job(Cost(2, 1), (0,)), Job(Cost(2, 1), (0,)), Job(Cost(1, 1), (1, 2))]
    assert lower_bound(chain, 9, 100) == 6
    assert lower_bound(chain, 1, 100) == 8
    assert lower_bound(chain, 9, 1) == 8


def test_what_waits_for_what():
    header, dnnl = "CMakeFiles/_C.dir/cmake_pch.hxx.gch", "_deps/onednn-build/src/CMakeFiles/dnnl.dir/x.cpp.o"
    names = [
        "CMakeFiles/_C.dir/csrc/a.cpp.o",
        "CMakeFiles/_C_AVX2.dir/csrc/a.cpp.o",
        "_C.abi3.so",
        dnnl,
        header,
        "libshared.so",
    ]
    found = jobs_of({name: Cost(number, 1) for number, name in enumerate(names)})
    assert [names[int(job.cost.seconds)] for job in found] == [header, *names[:2], dnnl, "libshared.so", "_C.abi3.so"]
    assert [job.after for job in found] == [(), (0,), (), (), (1, 2, 3), (1, 2, 3, 4)]
