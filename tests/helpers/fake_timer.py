"""Stands for ``time_cases.py``: answers as the case's name says, and may die of it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import time


def answer(**fields: object) -> None:
    print(json.dumps(fields), flush=True)


def begin(case: str) -> bool:
    """Answer a `begin`; return whether samples follow."""
    if case == "killed":
        os.kill(os.getpid(), signal.SIGSEGV)
    if case == "ends":
        sys.exit(3)
    if case == "hangs":
        time.sleep(60)
    if case == "says no more":
        os.close(1)
        time.sleep(60)
    if case == "floods":
        with contextlib.suppress(BrokenPipeError):
            while True:
                os.write(1, b"x" * 65536)
    if case == "no time":
        answer(place=2, seconds="1; import os")
        return False
    if case in {"refused", "raises"}:
        answer(**({"left_out": "the call is refused"} if case == "refused" else {"failed": "it raised an error"}))
        return False
    answer(place=2, seconds=0.5)
    return True


def main() -> None:
    if "broken" in sys.argv[1]:
        sys.exit("no such symbol")
    names = ["killed", "ends", "hangs", "refused", "raises", "fails late", "good"]
    answer(operators=["a"], cases=[{"name": name, "operators": ["a"], "dtype": "", "size": 1} for name in names])
    case, under_way = "", False
    for line in sys.stdin:
        question = json.loads(line)
        if question["do"] == "begin":
            assert not under_way
            case, under_way = question["case"], begin(question["case"])
        elif question["do"] == "sample":
            assert under_way
            under_way = case != "fails late"
            answer(**({"seconds": question["count"] / 4} if under_way else {"failed": "it raised an error"}))
        else:
            assert under_way
            under_way = False
            answer()


if __name__ == "__main__":
    main()
