"""What is made of upstream's own tests: which are run, how they ended, and which pass without patches alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from upstream_sample import chosen
from upstream_tests import FAILED, PASSED, SKIPPED, job_tests, lost, outcomes, summary

from cpuwheels.core.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

JOBS = """
steps:
- label: CPU-Kernel Tests
  key: cpu-kernel-tests
  source_file_dependencies:
  - tests/kernels/test_not_named.py
  commands:
    - |
      bash run-cpu-test.sh 30m "
      pytest -x -v -s \\
      tests/kernels/test_one.py \\
      tests/v1/test_two.py::TestOne"
- label: Others
  key: others
  commands: [pytest tests/test_other.py]
"""

REPORT = """<testsuites><testsuite>
<testcase classname="tests.test_one" name="test_a[1]"/>
<testcase classname="tests.test_one" name="test_b"><failure message="wrong"/></testcase>
<testcase classname="tests.test_one" name="test_c"><skipped message="no such CPU"/></testcase>
<testcase classname="tests.test_one" name="test_d"/>
<testcase classname="tests.test_one" name="test_d"><error message="teardown"/></testcase>
<testcase classname="tests.test_one" name="test_e"><error message="worker crashed"/></testcase>
</testsuite></testsuites>"""


def test_the_tests_are_those_that_upstreams_job_runs(tmp_path: Path) -> None:
    jobs = tmp_path / ".buildkite" / "hardware_tests" / "cpu.yaml"
    jobs.parent.mkdir(parents=True)
    jobs.write_text(JOBS)
    assert job_tests(tmp_path) == ["tests/kernels/test_one.py", "tests/v1/test_two.py::TestOne"]


def test_a_source_without_the_job_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="has no job cpu-kernel-tests"):
        job_tests(tmp_path)


def test_how_each_test_ended_is_read(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    report.write_text(REPORT)
    assert outcomes(report) == {
        "tests.test_one::test_a[1]": PASSED,
        "tests.test_one::test_b": FAILED,
        "tests.test_one::test_c": SKIPPED,
        "tests.test_one::test_d": FAILED,
        "tests.test_one::test_e": FAILED,
    }


def test_what_passed_and_fails_is_skipped_or_not_run_is_lost() -> None:
    against = {"a": PASSED, "b": PASSED, "c": PASSED, "d": PASSED, "e": FAILED, "f": SKIPPED}
    wheel = {"a": PASSED, "b": FAILED, "c": SKIPPED, "e": PASSED, "f": FAILED}
    assert lost(wheel, against) == ["b", "c", "d"]
    assert lost(against, wheel) == ["e"]


def test_the_summary_counts_both_and_what_differs() -> None:
    assert summary({"wheel": {"a": PASSED, "b": FAILED}, "against": {"a": PASSED, "b": PASSED, "c": SKIPPED}}) == [
        "wheel: 1 failed, 1 passed",
        "against: 2 passed, 1 skipped",
        "1 passed with --against, failed with --wheel",
        "1 skipped with --against, not run with --wheel",
    ]
    assert summary({"wheel": {}, "against": {}}) == ["wheel: no results", "against: no results"]


def test_a_sample_has_at_most_so_many_of_each_test_and_is_the_same_each_time() -> None:
    names = [f"tests/a.py::test_many[{each}]" for each in range(100)] + [
        "tests/a.py::test_one",
        "tests/b.py::test_two[x]",
    ]
    found = chosen(names, 7)
    assert found == chosen(names, 7)
    assert {"tests/a.py::test_one", "tests/b.py::test_two[x]"} < found
    assert len(found) == 9
    assert found < set(names)
    assert chosen(names, 100) == set(names)
    # Two tests of as many parameters do not have to run the same ones.
    other = {name.replace("test_many", "test_more") for name in found}
    assert other != chosen(sorted(name.replace("test_many", "test_more") for name in names), 7)
