"""What sanitizers found: their reports, read for kind and place."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict

from cpuwheels.kernels.cmake_cache import STABLE_ROOT

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from cpuwheels.verification.parity.results import CaseResult

_UNKNOWN = "an unknown place"
_UPSTREAM = f"{STABLE_ROOT}/vllm/"
_ERROR = re.compile(r"==\d+==\s*ERROR: (?P<sanitizer>\w+Sanitizer): (?P<rest>.*)")
_UNDEFINED = re.compile(r"(?P<file>[^\s:][^:]*):(?P<line>\d+)(?::\d+)?: runtime error: (?P<what>.*)")
_FRAME = re.compile(r"\s+#\d+ 0x[0-9a-f]+ in (?P<function>.+) (?P<file>/\S+?|\S+/\S+?):(?P<line>\d+)(?::\d+)?")
_RACE = re.compile(r"WARNING: ThreadSanitizer: (?P<kind>[^(]+?) \(pid=\d+\)")
_RACING = re.compile(r"  (?P<what>[A-Z][\w ]*of size \d+) at 0x[0-9a-f]+ by .*")
_RACE_FRAME = re.compile(r"\s+#\d+ (?P<function>.+) (?P<file>[^\s:]+):(?P<line>\d+)(?::\d+)? \(.*")
_END_OF_RACE = "=================="
_ACCESS = re.compile(r"(?P<what>(?:READ|WRITE) of size \d+) at 0x[0-9a-f]+.*")
_WHERE = re.compile(r"0x[0-9a-f]+ is (located .*? region).*")


class Finding(BaseModel):
    """One report of a sanitizer."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: str
    """As the sanitizer names it, such as ``heap-buffer-overflow``; ``undefined-behavior`` for all that is undefined."""
    what: str
    """What happened, in the sanitizer's words."""
    place: str
    """File and line: the first of upstream's files in the stack, below its source; else what the sanitizer names."""
    function: str = ""

    def __str__(self) -> str:
        """Return it as a line."""
        return f"{self.kind} at {self.place}: {self.what}{f', in {self.function}' if self.function else ''}"


@dataclass(frozen=True)
class Place:
    """All findings of a kind at one place.

    Attributes:
        finding: The first.
        libraries: In which libraries.
        operators: Which operators' cases found them.
        case: Name of the first case.
    """

    finding: Finding
    libraries: tuple[str, ...]
    operators: tuple[str, ...]
    case: str

    def __str__(self) -> str:
        """Return it as a line."""
        return f"{self.finding} ({', '.join(self.libraries)}: {', '.join(self.operators)}; first in {self.case})"


def places(cases: Iterable[tuple[str, CaseResult]]) -> list[Place]:
    """Return the findings of cases, each with its library, by kind and place."""
    found: dict[tuple[str, str], list[tuple[str, CaseResult, Finding]]] = {}
    for library, case in cases:
        for finding in case.findings:
            found.setdefault((finding.kind, finding.place), []).append((library, case, finding))
    return [
        Place(
            finding=rows[0][2],
            libraries=tuple(dict.fromkeys(library for library, _, _ in rows)),
            operators=tuple(dict.fromkeys(case.operators[0] for _, case, _ in rows)),
            case=rows[0][1].name,
        )
        for _, rows in sorted(found.items())
    ]


def read_reports(text: str) -> tuple[Finding, ...]:
    """Return what the text of reports says, each finding once.

    The stack of a report ends where the next report begins, or with an empty line; other stacks, such as that of the
    allocation, come after that.
    """
    return tuple(dict.fromkeys(_findings(text.replace("\0", "").splitlines())))


def _findings(lines: list[str]) -> Iterator[Finding]:
    for number, line in enumerate(lines):
        if match := _UNDEFINED.match(line):
            named = f"{match['file']}:{match['line']}"
            place, function = _place(_stack(lines[number + 1 :]), named)
            yield Finding(
                kind="undefined-behavior",
                what=match["what"],
                place=_below(named) if match["file"].startswith(_UPSTREAM) else place,
                function=function,
            )
        elif match := _RACE.match(line):
            yield _race(match["kind"], lines[number + 1 :])
        elif match := _ERROR.match(line):
            stack = _stack(lines[number + 1 :])
            place, function = _place(stack, _UNKNOWN)
            access = next((found["what"] for each in stack if (found := _ACCESS.fullmatch(each))), match["rest"])
            after = lines[number + 1 : number + 2 + len(stack) + 1]
            where = next((found[1] for each in after if (found := _WHERE.match(each))), "")
            kind = match["rest"].partition(" ")[0].rstrip(":")
            yield Finding(kind=kind, what=f"{access} {where}".rstrip(), place=place, function=function)


def _race(kind: str, lines: Iterable[str]) -> Finding:
    """Return a report of ThreadSanitizer: the first access is its place, and the others are what happened."""
    accesses: list[tuple[str, list[str]]] = []
    inside = False
    for line in lines:
        if line.startswith(_END_OF_RACE):
            break
        if match := _RACING.fullmatch(line):
            accesses.append((match["what"], []))
            inside = True
        elif inside and line.strip():
            accesses[-1][1].append(line)
        else:
            inside = False
    if not accesses:
        return Finding(kind=kind, what=kind, place=_UNKNOWN)
    named = [(what, *_place(stack, _UNKNOWN, _RACE_FRAME)) for what, stack in accesses]
    what = ", ".join([named[0][0], *(f"{what} at {place}" for what, place, _ in named[1:])])
    return Finding(kind=kind, what=what, place=named[0][1], function=named[0][2])


def _stack(lines: Iterable[str]) -> list[str]:
    """Return the lines that belong to a report, up to where its first stack ends."""
    found: list[str] = []
    for line in lines:
        if not line.strip() or _UNDEFINED.match(line) or _ERROR.match(line):
            break
        found.append(line)
    return found


def _place(stack: Iterable[str], otherwise: str, form: re.Pattern[str] = _FRAME) -> tuple[str, str]:
    """Return file and line of the first frame in upstream's files, and its function."""
    frames = [frame for line in stack if (frame := form.fullmatch(line))]
    for frame in frames:
        if frame["file"].startswith(_UPSTREAM):
            return _below(f"{frame['file']}:{frame['line']}"), frame["function"].partition("(")[0]
    return _below(otherwise), frames[0]["function"].partition("(")[0] if frames else ""


def _below(place: str) -> str:
    return place.removeprefix(_UPSTREAM)
