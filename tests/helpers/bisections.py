"""Results of bisections of a small repository."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cpuwheels.bisect.result import outcome_of
from cpuwheels.bisect.search import Search, Verdict
from cpuwheels.bisect.state import Probe, Question, State
from cpuwheels.fetch.git import Git
from cpuwheels.source.history import history_between
from cpuwheels.source.repository import Repository
from sample_source import commit, git, write_tree

if TYPE_CHECKING:
    from pathlib import Path

    from cpuwheels.bisect.result import Outcome

ENDS = {0: Verdict.GOOD, 8: Verdict.BAD}
FOUND = ENDS | {4: Verdict.GOOD, 5: Verdict.BAD}
LEFT = ENDS | {3: Verdict.GOOD, 4: Verdict.SKIP, 5: Verdict.SKIP, 6: Verdict.BAD}


def outcome(
    folder: Path, verdicts: dict[int, Verdict], judge: dict[str, str | float] | None = None, origin: str = ""
) -> Outcome:
    """Return the result of a search among nine commits, of which the fifth changes Python and kernels."""
    tree = write_tree(folder / "vllm")
    names = [commit(tree, "release <0>")]
    for number in range(1, 9):
        (tree / "vllm" / f"m{number}.py").write_text("")
        if number == 5:
            (tree / "csrc" / "cpu" / "ops.cpp").write_text("int one() { return 3; }\n")
        names.append(commit(tree, f"change <{number}> (#{number}23)" if origin else f"change <{number}>"))
    if origin:
        git(tree, "remote", "add", "origin", origin)
    repository = Repository(Git(tree), str(tree))
    history = history_between(repository, names[0], names[8], first_parent=True)
    question = Question(
        target="x86",
        good=names[0],
        bad=names[8],
        first_parent=True,
        repository=str(tree),
        judge=judge
        or {
            "readable": "/a '/b c'",
            "writable": "/d",
            "unconfined": "yes",
            "run": "test -e 'a b'",
            "timeout": 60.0,
            "requirements": "none",
            "env": "A B",
            "sdists": "allowed",
        },
    )
    state = State(question=question)
    for number, verdict in verdicts.items():
        state = state.with_probe(
            Probe(commit=names[number], verdict=verdict, reason=f"because <{number}>", seconds=61.0, wheel_from="build")
        )
    inside = {name: verdict for name, verdict in state.verdicts.items() if name != names[0]}
    return outcome_of(repository, history, state, Search(history.commits).state(inside), folder / "out")
