"""Made-up results of a benchmark."""

from __future__ import annotations

from buildbench.results import (
    EDIT,
    EDIT_OPEN,
    EDIT_UNSTEERED,
    NOOP,
    OPEN,
    OURS,
    PYTHON,
    PYTHON_OPEN,
    UNSTEERED,
    Machine,
    Measured,
    Results,
    Sizes,
    Subject,
)

GIB = 1 << 30


def run(cpu: float = 100, wall: float = 60, **others: object) -> Measured:
    values: dict[str, object] = {
        "began": "2026-11-21T12:00:00+00:00",
        "others_cpu": 0,
        "wall": wall,
        "kernels": wall - 5,
        "cpu": cpu,
        "jobs_cpu": cpu - 10,
        "jobs": 12,
        "largest_job": GIB,
        "peak": 2 * GIB,
        "group_peak": None,
    }
    return Measured.model_validate(values | others)


def results(**runs: Measured) -> Results:
    """Return results with runs by the names of constants in `buildbench.results`."""
    keys = {
        "unsteered": UNSTEERED,
        "ours": OURS,
        "edit_unsteered": EDIT_UNSTEERED,
        "edit": EDIT,
        "python": PYTHON,
        "noop": NOOP,
        "open": OPEN,
        "edit_open": EDIT_OPEN,
        "python_open": PYTHON_OPEN,
    }
    return Results(
        machine=Machine(processor="Example 9000", cpus=2, memory=24 * GIB, system="Linux 6.1"),
        subject=Subject(
            target="x86",
            version="0.32.0",
            source="aa",
            compiler="GNU 14.2.0",
            torch="2.13.0+cpu",
            onednn="3.7.2",
            built="cc",
            beside_source="bb",
        ),
        runs={keys.get(name, name): [value] for name, value in runs.items()},
    )


def whole(**changes: Measured) -> Results:
    """Return results of every mode in which each target is just met."""
    runs = {
        "unsteered": run(6000, 3100, jobs=491, group_peak=5 * GIB),
        "ours": run(1500, 775, jobs=319, gate_peak=3 * GIB, sandbox="a namespace"),
        "open": run(1500, 770, jobs=319, gate_peak=3 * GIB, sandbox="not sandboxed"),
        "edit_unsteered": run(50, 60),
        "edit": run(24, 15),
        "edit_open": run(23.9, 14.5),
        "python": run(12, 4.0, jobs=0, kernels=2.0, stages={"install check": 1.5}),
        "python_open": run(11.9, 3.7, jobs=0, kernels=2.0),
        "noop": run(2, 1.0, jobs=0, kernels=None),
        "parity/smoke": run(40, 25),
        "parity/full": run(300, 180),
        "parity/full and emulated": run(130, 240),
        "caps/4G": run(1500, 852, cap=4 * GIB, peak=4 * GIB, held="memgate's watch over the process tree (no group)"),
        "caps/8G": run(1500, 776, cap=8 * GIB, peak=5 * GIB, gate_peak=6 * GIB, held="cgroup v2 /sys/fs/cgroup/x"),
    }
    found = results(**runs | changes)
    sizes = Sizes(
        unsteered={"_C": 173_000_000, "_C_AVX2": 87_000_000},
        stripped={"_C": 31_000_000, "_C_AVX2": 26_000_000},
        ours={"_C": 14_000_000, "_C_AVX2": 10_000_000},
        wheel=15_000_000,
    )
    return found.model_copy(update={"sizes": sizes})
