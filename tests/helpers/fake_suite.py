"""Stands for ``python -m pytest tests/parity``: writes the events that a file beside it says, and may die of one."""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
from pathlib import Path


def main() -> int:
    """Act as the file ``script.json`` beside this one says."""
    arguments = sys.argv[1:]
    option = {
        name: arguments[place + 1]
        for place, name in enumerate(arguments)
        if name.startswith("--") and place + 1 < len(arguments)
    }
    here = Path(__file__).parent
    with (here / "asked").open("a") as stream:
        stream.write(json.dumps(arguments) + "\n")
    name = Path(option["--library"]).name.partition(".")[0]
    script = json.loads((here / "script.json").read_text())[name]
    cases = script["cases"]
    number, parts = map(int, option.get("--part", "1/1").split("/"))
    cases = cases[number - 1 :: parts]
    after = option.get("--after") or option.get("--after-drawn")
    if after:
        cases = cases[[case["case"] for case in cases].index(after) + 1 :]
    with Path(option["--results"]).open("a") as stream:

        def write(**event: object) -> None:
            stream.write(json.dumps(event) + "\n")
            stream.flush()

        if not after and "operators" in script:
            write(
                event="library",
                operators=script["operators"],
                registered=script["operators"],
                waived=script.get("waived", {}),
                untested=script.get("untested", []),
                seed=7,
            )
        for case in cases:
            about = {"case": case["case"], "operators": case["case"].split("[")[0].split("+")}
            about["reported"] = _size(option.get("--reports"))
            write(event="started", **about, drawn=case.get("drawn", False))
            print(".", flush=True)
            _report(case.get("report", ""), option)
            if "signal" in case:
                os.kill(os.getpid(), getattr(signal, case["signal"]))
            if "limits" in case:
                case["problems"] = [str(resource.getrlimit(getattr(resource, case["limits"])))]
            if "variable" in case:
                case["problems"] = [os.environ[case["variable"]]]
            if "status" in case:
                return int(case["status"])
            write(
                event="finished",
                **about | {"reported": _size(option.get("--reports"))},
                reports=case.get("report", ""),
                dtype=case.get("dtype", ""),
                seconds=0.5,
                problems=case.get("problems", []),
                known=case.get("known", ""),
                outputs=case.get("outputs", {}),
            )
    _report(script.get("report", ""), option)
    print("done")
    return int(
        script.get(
            "status", any(case.get("report") or (case.get("problems") and not case.get("known")) for case in cases)
        )
    )


def _report(text: str, option: dict[str, str]) -> None:
    """Write a report as the run time of a sanitizer would."""
    if text:
        assert "halt_on_error=0" in os.environ["ASAN_OPTIONS"]
        with Path(option["--reports"]).open("a") as stream:
            stream.write(text)


def _size(file: str | None) -> int:
    return Path(file).stat().st_size if file and Path(file).is_file() else 0


if __name__ == "__main__":
    sys.exit(main())
