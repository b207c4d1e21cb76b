"""Times operators of one library, one question at a time: a process that is asked by `cpuwheels kernel-bench`.

Each line of the input is a question, each line of the output its answer. `begin` names a case and one of its operators,
and runs the case up to the call; `sample` times so many repetitions of that call; `end` lets the case go on.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from pathlib import Path
from typing import Any, TextIO

import torch

from harness.case import Case
from harness.defects import known_defect
from harness.draw import Draw
from harness.library import Library
from harness.selection import cases_for
from harness.timing import NotTimedError, Replay, Watch, largest_call


class Talk:
    """Questions and answers; what kernels print goes to the log instead."""

    def __init__(self, questions: TextIO, answers: TextIO) -> None:
        self._questions, self._answers = questions, answers

    def question(self) -> dict[str, Any]:
        """Return the next question.

        Raises:
            EOFError: There is none.
        """
        line = self._questions.readline()
        if not line:
            raise EOFError
        question: dict[str, Any] = json.loads(line)
        return question

    def answer(self, **fields: Any) -> None:
        """Answer the last question."""
        self._answers.write(json.dumps(fields) + "\n")
        self._answers.flush()


def serve(library: Library, talk: Talk) -> None:
    """Answer until the input ends; cases that show known faults are not offered."""
    chosen = cases_for(library.operators, "full", library.takes)
    cases = {case.name: case for case in chosen if known_defect(case, library.name) is None}
    talk.answer(
        operators=library.operators,
        cases=[
            {"name": case.name, "operators": case.operators, "dtype": case.dtype, "size": case.size}
            for case in cases.values()
        ],
    )

    while True:
        question = talk.question()
        try:
            time_call(cases[question["case"]], question["operator"], question["place"], library, talk)
            talk.answer()
        except EOFError:
            raise
        except NotTimedError as error:
            talk.answer(left_out=str(error))
        except Exception as error:  # noqa: BLE001  (whatever a case raises, the others are timed)
            text = str(error).strip().splitlines()
            talk.answer(failed=f"it raised {type(error).__name__}: {text[0] if text else ''}")


def time_call(case: Case, operator: str, place: int | None, library: Library, talk: Talk) -> None:
    """Run a case, and at one of its calls of an operator answer questions for samples.

    Raises:
        NotTimedError: It has no such call.
    """
    chosen = largest_call(case, library, operator) if place is None else place

    def visit(replay: Replay) -> None:
        talk.answer(place=chosen, seconds=replay.seconds())
        while (question := talk.question())["do"] == "sample":
            talk.answer(seconds=replay.sample(question["count"]))

    call = case.build(Watch(library, operator, chosen, visit), Draw(case.seed))
    call.run()
    call.close()


def main() -> None:
    """Load the library and answer until the input ends."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    torch.set_num_threads(int(sys.argv[2]))
    with contextlib.suppress(EOFError):
        serve(Library(Path(sys.argv[1]), checked=False), Talk(sys.stdin, answers))


if __name__ == "__main__":
    main()
