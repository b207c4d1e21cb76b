"""Run parts of the tests, one group after the other, each in a pytest of its own.

    python tests/run.py --part unit --part core [--group NAME]... [--keep-going] [PATHS AND OPTIONS OF PYTEST]

Every group leaves a JUnit report in ``dist/tests/``. A path given by hand is run by itself, without groups.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests" / "helpers"))

import foreground  # noqa: E402  (the tests' helpers are no installed package)
from groups import Group, arguments, load_groups  # noqa: E402

REPORTS = ROOT / "dist" / "tests"
INTERRUPTED, NOTHING_COLLECTED = 2, 5
"""pytest's exit codes."""


def main(words: list[str]) -> int:
    """Run what the command line names; return the exit code of the first failure, or 0.

    Raises:
        SystemExit: The command line names no part, or an unknown group.
    """
    parser = argparse.ArgumentParser(allow_abbrev=False, usage=__doc__)
    parser.add_argument("--part", action="append", required=True)
    parser.add_argument("--group", action="append", default=[])
    parser.add_argument("--keep-going", action="store_true")
    chosen, options = parser.parse_known_args(words)
    if any(_is_test(word) for word in options):
        return _pytest(*options)
    groups = load_groups()
    if unknown := set(chosen.group) - {group.name for group in groups}:
        parser.error(f"tests/groups.toml has no {', '.join(sorted(unknown))}")
    wanted = [group for group in groups if (group.name in chosen.group if chosen.group else group.part in chosen.part)]
    if not wanted:
        parser.error(f"tests/groups.toml has no group of {', '.join(chosen.part)}")
    codes: dict[str, int] = {}
    for group in wanted:
        started = time.monotonic()
        codes[group.name] = code = _run(group, groups, options)
        print(f"tests: {group.name} took {(time.monotonic() - started) / 60:.1f} min", flush=True)
        if code == INTERRUPTED or (code not in {0, NOTHING_COLLECTED} and not chosen.keep_going):
            break
    for group in wanted:
        print(f"tests: {group.name}: {_state(codes.get(group.name))}")
    return _verdict([*codes.values()], options)


def _is_test(word: str) -> bool:
    """Return whether a word of the command line is the path of a test or of a folder of tests."""
    path = (Path.cwd() / word.partition("::")[0]).resolve()
    return not word.startswith("-") and path.exists() and path.is_relative_to(ROOT / "tests")


def _run(group: Group, groups: tuple[Group, ...], options: list[str]) -> int:
    REPORTS.mkdir(parents=True, exist_ok=True)
    spread = ["--numprocesses", str(_cpus()), "--dist", "worksteal"] if group.parallel else []
    kept = ["--durations=40", f"--junitxml={REPORTS / group.report}"]
    return _pytest(*arguments(groups, group), *spread, *kept, *options)


def _pytest(*words: str) -> int:
    print(f"tests: pytest {' '.join(words)}", flush=True)
    return foreground.run([sys.executable, "-m", "pytest", *words], ROOT)


def _cpus() -> int:
    """Return how many CPUs this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _verdict(codes: list[int], options: list[str]) -> int:
    """Return the first failure's code. An option such as -k may leave a group without tests, but not all groups."""
    if failures := [code for code in codes if code not in {0, NOTHING_COLLECTED}]:
        return failures[0]
    return 0 if 0 in codes and (options or NOTHING_COLLECTED not in codes) else NOTHING_COLLECTED


def _state(code: int | None) -> str:
    if code is None:
        return "not run"
    return {0: "passed", NOTHING_COLLECTED: "no test is selected"}.get(code, f"failed with pytest's code {code}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
