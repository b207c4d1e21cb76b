"""The verdicts on a wheel: its audit, the install check, and what later tests found, if they ran."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeVar

from pydantic import ValidationError

from cpuwheels.audit.policy import untried_lines
from cpuwheels.config.installation import command_line
from cpuwheels.core.text import counted
from cpuwheels.verification.parity.reports import HTML, JSON
from cpuwheels.verification.parity.results import Parity
from cpuwheels.verification.serving.result import SERVE, Served
from cpuwheels.verification.verified import VERIFY, Verified

if TYPE_CHECKING:
    from pathlib import Path

    from cpuwheels.pipeline.recorded_build import BuildRecord

State = Literal["passed", "passed in part", "failed", "open"]

Results = TypeVar("Results", Parity, Served, Verified)


@dataclass(frozen=True)
class Verdict:
    """One check of a wheel.

    Attributes:
        name: What was checked.
        state: ``open`` if it did not run on this wheel.
        text: The result in a few words.
        details: More of it, one line each.
        link: File next to the page that has all of it; empty if there is none.
    """

    name: str
    state: State
    text: str
    details: tuple[str, ...] = ()
    link: str = ""


def verdicts(record: BuildRecord, folder: Path) -> list[Verdict]:
    """Return the verdicts on a wheel.

    Args:
        record: Its build record. A wheel that failed its audit or its install check has none.
        folder: Where the reports of later tests are; those of another wheel do not count.
    """
    later = (_parity(record, folder), _serving(record, folder), _second_build(record, folder))
    return [_audit(record), _install_check(record), *later]


def _audit(record: BuildRecord) -> Verdict:
    checked = len(record.wheel.instructions)
    how = f"instructions of {checked} binaries checked" if checked else "instructions not checked"
    return Verdict("Audit", "passed", f"{record.wheel.policy}; {how}", tuple(untried_lines(record.wheel.untried)))


def _install_check(record: BuildRecord) -> Verdict:
    if record.install_check != "passed":
        return Verdict("Install check", "open", "not run: nothing on the building machine runs this wheel")
    details = tuple(
        f"{cpu.cpu}: {', '.join(cpu.libraries)}{f'; the chooser loads {cpu.chosen}' if cpu.chosen else ''}"
        for cpu in record.tried
    )
    return Verdict("Install check", "passed", "installed, and each library loaded", details)


def _results(model: type[Results], file: Path, record: BuildRecord, command: str) -> Results | str:
    """Return a test's results on the record's wheel, or why there are none and what gets them."""
    next_step = command_line(command, record.target)
    try:
        found = model.model_validate_json(file.read_bytes())
    except FileNotFoundError:
        return f"not run: {next_step}"
    except ValidationError:
        return f"{file.name} is of another version of cpuwheels: {next_step}"
    if found.sha256 != record.wheel.sha256:
        return f"not run on this wheel, only on an earlier one: {next_step}"
    return found


def _parity(record: BuildRecord, folder: Path) -> Verdict:
    name, parity = "Parity", _results(Parity, folder / JSON, record, "parity")
    if isinstance(parity, str):
        return Verdict(name, "open", parity)
    parts = [parity.tried]
    wrong = sorted({row.operator for row in parity.wrong})
    parts += [f"{counted(len(wrong), 'operator')} wrong"] * bool(wrong)
    details = (*(f"wrong: {operator}" for operator in wrong), *parity.gaps)
    page = HTML if (folder / HTML).is_file() else JSON
    return Verdict(name, parity.judgement, "; ".join(parts), details, page)


def _serving(record: BuildRecord, folder: Path) -> Verdict:
    name, served = "Serving", _results(Served, folder / SERVE, record, "serve")
    if isinstance(served, str):
        return Verdict(name, "open", served)
    right = sum(case.verdict == "right" for case in served.cases)
    details = tuple(f"{case.name}: {problem}" for case in served.cases for problem in case.problems)
    text = f"{right} of {len(served.cases)} starts as they should be"
    return Verdict(name, "passed" if served.right else "failed", text, details, SERVE)


def _second_build(record: BuildRecord, folder: Path) -> Verdict:
    name, found = "Second build", _results(Verified, folder / VERIFY, record, "verify")
    if isinstance(found, str):
        return Verdict(name, "open", found)
    details = [f"{axis}: {what}" for axis, what in found.varied.items()]
    details += [f"not varied: {axis}: {why}" for axis, why in found.not_varied.items()]
    if found.reproduced:
        return Verdict(name, "passed", f"the same bytes; varied: {', '.join(found.varied)}", tuple(details), VERIFY)
    return Verdict(name, "failed", found.as_sentence(), (*map(str, found.differences), *details), VERIFY)
