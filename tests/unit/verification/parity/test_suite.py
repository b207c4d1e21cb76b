"""Running a library's cases: a process that dies names its case, and the rest is run all the same."""

from __future__ import annotations

import json
import resource
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cpuwheels.core.errors import ParityError, UnusableWheelError
from cpuwheels.kernels.sanitizers import SANITIZERS
from cpuwheels.verification.parity.results import LibraryResult
from cpuwheels.verification.parity.sanitizer_run import SanitizerRun
from cpuwheels.verification.parity.suite import MOST_CRASHES, Suite
from layout import HELPERS


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., LibraryResult]:
    def run(script: dict[str, Any], *only: str, library: str = "_C", sanitize: bool = False) -> LibraryResult:
        fake = tmp_path / "fake_suite.py"
        shutil.copy(HELPERS / "fake_suite.py", fake)
        (tmp_path / "script.json").write_text(json.dumps(script))
        work = tmp_path / "work"
        work.mkdir(exist_ok=True)
        env = {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE"}
        place = [sys.executable, fake], tmp_path / "tests", work, tmp_path / "logs"
        sanitizers = SanitizerRun(tmp_path, SANITIZERS["address"]) if sanitize else None
        suite = Suite(
            *place, "smoke", 3, only, env, fixed_faults=("A fault's name",), onednn="3.7.2", sanitizers=sanitizers
        )
        return suite.run(library, tmp_path / f"{library}.abi3.so", lambda count, case: told.append((count, case)))

    told: list[tuple[int, str]] = []
    return run


def asked(tmp_path: Path) -> list[list[str]]:
    return [json.loads(line) for line in (tmp_path / "asked").read_text().splitlines()]


def test_every_case_is_in_the_result(tmp_path: Path, run: Callable[..., LibraryResult]) -> None:
    outputs = {"out": {"ratio": 0.25, "error": 1e-7, "limit": 4e-7}}
    cases = [{"case": "a[1]", "dtype": "float32", "outputs": outputs}, {"case": "a+b[2]"}]
    result = run({"_C": {"operators": ["a", "b"], "cases": cases}}, "a", "b")
    assert [case.verdict for case in result.cases] == ["passed", "passed"]
    assert result.cases[0].ratio == 0.25
    assert result.seed == 7
    (command,) = asked(tmp_path)
    assert command[command.index("--level") + 1] == "smoke"
    assert command[command.index("--threads") + 1] == "3"
    assert [command[place + 1] for place, part in enumerate(command) if part == "--operator"] == ["a", "b"]
    assert "--fixed=A fault's name" in command
    assert command[command.index("--onednn") + 1] == "3.7.2"


def test_all_libraries_keep_their_outputs_in_one_folder_to_be_compared(
    tmp_path: Path, run: Callable[..., LibraryResult]
) -> None:
    cases = {"operators": ["a"], "cases": [{"case": "a[1]"}]}
    for name in ("_C", "_C_AVX2"):
        run({"_C": cases, "_C_AVX2": cases}, library=name)
    folders = {command[command.index("--outputs") + 1] for command in asked(tmp_path)}
    results = {command[command.index("--results") + 1] for command in asked(tmp_path)}
    assert (len(folders), len(results)) == (1, 2)


@pytest.mark.parametrize(("variable", "value"), [("ONEDNN_MAX_CPU_ISA", "AVX512_CORE"), ("GOMP_SPINCOUNT", "0")])
def test_the_cases_have_their_variables(run: Callable[..., LibraryResult], variable: str, value: str) -> None:
    result = run({"_C": {"operators": ["a"], "cases": [{"case": "a[1]", "variable": variable}]}})
    assert result.cases[0].problems == (value,)


@pytest.mark.parametrize("death", [{"signal": "SIGILL"}, {"signal": "SIGSEGV"}, {"status": 139}])
def test_a_case_that_kills_the_process_is_named_and_the_rest_is_run(
    tmp_path: Path, run: Callable[..., LibraryResult], death: dict[str, Any]
) -> None:
    cases = [{"case": "a[1]"}, {"case": "b[1]", **death}, {"case": "a[2]"}]
    result = run({"_C": {"operators": ["a", "b"], "cases": cases}})
    assert [(case.name, case.verdict) for case in result.cases] == [
        ("a[1]", "passed"),
        ("b[1]", "crashed"),
        ("a[2]", "passed"),
    ]
    (problem,) = result.cases[1].problems
    assert str(death.get("signal", "status 139")) in problem
    assert len(asked(tmp_path)) == 2
    rows = {row.operator: row.verdict for row in result.rows()}
    assert rows == {"a": "passed", "b": "crashed"}


def undefined(line: int) -> str:
    return f"/usr/src/cpuwheels/vllm/csrc/cpu/a.cpp:{line}:5: runtime error: so it is\n"


def test_a_report_belongs_to_the_case_that_ran(run: Callable[..., LibraryResult]) -> None:
    cases = [{"case": "a[1]"}, {"case": "b[1]", "report": undefined(7)}, {"case": "c[1]"}]
    result = run({"_C": {"operators": ["a", "b", "c"], "cases": cases}}, sanitize=True)
    assert [case.verdict for case in result.cases] == ["passed", "failed", "passed"]
    (finding,) = result.cases[1].findings
    assert (finding.kind, finding.place, finding.what) == ("undefined-behavior", "csrc/cpu/a.cpp:7", "so it is")
    assert result.cases[1].problems == (str(finding),)


def test_a_case_that_dies_has_its_own_reports_and_the_next_process_begins_anew(
    run: Callable[..., LibraryResult],
) -> None:
    cases = [
        {"case": "a[1]", "report": undefined(1)},
        {"case": "b[1]", "report": undefined(2), "signal": "SIGSEGV"},
        {"case": "c[1]", "report": undefined(3)},
    ]
    result = run({"_C": {"operators": ["a", "b", "c"], "cases": cases}}, sanitize=True)
    assert [case.verdict for case in result.cases] == ["failed", "crashed", "failed"]
    assert [[finding.place for finding in case.findings] for case in result.cases] == [
        [f"csrc/cpu/a.cpp:{line}"] for line in (1, 2, 3)
    ]


def test_a_report_after_the_last_case_is_an_error(run: Callable[..., LibraryResult]) -> None:
    script = {"operators": ["a"], "cases": [{"case": "a[1]"}], "report": undefined(9)}
    with pytest.raises(ParityError, match="reported something on _C after its last case") as caught:
        run({"_C": script}, sanitize=True)
    assert undefined(9) in (caught.value.output or "")


def test_a_library_that_cannot_be_loaded_is_told(run: Callable[..., LibraryResult]) -> None:
    with pytest.raises(UnusableWheelError, match=r"_C\.abi3\.so cannot be loaded"):
        run({"_C": {"cases": [], "status": 65}})


def test_a_case_that_never_ends_is_told(run: Callable[..., LibraryResult]) -> None:
    result = run({"_C": {"operators": ["a"], "cases": [{"case": "a[1]", "signal": "SIGALRM"}]}})
    assert result.cases[0].problems == ("it did not end within the time that a case may take",)


def test_a_crash_leaves_no_image_of_its_memory(run: Callable[..., LibraryResult]) -> None:
    before = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (before[1], before[1]))
    try:
        result = run({"_C": {"operators": ["a"], "cases": [{"case": "a[1]", "limits": "RLIMIT_CORE"}]}})
        assert resource.getrlimit(resource.RLIMIT_CORE) == (before[1], before[1])
    finally:
        resource.setrlimit(resource.RLIMIT_CORE, before)
    assert result.cases[0].problems == (f"(0, {before[1]})",)


def test_what_fails_without_a_case_is_an_error(run: Callable[..., LibraryResult]) -> None:
    with pytest.raises(ParityError, match="something failed on _C that belongs to no case"):
        run({"_C": {"operators": ["a"], "cases": [{"case": "a[1]"}], "status": 1}})


def test_drawn_cases_go_on_after_those_of_the_same_function(tmp_path: Path, run: Callable[..., LibraryResult]) -> None:
    cases = [{"case": "a[1]"}, {"case": "a[9]", "drawn": True, "signal": "SIGSEGV"}, {"case": "b[7]", "drawn": True}]
    result = run({"_C": {"operators": ["a", "b"], "cases": cases}})
    assert [case.verdict for case in result.cases] == ["passed", "crashed", "passed"]
    first, second = asked(tmp_path)
    assert not {"--after", "--after-drawn"} & set(first)
    assert second[second.index("--after-drawn") + 1] == "a[9]"


def test_a_library_that_always_crashes_ends(tmp_path: Path, run: Callable[..., LibraryResult]) -> None:
    cases = [{"case": f"a[{number}]", "signal": "SIGILL"} for number in range(MOST_CRASHES + 9)]
    result = run({"_C": {"operators": ["a"], "cases": cases}})
    assert len(result.cases) == MOST_CRASHES == len(asked(tmp_path))


def test_a_failed_case_is_no_crash(tmp_path: Path, run: Callable[..., LibraryResult]) -> None:
    cases = [{"case": "a[1]", "problems": ["out: wrong"]}, {"case": "b[1]"}]
    result = run({"_C": {"operators": ["a", "b"], "cases": cases}})
    assert [case.verdict for case in result.cases] == ["failed", "passed"]
    assert len(asked(tmp_path)) == 1


@pytest.mark.parametrize(
    "script",
    [
        {"cases": [], "status": 4, "operators": ["a"]},
        {"cases": [{"case": "a[1]"}], "status": 0},
        {"cases": [], "status": 3},
    ],
)
def test_cases_that_cannot_be_run_are_an_error(run: Callable[..., LibraryResult], script: dict[str, Any]) -> None:
    with pytest.raises(ParityError, match="could not be run on _C") as raised:
        run({"_C": script})
    assert raised.value.log is not None
