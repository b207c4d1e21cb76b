"""What a step may take: chosen by its name, multiplied by the environment's factor, and cut by the deadline."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cpuwheels.core.errors import PostponedError, UsageError
from cpuwheels.core.step_limits import (
    DEFAULT_LIMIT,
    FACTOR_VARIABLE,
    LIMITS,
    MOST_HOURS,
    check_deadline,
    cpu_seconds,
    deadline_environment,
    finish_by,
    step_limit,
    time_left,
)


@pytest.mark.parametrize(
    ("step", "name"),
    [
        ("compile", "compile"),
        ("compile-_C_AVX2", "compile"),
        ("acl-compile", "compile"),
        ("tcmalloc-configure", "configure"),
        ("parity-_C", "parity"),
        ("serve-script", "serve-script"),
        ("serve-qwen3", "serve"),
        ("command", "command"),
    ],
)
def test_a_step_has_the_limits_of_its_name(step: str, name: str) -> None:
    assert step_limit(step) == LIMITS[name]


@pytest.mark.parametrize("step", ["environment", "compiler", "recompile", ""])
def test_any_other_has_those_of_all(step: str) -> None:
    assert step_limit(step) == DEFAULT_LIMIT


def test_all_limits_are_sane() -> None:
    for limit in (DEFAULT_LIMIT, *LIMITS.values()):
        assert 600 <= limit.idle <= limit.wall <= MOST_HOURS * 3600
        assert 1 << 20 <= limit.log_bytes <= 1 << 34


def test_a_slow_machine_has_more_time(monkeypatch: pytest.MonkeyPatch) -> None:
    before = step_limit("configure")
    monkeypatch.setenv(FACTOR_VARIABLE, "2.5")
    now = step_limit("configure")
    assert (now.wall, now.idle, now.log_bytes) == (2.5 * before.wall, 2.5 * before.idle, before.log_bytes)


@pytest.mark.parametrize("text", ["0", "-1", "nan", "inf", "1e9", "long", "2x"])
def test_a_factor_that_is_none_is_refused(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv(FACTOR_VARIABLE, text)
    with pytest.raises(UsageError, match=FACTOR_VARIABLE):
        step_limit("configure")


def test_the_earliest_deadline_counts_and_goes_with_its_block() -> None:
    assert time_left() is None
    with finish_by(time.monotonic() + 100), finish_by(time.monotonic() + 1000), finish_by(None):
        left = time_left()
        assert left is not None
        assert 90 < left <= 100
        check_deadline("it")
    assert time_left() is None
    assert deadline_environment() == {}


def test_when_the_time_is_up_nothing_is_begun() -> None:
    with finish_by(time.monotonic()), pytest.raises(PostponedError, match="the time is up: it was ended"):
        check_deadline("it")


def test_another_process_of_this_program_has_the_same_deadline() -> None:
    script = "from cpuwheels.core.step_limits import time_left; print(time_left())"
    with finish_by(time.monotonic() + 500):
        env = {**os.environ, **deadline_environment()}
    said = subprocess.run([sys.executable, "-c", script], env=env, capture_output=True, text=True, check=True).stdout
    assert 400 < float(said) <= 500


def test_cpu_time_of_those_that_ended_counts(tmp_path: Path) -> None:
    before = cpu_seconds(os.getpid())
    work = "import time\nend = time.process_time() + 0.5\nwhile time.process_time() < end: pass"
    subprocess.run([sys.executable, "-c", work], check=True, cwd=tmp_path)
    assert cpu_seconds(os.getpid()) - before >= 0.45  # of 0.5: the kernel counts in ticks of 10 ms
    assert cpu_seconds(2**22 + 1) == 0  # more than Linux's largest process id
