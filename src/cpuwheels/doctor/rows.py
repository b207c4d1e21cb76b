"""The findings of the doctor for a person: lines in groups as soon as they are known, problems and verdict last."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING

from cpuwheels.doctor.check import can_build, verdict
from cpuwheels.doctor.lines import LATER, print_finding, print_heading, print_problem, print_verdict

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import Console

    from cpuwheels.doctor.check import Check, Status

_PROBLEMS: tuple[tuple[Status, str], ...] = (("warn", "Warnings"), ("fail", "What prevents a build"))


def print_checks(console: Console, target: str, checks: Iterable[Check]) -> tuple[Check, ...]:
    """Print each check when it is known, then what is wrong, and the verdict.

    Args:
        console: Where to print. A terminal is filled to its width; elsewhere a line is never broken.
        target: Target id.
        checks: The checks; getting the next may take seconds.

    Returns:
        The checks that were printed.
    """
    seen: list[Check] = []
    console.print(f"What a build of {target} needs:", highlight=False, markup=False, soft_wrap=True)
    with console.status("looking") if console.is_terminal else nullcontext():
        for check in checks:
            if check.group and check.group not in {one.group for one in seen}:
                print_heading(console, check.group)
            seen.append(check)
            later = check.status in {"warn", "fail"}
            if later:
                print_finding(console, check.status, check.name, LATER)
            else:
                print_problem(console, check.status, check.name, check.detail, check.next_step)
    for status, title in _PROBLEMS:
        problems = [check for check in seen if check.status == status]
        if problems:
            print_heading(console, title)
        for check in problems:
            print_problem(console, status, check.name, check.detail, check.next_step)
    good = can_build(seen)
    print_verdict(console, "ok" if good else "fail", verdict(target, seen), "bold green" if good else "bold red")
    return tuple(seen)
