"""The steps of CI: each is a timed session of nox; the first failure ends the run, and a table shows it all.

    python .ci/steps.py [--base COMMIT] [--plan]

First come the steps that every change has to pass, then the groups of tests/groups.toml that its files select. `--base`
is the landed commit to compare with (default: where the branch left main, or the commit before); `--plan` prints what
would be run.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests" / "helpers"))

import foreground  # noqa: E402  (the tests' helpers are no installed package)
from changes import changed_files  # noqa: E402
from groups import Choice, load_groups, select  # noqa: E402

BY_CHANGE = ("full", "soak")
"""Parts of the tests that are run where a change selects them."""


@dataclass(frozen=True)
class Step:
    """A session of nox.

    Attributes:
        name: In the table.
        session: The session and its options.
        why: What selected it, if not every change does.
    """

    name: str
    session: tuple[str, ...]
    why: str = ""


def group_step(group: str, why: str = "") -> Step:
    """Return the step that runs a group of the tests."""
    return Step(group, ("tests", "--", "--group", group), why)


ALWAYS = (
    Step("lint", ("lint",)),
    Step("types", ("types",)),
    Step("docs", ("docs", "--", "--test")),
    group_step("unit"),
    group_step("unit:campaign"),
    Step("build", ("build-x86",)),
    Step("parity", ("parity-x86", "--", "--level", "smoke")),
    Step("serve", ("serve-x86",)),
    group_step("wheel"),
    group_step("core"),
    group_step("core:campaign-source"),
    group_step("core:sandbox"),
)


def main(words: list[str]) -> int:
    """Run the steps; return the exit code of the one that failed, or 0. A signal that ends this ends the step too."""
    parser = argparse.ArgumentParser(allow_abbrev=False, usage=__doc__)
    parser.add_argument("--base", default="")
    parser.add_argument("--plan", action="store_true")
    chosen = parser.parse_args(words)
    choices = [each for each in select(load_groups(), changed_files(ROOT, chosen.base)) if each.group.part in BY_CHANGE]
    steps = [*ALWAYS, *(group_step(each.group.name, each.why) for each in choices if each.selected)]
    minutes: dict[str, float] = {}
    code = 0
    for step in () if chosen.plan else steps:
        print(f"ci: {step.name}: nox -s {' '.join(step.session)}", flush=True)
        started = time.monotonic()
        code = foreground.run_group(["nox", "-s", *step.session], ROOT)
        minutes[step.name] = (time.monotonic() - started) / 60
        if code:
            break
    table = summary(steps, choices, minutes, code)
    print(table)
    if path := os.environ.get("GITHUB_STEP_SUMMARY"):
        with Path(path).open("a", encoding="utf-8") as stream:
            stream.write(table)
    return code


def summary(steps: list[Step], choices: list[Choice], minutes: dict[str, float], code: int) -> str:
    """Return the table of a run: steps with their minutes, and groups that the change did not select, with the reason.

    Args:
        steps: All that were selected.
        choices: For the groups that a change selects.
        minutes: Of the steps that were run, by name and in their order.
        code: Exit code of the last one.
    """
    lines = ["| step | minutes | state | selected by |", "|---|---|---|---|"]
    failed = [*minutes][-1] if code else ""
    for step in steps:
        state = "FAILED" if step.name == failed else "passed" if step.name in minutes else "not run"
        taken = f"{minutes[step.name]:.1f}" if step.name in minutes else ""
        lines.append(f"| {step.name} | {taken} | {state} | {step.why or 'every change'} |")
    lines += [f"| {each.group.name} | | not selected | {each.why} |" for each in choices if not each.selected]
    total = f"| all | {sum(minutes.values()):.1f} | {'FAILED' if code else 'passed' if minutes else 'not run'} | |"
    return "\n".join([*lines, total, ""])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
