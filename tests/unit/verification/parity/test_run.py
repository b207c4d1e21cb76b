"""Which library is tried on which CPU, how, and what is said of the rest."""

from __future__ import annotations

import dataclasses
import io
import json
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from cpuwheels.config.matrix import Library, UntriedKernels
from cpuwheels.core.console import Reporter
from cpuwheels.core.errors import ParityError
from cpuwheels.verification.emulation.cpus import Cpu
from cpuwheels.verification.parity.results import Parity
from cpuwheels.verification.parity.run import ParityEnvironment, ParityRequest, Trial, run_parity
from cpuwheels.wheel.kernel_wheel import KernelWheel
from kernel_request import TARGET
from layout import HELPERS

NEWEST = (
    UntriedKernels(name="Tiles", needs=("two", "three"), instructions=("tile",)),
    UntriedKernels(name="Pairs", needs=("two",), instructions=("pair",)),
)
LIBRARIES = (
    Library(name="_C", isa=(), needs=("one", "two"), untried=NEWEST),
    Library(name="_C_OLD", isa=(), needs=("one",)),
)

RIGHT = ({"case": "a[1]"},)
Run = Callable[..., Parity]


@pytest.fixture
def run(tmp_path: Path, reporter: Reporter) -> Run:
    shutil.copy(HELPERS / "fake_suite.py", tmp_path)
    (tmp_path / "work").mkdir()

    def run(
        trials: Sequence[Trial],
        cases: Sequence[Mapping[str, object]] = RIGHT,
        untried: Mapping[str, Sequence[str]] | None = None,
        **changes: object,
    ) -> Parity:
        script = {"operators": ["a"], "cases": cases}
        (tmp_path / "script.json").write_text(json.dumps({"_C": script, "_C_OLD": script}))
        files = {name: f"vllm/{name}.abi3.so" for name in ("_C", "_C_OLD")}
        wheel = KernelWheel(tmp_path / "vllm.whl", "0" * 64, "1.0", "2.0", files)
        values = {
            "trials": trials,
            "site": tmp_path / "site",
            "torch": "2.0",
            "tests": tmp_path,
            "work": tmp_path / "work",
            "logs": tmp_path / "logs",
            "machine": "Some CPU",
        }
        bench = ParityEnvironment(**values | changes)
        target = TARGET.model_copy(update={"libraries": LIBRARIES})
        return run_parity(ParityRequest(wheel, target, untried=untried or {}), bench, reporter)

    return run


def trial(
    folder: Path,
    name: str,
    *features: str,
    level: str = "full",
    libraries: tuple[str, ...] | None = None,
    parts: int = 1,
) -> Trial:
    return Trial(Cpu(name, frozenset(features), [sys.executable, folder / "fake_suite.py"], libraries), level, 3, parts)


def asked(folder: Path) -> set[tuple[str, str]]:
    found = [json.loads(line) for line in (folder / "asked").read_text().splitlines()]
    return {(Path(line[line.index("--library") + 1]).stem, line[line.index("--level") + 1]) for line in found}


def test_a_library_that_this_cpu_cannot_run_is_said(tmp_path: Path, run: Run) -> None:
    parity = run([trial(tmp_path, "", "one")])
    assert [library.name for library in parity.libraries] == ["_C_OLD"]
    assert parity.not_run == {"_C": "this CPU lacks two"}
    assert (parity.level, parity.threads, parity.emulated) == ("full", 3, False)


def test_kernels_that_no_case_runs_are_said_of_libraries_that_were_run(tmp_path: Path, run: Run) -> None:
    both = [trial(tmp_path, "", "one", "two")]
    parity = run(both, untried={"_C": ("Tiles", "Pairs")})
    assert parity.untried == {"Tiles of _C": "this CPU lacks three", "Pairs of _C": "no case is for it"}
    assert parity.gaps == [f"{kernels} was not run: {reason}" for kernels, reason in parity.untried.items()]
    # A wheel may be without them, and nothing is said twice of a library that was not run.
    assert run(both).untried == {}
    assert run([trial(tmp_path, "", "one")], untried={"_C": ("Tiles",)}).untried == {}


def test_what_confined_the_processes_is_said(tmp_path: Path, run: Run) -> None:
    how = {"mechanism": "a namespace", "reason": ""}
    assert run([trial(tmp_path, "", "one")], sandbox=how).sandbox == how


def test_a_library_may_be_tried_on_an_older_cpu_besides(tmp_path: Path, run: Run) -> None:
    own, older = (
        trial(tmp_path, "", "one", "two"),
        trial(tmp_path, "older", "one", level="smoke", libraries=("_C_OLD",)),
    )
    parity = run([own, older])
    assert [library.name for library in parity.libraries] == ["_C", "_C_OLD", "_C_OLD@older"]
    assert asked(tmp_path) == {("_C.abi3", "full"), ("_C_OLD.abi3", "full"), ("_C_OLD.abi3", "smoke")}
    assert parity.not_run == {}


def test_on_an_older_cpu_no_case_need_be_run_again(tmp_path: Path, run: Run) -> None:
    older = dataclasses.replace(trial(tmp_path, "older", "one", libraries=("_C_OLD",)), once=True)
    run([trial(tmp_path, "", "one", libraries=("_C_OLD",)), older])
    commands = [json.loads(line) for line in (tmp_path / "asked").read_text().splitlines()]
    results = {Path(line[line.index("--results") + 1]).name: "--once" in line for line in commands}
    assert results == {"_C_OLD.jsonl": False, "_C_OLD@older.jsonl": True}


@pytest.mark.parametrize("at_once", [1, 2])
def test_each_library_has_its_emulated_cpu(tmp_path: Path, run: Run, at_once: int) -> None:
    trials = [
        trial(tmp_path, "new", "one", "two", level="smoke", libraries=("_C",)),
        trial(tmp_path, "old", "one", level="smoke", libraries=("_C_OLD",)),
    ]
    parity = run(trials, emulated=True, at_once=at_once)
    assert [library.name for library in parity.libraries] == ["_C@new", "_C_OLD@old"]
    assert (parity.level, parity.emulated, parity.right) == ("smoke", True, True)


def test_a_librarys_cases_may_be_divided(tmp_path: Path, run: Run) -> None:
    cases = [{"case": "a[1]"}, {"case": "a[2]", "signal": "SIGILL"}, {"case": "a[3]"}, {"case": "a[4]"}]
    own = trial(tmp_path, "old", "one", libraries=("_C_OLD",), parts=2)
    parity = run([own], cases, emulated=True, at_once=2)
    (library,) = parity.libraries
    assert [(case.name, case.verdict) for case in library.cases] == [
        ("a[1]", "passed"),
        ("a[3]", "passed"),
        ("a[2]", "crashed"),
        ("a[4]", "passed"),
    ]


def test_a_library_without_a_cpu_is_said(tmp_path: Path, run: Run) -> None:
    parity = run([trial(tmp_path, "old", "one", libraries=("_C_OLD",))], emulated=True)
    assert parity.not_run == {"_C": "the matrix names no emulated CPU for it"}


def test_if_nothing_can_run_it_is_an_error(tmp_path: Path, run: Run) -> None:
    with pytest.raises(ParityError, match=r"no library of vllm\.whl can run on this CPU"):
        run([trial(tmp_path, "")])


GONE = {"case": "a[1]", "known": "a was wrong"}
KNOWN = {"case": "a[2]", "known": "b is wrong", "problems": ["far"]}
WRONG = {"case": "a[3]", "problems": ["far"]}


@pytest.mark.parametrize(
    ("cases", "told"),
    [
        (RIGHT, "1 case, all right"),
        ([KNOWN], "1 case, all right but for 1 known fault"),
        ([GONE, KNOWN], "all right but for 1 known fault; known faults that no longer show: a was wrong"),
        (
            [GONE, {"case": "a[4]", "known": "a few were wrong"}, WRONG],
            "1 operator wrong; known faults that no longer show: a few were wrong, a was wrong",
        ),
    ],
)
def test_what_was_found_on_a_library_is_told(
    tmp_path: Path, run: Run, story: io.StringIO, cases: Sequence[Mapping[str, object]], told: str
) -> None:
    run([trial(tmp_path, "", "one")], cases)
    (line,) = (line for line in story.getvalue().splitlines() if "_C_OLD: 1 operator" in line)
    assert line.endswith(told)
