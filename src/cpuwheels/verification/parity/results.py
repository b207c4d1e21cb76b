"""``parity.json``: what was tested, how close it came to its limit, and what was wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

from packaging.version import Version
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from cpuwheels.config.installation import command_line
from cpuwheels.core.errors import ParityError, UsageError
from cpuwheels.core.text import counted, first_names
from cpuwheels.verification.parity.findings import Finding, Place, places

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

FORMAT: Final = 1
EMULATED: Final = "Emulation shows neither speed nor races between threads."
"""Part of every report of a run on emulated CPUs."""
_SHOWN = 12
"""Wrong cases in the error's message; the reports have all."""
_NAMED = 6
"""Operators that a gap names; the reports have all."""

Judgement = Literal["passed", "passed in part", "failed"]
"""In part: what was tried is right, but not all of the wheel was tried, or its kernels have known faults."""

Verdict = Literal["passed", "known", "failed", "crashed", "waived", "untested"]
WRONG: frozenset[Verdict] = frozenset({"failed", "crashed", "untested"})


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class CaseResult(_Part):
    """One case on one library."""

    name: str
    """``operator[parameter-parameter]``; the same for every wheel."""
    operators: tuple[str, ...]
    dtype: str
    """Data type that its limits depend on; empty if they do not."""
    verdict: Verdict
    ratio: float | None
    """How much of the limit the worst error uses up, without the error of storing a result in its format: 0 is as exact
    as the format allows, above 1 is wrong. None if something other than a limit was broken."""
    error: float | None
    limit: float | None
    seconds: float
    """Of the first call."""
    problems: tuple[str, ...] = ()
    known: str = ""
    """The known upstream fault that it shows, or showed: its heading in docs/findings.md."""
    findings: tuple[Finding, ...] = ()
    """What sanitizers reported while it ran; `problems` has them, too."""

    @property
    def expired(self) -> bool:
        """Whether it is right although a known fault was expected."""
        return bool(self.known) and self.verdict == "passed"


class Row(_Part):
    """One operator with one data type on one library."""

    operator: str
    library: str
    dtype: str
    cases: int
    failed: int
    known: int
    """Cases that show a known upstream fault; nothing else here counts them."""
    ratio: float | None
    """The largest of its cases; None if something other than a limit was broken."""
    error: float | None
    limit: float | None
    worst_case: str
    verdict: Verdict
    reason: str = ""
    """Why it is waived."""


class LibraryResult(_Part):
    """One library's run."""

    name: str
    """``_C``, ``_C_AVX2``…, and the emulated CPU if it did not run on this one."""
    operators: tuple[str, ...]
    """Those to test."""
    registered: tuple[str, ...]
    """All operators that it has."""
    cases: tuple[CaseResult, ...]
    waived: dict[str, str]
    """Operators that are not tested, with the reason."""
    untested: tuple[str, ...]
    """Operators without a case or a waiver."""
    seed: int
    """All inputs are drawn from it."""
    seconds: float

    def rows(self) -> list[Row]:
        """Return one row for each operator and data type, in alphabetical order."""
        rows = [_row(self.name, *key, cases) for key, cases in self._by_operator().items()]
        rows += [_empty(self.name, name, "waived", reason) for name, reason in self.waived.items()]
        rows += [_empty(self.name, name, "untested") for name in self.untested]
        return sorted(rows, key=lambda row: (row.operator, row.dtype))

    def _by_operator(self) -> dict[tuple[str, str], list[CaseResult]]:
        found: dict[tuple[str, str], list[CaseResult]] = {}
        for case in self.cases:
            for operator in case.operators:
                found.setdefault((operator, case.dtype), []).append(case)
        return found


class Parity(_Part):
    """Everything that one run of parity found about a wheel."""

    format: Literal[1] = FORMAT
    wheel: str
    """File name; without a wheel what the libraries were compiled from, and the sanitizers."""
    sha256: str
    version: str
    torch: str
    machine: str
    """Name of the CPU."""
    emulated: bool = False
    """Whether everything was run on emulated CPUs, which show neither speed nor races between threads."""
    threads: int
    level: str
    only: tuple[str, ...] = ()
    """The operators that were asked for; all if empty."""
    fixed_faults: tuple[str, ...] = ()
    """Known faults of upstream's kernels that the wheel says it does not have: their cases have to be right."""
    seed: int
    """All inputs are drawn from it."""
    began: str
    """ISO 8601, UTC."""
    seconds: float
    libraries: tuple[LibraryResult, ...]
    not_run: dict[str, str]
    """Libraries that this machine cannot run, with the reason."""
    untried: dict[str, str] = Field(default_factory=dict)
    """Kernels of the libraries that were run, ``AMX-FP8 of _C``, that were not run, with the reason."""
    onednn_limit: str = ""
    """ONEDNN_MAX_CPU_ISA, if it was set."""
    onednn_reason: str = ""
    """Why it was."""
    sandbox: dict[str, str] = Field(default_factory=dict)
    """What confined the processes, as a build record has it; empty in reports of earlier versions."""

    @property
    def rows(self) -> list[Row]:
        """One row for each operator, library and data type."""
        return [row for library in self.libraries for row in library.rows()]

    @property
    def wrong(self) -> list[Row]:
        """The rows that are not right."""
        return [row for row in self.rows if row.verdict in WRONG]

    @property
    def cases(self) -> list[tuple[str, CaseResult]]:
        """All cases, each with its library."""
        return [(library.name, case) for library in self.libraries for case in library.cases]

    @property
    def right(self) -> bool:
        """Whether everything that was run is right but for known faults, and something was run."""
        return bool(self.libraries) and not self.wrong

    @property
    def known(self) -> dict[str, list[tuple[str, CaseResult]]]:
        """The cases that show known faults, each with its library, by fault."""
        found: dict[str, list[tuple[str, CaseResult]]] = {}
        for library, case in self.cases:
            if case.verdict == "known":
                found.setdefault(case.known, []).append((library, case))
        return found

    @property
    def findings(self) -> list[Place]:
        """What sanitizers found, by place."""
        return places(self.cases)

    @property
    def gone(self) -> list[tuple[str, str]]:
        """Known faults that show in none of their cases, each with the library that should have it.

        In a release that is a mistake of whoever listed them. A commit may have fixed them.
        """
        if Version(self.version).is_devrelease:
            return []
        shown = {(library, case.known) for library, case in self.cases if case.verdict == "known"}
        expected = {(library, case.known) for library, case in self.cases if case.expired}
        return sorted(expected - shown)

    @property
    def judgement(self) -> Judgement:
        """The result of the run as a whole."""
        if not self.right or self.gone:
            return "failed"
        return "passed in part" if self.gaps else "passed"

    @property
    def gaps(self) -> list[str]:
        """What was not tried, and known faults that the kernels have, each for people; empty if there is nothing."""
        found = [f"{what} was not run: {reason}" for what, reason in {**self.not_run, **self.untried}.items()]
        if self.only:
            found.append(f"only these operators were tried: {first_names(self.only, _NAMED)}")
        found += [
            f"{library.name}: {operator} has no case: {reason}"
            for library in self.libraries
            for operator, reason in library.waived.items()
        ]
        return found + [f"a known fault of upstream's kernels: {fault}" for fault in sorted(self.known)]

    @property
    def tried(self) -> str:
        """What was run, for people."""
        operators = len({row.operator for row in self.rows if row.cases})
        libraries = ", ".join(library.name for library in self.libraries) or "no library"
        cases = counted(len(self.cases), "case")
        where = f"emulated, {self.machine}" if self.emulated else self.machine
        return f"level {self.level}: {cases} of {counted(operators, 'operator')} on {libraries} ({where})"


def require_parity(parity: Parity, reports: Sequence[Path]) -> None:
    """Check that everything was right.

    Raises:
        ParityError: Something was not; it names the operators and the first case.
    """
    if parity.judgement != "failed":
        return
    if parity.right:
        raise ParityError(
            f"{len(parity.gone)} known faults do not show any more in {parity.wheel}",
            where=", ".join(str(report) for report in reports),
            output="\n".join(f"{library}: {fault}" for library, fault in parity.gone),
            next_step="tests/parity/defects.toml lists faults that are not there: narrow their versions or libraries",
        )
    operators = sorted({row.operator for row in parity.wrong})
    cases = [(library, case) for library, case in parity.cases if case.verdict in WRONG]
    lines = [f"{name}: {case.name}: {problem}" for name, case in cases for problem in case.problems]
    lines += [f"{row.library}: {row.operator}: no case" for row in parity.wrong if row.verdict == "untested"]
    raise ParityError(
        f"{counted(len(operators), 'operator')} of {parity.wheel} gave wrong results: {', '.join(operators)}",
        where=", ".join(str(report) for report in reports),
        output="\n".join(lines[:_SHOWN]),
        next_step="read the reports; do not publish this wheel",
    )


def read_parity(path: Path) -> Parity:
    """Read a ``parity.json``.

    Raises:
        UsageError: It is not there, or something else.
    """
    try:
        return Parity.model_validate_json(path.read_bytes())
    except (OSError, ValidationError) as error:
        raise UsageError(
            f"{path} is not a parity.json of format {FORMAT}",
            where="--against",
            next_step=f"give the parity.json next to another wheel; {command_line('parity', 'x86')} writes it",
        ) from error


def _row(library: str, operator: str, dtype: str, cases: list[CaseResult]) -> Row:
    wrong = [case for case in cases if case.verdict in WRONG]
    known = [case for case in cases if case.verdict == "known"]
    tried = [case for case in cases if case.verdict != "known"]
    worst = max(wrong or tried or known, key=lambda case: float("inf") if case.ratio is None else case.ratio)
    crashed = any(case.verdict == "crashed" for case in wrong)
    return Row(
        operator=operator,
        library=library,
        dtype=dtype,
        cases=len(cases),
        failed=len(wrong),
        known=len(known),
        ratio=worst.ratio,
        error=worst.error,
        limit=worst.limit,
        worst_case=worst.name,
        verdict="crashed" if crashed else "failed" if wrong else "passed" if tried else "known",
    )


def _empty(library: str, operator: str, verdict: Verdict, reason: str = "") -> Row:
    return Row(
        operator=operator,
        library=library,
        dtype="",
        cases=0,
        failed=0,
        known=0,
        ratio=None,
        error=None,
        limit=None,
        worst_case="",
        verdict=verdict,
        reason=reason,
    )
