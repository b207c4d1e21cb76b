"""What a bisection has found: the commit, what it changed, every probe, and how to reproduce it."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cpuwheels.bisect.regress import MEANINGS
from cpuwheels.bisect.search import Verdict
from cpuwheels.bisect.state import FORMAT
from cpuwheels.config.installation import command_line
from cpuwheels.core.urls import without_userinfo
from cpuwheels.kernels.fingerprint import PARTS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from cpuwheels.bisect.search import State as Left
    from cpuwheels.bisect.state import State
    from cpuwheels.source.history import History
    from cpuwheels.source.repository import Repository


SHOWN = 30
"""Files of the first bad commit that people are shown; ``result.json`` has all."""


_FLAGS = {"requirements": "--no-requirements", "sdists": "--allow-sdists", "unconfined": "--unconfined"}
"""What a question says of a command's environment, and the option that says it."""


@dataclass(frozen=True)
class Suspect:
    """A commit that may be the first bad one.

    Attributes:
        commit: Full hash.
        subject: First line of its message.
        files: What it changed, files that kernels are made from first.
    """

    commit: str
    subject: str
    files: tuple[str, ...]


@dataclass(frozen=True)
class Outcome:
    """What a bisection has found.

    Attributes:
        history: The range.
        state: The question and every probe.
        suspects: The commits that may be the first bad one, oldest first; only one if it was found.
        subjects: First lines of the messages of all commits that were tested.
        folder: Where its file, its logs and its wheels are.
        clone: The clone that was used, if it is on this machine.
        address: Where git fetches the repository from; empty if that is not known.
    """

    history: History
    state: State
    suspects: tuple[Suspect, ...]
    subjects: dict[str, str]
    folder: Path
    clone: Path | None
    address: str = ""

    @property
    def found(self) -> Suspect | None:
        """The first bad commit, if it was found."""
        return self.suspects[0] if len(self.suspects) == 1 else None

    @property
    def last_good(self) -> str:
        """The commit before the first bad one, if that was found and this one tested good; else empty."""
        if self.found is None:
            return ""
        parents = next((one.parents for one in self.history.commits if one.name == self.found.commit), ())
        before = parents[0] if parents else self.history.base
        return before if self.state.verdicts.get(before) == Verdict.GOOD else ""

    @property
    def meaning(self) -> str:
        """What is true of a bad commit, for people; empty if that is a fault of any kind."""
        return MEANINGS.get(str(self.state.question.judge.get("regress", "")), "")

    @property
    def seconds(self) -> float:
        """All probes together."""
        return sum(probe.seconds for probe in self.state.probes)

    def again(self, *, elsewhere: bool = False) -> str:
        """Return the command that shows the result between the last good commit and the first bad one.

        Args:
            elsewhere: Whether it is for other people, who do not have the clone of this machine.
        """
        question = self.state.question
        before = {commit.name: commit.parents for commit in self.history.commits}
        first, last = self.suspects[0].commit, self.suspects[-1].commit
        parents = before.get(first, ())
        ends = ["--good", parents[0] if parents else question.good, "--bad", last]
        judge = question.judge
        for name in ("run", "parity", "bench", "serve", "prompt", "regress"):
            if name in judge:
                ends += [f"--{name}", str(judge[name])]
        if "parity" in judge:
            ends += ["--level", str(judge["level"])]
        ends += [
            word for name in ("slower", "library", "timeout") if name in judge for word in _option(name, judge[name])
        ]
        ends += [flag for name, flag in _FLAGS.items() if name in judge]
        ends += [word for name in str(judge.get("env", "")).split() for word in ("--pass-env", name)]
        for name in ("readable", "writable"):
            ends += [word for path in shlex.split(str(judge.get(name, ""))) for word in (f"--{name}", path)]
        ends += _build_options(question.options)
        if self.clone and not elsewhere:
            ends += ["--repo", str(self.clone)]
        if not question.first_parent:
            ends.append("--all-parents")
        return command_line("bisect", "", f"--target {question.target} {shlex.join(ends)}")

    def as_json(self) -> dict[str, Any]:
        """Return the result for ``result.json``."""
        question = self.state.question
        return {
            "format": FORMAT,
            "question": question.model_dump(),
            "range": {"base": self.history.base, "commits": len(self.history.commits), "merges": self.history.merges},
            "first_bad": self.found and self.found.commit,
            "suspects": [
                {"commit": suspect.commit, "subject": suspect.subject, "files": list(suspect.files)}
                for suspect in self.suspects
            ],
            "probes": [
                probe.model_dump() | {"subject": self.subjects.get(probe.commit, "")} for probe in self.state.probes
            ],
            "seconds": self.seconds,
            "again": self.again(),
        }

    def as_lines(self) -> list[str]:
        """Return the result in words, one line each."""
        if self.found:
            meaning = f" ({self.meaning})" if self.meaning else ""
            lines = [f"{self.found.commit} is the first bad commit{meaning}", f"  {self.found.subject}"]
            files = [f"  {name}{' (kernels)' if is_kernel_file(name) else ''}" for name in self.found.files]
            lines += [*files[:SHOWN], f"  and {len(files) - SHOWN} more files"] if len(files) > SHOWN else files
        else:
            lines = [f"one of these {len(self.suspects)} commits is the first bad one; the others could not be tested:"]
            lines += [f"  {suspect.commit[:12]} {suspect.subject}" for suspect in self.suspects]
        return [*lines, f"to reproduce it: {self.again()}"]


def outcome_of(repository: Repository, history: History, state: State, left: Left, folder: Path) -> Outcome:
    """Return the result of a search that has ended."""
    suspects = tuple(
        Suspect(name, repository.subject(name), tuple(sorted(repository.changed(name), key=_kernels_first)))
        for name in left.suspects
    )
    subjects = {probe.commit: repository.subject(probe.commit) for probe in state.probes}
    clone = repository.git.folder if repository.name == str(repository.git.folder) else None
    origin = repository.git.ask("config", "--get", "remote.origin.url").output.strip() if clone else repository.name
    return Outcome(history, state, suspects, subjects, folder, clone, without_userinfo(origin))


def is_kernel_file(name: str) -> bool:
    """Return whether kernels could depend on a file of a source."""
    return any(name == part or name.startswith(f"{part}/") for part in PARTS)


def _kernels_first(name: str) -> tuple[bool, str]:
    return not is_kernel_file(name), name


def _build_options(given: Sequence[str]) -> list[str]:
    """Return the options of a bisection that make the builds what they were; none if they are not known."""
    values = {name: given[given.index(name) + 1] for name in ("--toolchain", "--kernels-from") if name in given}
    found = [word for name, value in values.items() if value != "auto" for word in (name, value)]
    found += [flag for flag in ("--locked", "--allow-unsandboxed") if flag in given]
    return [*found, "--patched-kernels"] if given and "--upstream-kernels" not in given else found


def _option(name: str, value: str | float) -> list[str]:
    return [f"--{name}", value if isinstance(value, str) else f"{value:g}"]
