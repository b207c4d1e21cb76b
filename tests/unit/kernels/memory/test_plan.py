"""The plan of a build's compilations: from the costs of its own kind, and within what the user allows."""

from __future__ import annotations

from pathlib import Path

import pytest

from contexts import build_context
from cpuwheels.config.options import BuildOptions
from cpuwheels.core.elsewhere import taken_from
from cpuwheels.core.errors import MemoryCapError
from cpuwheels.core.store import Store
from cpuwheels.core.trust import Trust
from cpuwheels.kernels.memory import plan as planning
from cpuwheels.kernels.memory.costs import Cost, read_costs, write_costs
from cpuwheels.kernels.memory.limits import CpuLimit, MemoryLimit
from cpuwheels.kernels.memory.plan import memory_cap, plan
from kernel_request import TARGET

GIB = 1 << 30
PEAKS = TARGET.model_copy(update={"worst_peak": 3 * GIB, "worst_peak_debug": 5 * GIB})


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with 8 CPUs and 16 GiB."""
    monkeypatch.delenv("MAX_JOBS", raising=False)
    monkeypatch.setattr(planning, "available_memory", lambda: MemoryLimit(16 * GIB, "physical memory", 12 * GIB))
    monkeypatch.setattr(planning, "usable_cpus", lambda: CpuLimit(8, "CPUs"))


def seeded(root: Path) -> Path:
    """Write the costs that come with the project, of builds without and with debug symbols."""
    write_costs(root / "measured/x86.tsv", {"small.o": Cost(900.0, 1 * GIB), "large.o": Cost(1.0, 2 * GIB)})
    write_costs(root / "measured/x86-debug.tsv", {"debug.o": Cost(1.0, 4 * GIB)})
    return root


def test_the_memory_and_the_jobs_are_the_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = plan(seeded(tmp_path), PEAKS, BuildOptions())
    assert (found.jobs, found.reason, found.cap, found.where) == (8, "CPUs", 16 * GIB, "physical memory")
    found = plan(tmp_path, PEAKS, BuildOptions(memory="6G", jobs="3"))
    assert (found.jobs, found.reason, found.cap, found.where) == (3, "--jobs", 6 * GIB, "--memory 6G")
    monkeypatch.setenv("MAX_JOBS", "2")
    assert plan(tmp_path, PEAKS, BuildOptions(jobs="3")).reason == "MAX_JOBS"


@pytest.mark.parametrize(
    ("debug_symbols", "cap", "words"),
    [(False, "1G", r"the 2 GiB .*\(large\.o\)"), (True, "3G", r"the 4 GiB .*\(debug\.o\)")],
)
def test_the_file_that_needs_most_memory_has_to_fit(
    tmp_path: Path, cap: str, words: str, *, debug_symbols: bool
) -> None:
    with pytest.raises(MemoryCapError, match=words):
        plan(seeded(tmp_path), PEAKS, BuildOptions(memory=cap, debug_symbols=debug_symbols))


@pytest.mark.parametrize(("debug_symbols", "needed"), [(False, "3"), (True, "5")])
def test_without_costs_the_matrix_says_what_it_needs(tmp_path: Path, needed: str, *, debug_symbols: bool) -> None:
    with pytest.raises(MemoryCapError, match=rf"the {needed} GiB .*\(by worst_peak in matrix\.yaml\)"):
        plan(tmp_path, PEAKS, BuildOptions(memory="2G", debug_symbols=debug_symbols))


@pytest.mark.parametrize(
    ("options", "name", "worst"),
    [
        (BuildOptions(), "x86.tsv", 3 * GIB),
        (BuildOptions(debug_symbols=True), "x86-debug.tsv", 5 * GIB),
        (BuildOptions(sanitize="address"), "x86-address.tsv", 5 * GIB),
    ],
)
def test_a_build_learns_from_those_of_its_own_kind(
    tmp_path: Path, options: BuildOptions, name: str, worst: int
) -> None:
    context = build_context(tmp_path / "store", PEAKS, root=tmp_path / "project", options=options)
    jobs = plan(context.root, PEAKS, options)
    found = memory_cap(context, jobs, tmp_path / "memgate")(tmp_path / "gate")
    assert (found.jobs, found.worst_peak) == (jobs, worst)
    assert (found.seed, found.learned) == (tmp_path / "project/measured" / name, tmp_path / "store/measured" / name)
    assert (found.gate.folder, found.gate.memgate) == (tmp_path / "gate", tmp_path / "memgate")


def test_what_others_measured_counts_less_than_what_was_measured_here(tmp_path: Path) -> None:
    class Others:
        kinds, arguments = frozenset[str](), ()

        def fill(self, *_: object) -> None:
            pytest.fail("nothing is an entry")

        def replenish(self, kind: str, key: str, trust: Trust, folder: Path) -> None:
            assert (kind, key) == ("measured", "tables")
            write_costs(folder / "x86.tsv", {"a.o": Cost(2.0, 2), "b.o": Cost(2.0, 2), f"{trust.name}.o": Cost(2.0, 2)})

    context = build_context(tmp_path, PEAKS, root=tmp_path, store=Store(tmp_path, trust=Trust.COMMIT))
    write_costs(tmp_path / "measured/x86.tsv", {"a.o": Cost(1.0, 1)})
    write_costs(tmp_path / "from-commits/measured/x86.tsv", {"b.o": Cost(3.0, 3)})
    with taken_from(Others()):
        found = memory_cap(context, plan(tmp_path, PEAKS, BuildOptions()), tmp_path / "memgate")(tmp_path / "gate")
    known = {output: cost.bytes for table in found.tables() for output, cost in read_costs(table).items()}
    assert known == {"a.o": 1, "b.o": 3, "COMMIT.o": 2, "RELEASE.o": 2}
    assert found.learned == tmp_path / "from-commits/measured/x86.tsv"
