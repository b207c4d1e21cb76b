"""Running the cases on one library, in a process of its own, and again after a case that killed it."""

from __future__ import annotations

import os
import resource
import signal
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from cpuwheels.core.environ import closed_environment
from cpuwheels.core.errors import ParityError, UnusableWheelError
from cpuwheels.core.process import how_ended, run
from cpuwheels.sandbox.confine import unconfined
from cpuwheels.verification.parity.events import EventLog, library_result, unfinished
from cpuwheels.verification.parity.findings import read_reports
from cpuwheels.verification.parity.results import WRONG
from cpuwheels.verification.parity.sanitizer_run import unread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from cpuwheels.sandbox.confine import Confine
    from cpuwheels.verification.parity.results import LibraryResult
    from cpuwheels.verification.parity.sanitizer_run import SanitizerRun

MOST_CRASHES = 20
"""After so many crashes the rest of a library is not tested."""

_ENVIRONMENT = {
    # Lets malloc ask Linux for huge pages: ranks are forks, and a fork takes longer the more pages there are.
    "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
    # GNU's OpenMP threads sleep at once when they wait: other libraries are tested at the same time.
    "GOMP_SPINCOUNT": "0",
}
_TESTS_FAILED = 1  # pytest.ExitCode
_UNLOADABLE = 65  # tests/parity/conftest.py


@dataclass(frozen=True)
class Part:
    """One of several parts of a library's cases, each of which has a process of its own.

    Attributes:
        number: Counted from 1.
        of: How many there are.
    """

    number: int
    of: int


WHOLE = Part(1, 1)


@dataclass(frozen=True)
class Suite:
    """The cases, and where their processes run.

    Attributes:
        python: Interpreter of the environment with the wheel, torch, numpy and pytest; preceded by an emulator or the
            like.
        tests: Folder of the cases.
        work: Folder for results and outputs, shared by all libraries of a run.
        logs: Folder for the logs.
        level: ``smoke``, ``full`` or ``deep``.
        threads: Threads of the operators.
        only: Operators to test; all if empty.
        env: Variables that the CPU needs.
        confine: Confines the processes.
        version: vLLM's, on which known faults depend; empty if it is not known.
        fixed_faults: Known faults of upstream's kernels that the libraries do not have: their cases have to be right.
        onednn: Release of the oneDNN in them, on which known faults depend, too; empty if it is not known.
        sanitizers: Those that the libraries were compiled for, if they were.
        once: Whether no case is run again, to compare the bits.
    """

    python: Sequence[str | Path]
    tests: Path
    work: Path
    logs: Path
    level: str
    threads: int
    only: Sequence[str] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    confine: Confine = unconfined
    version: str = ""
    fixed_faults: Sequence[str] = ()
    onednn: str = ""
    sanitizers: SanitizerRun | None = None
    once: bool = False

    def run(self, name: str, library: Path, on_case: Callable[[int, str], None], part: Part = WHOLE) -> LibraryResult:
        """Run the cases of a library, or a part of them.

        A case that kills its process is recorded as crashed, and the rest is run in another process.

        Args:
            name: Of the library, in the results.
            library: Its file.
            on_case: Called with the number of cases begun and the name of the last.
            part: Which of its cases.

        Raises:
            ParityError: The cases cannot be run at all.
            UnusableWheelError: The library cannot be loaded.
        """
        own = name if part == WHOLE else f"{name}-{part.number}"
        results, log = self.work / f"{own}.jsonl", self.logs / f"parity-{own}.log"
        written = EventLog(results)
        began, killed = time.monotonic(), None

        def tell(_: str) -> None:
            written.read()
            if written.begun:
                on_case(len(written.begun), written.begun[-1])

        reports = self.work / f"{own}-reports.txt"
        for _ in range(MOST_CRASHES):
            env = closed_environment({**_ENVIRONMENT, **self.env})
            command = self._command(library, results, killed, part)
            if self.sanitizers:
                env |= self.sanitizers.environment
                # Standard error is that of the file, and no other of each case's.
                command += ["--reports", reports, "--capture=sys"]
            confined = self.confine(command, env)
            with no_core_files():
                done = confined.ended(run(confined.argv, log=log, env=confined.env, check=False, on_line=tell))
            if done.returncode == _UNLOADABLE:
                raise UnusableWheelError(
                    f"{library.name} cannot be loaded with the torch that the wheel requires",
                    where=library,
                    log=log,
                    output=done.output,
                    next_step="a missing symbol means that it was built with another torch, or lacks a library",
                )
            written.read()
            if (killed := unfinished(written.events)) is None:
                if done.returncode not in {0, _TESTS_FAILED} or not any(
                    event["event"] == "library" for event in written.events
                ):
                    raise ParityError(
                        f"the cases could not be run on {name}: {_cause(done.returncode)}",
                        where=library,
                        log=log,
                        output=done.output,
                        next_step="read the log",
                    )
                said = unread(reports, written.events[-1].get("reported", 0))
                if read_reports(said):
                    raise ParityError(
                        f"sanitizers reported something on {name} after its last case",
                        where=library,
                        log=log,
                        output=said,
                        next_step="read the report: it is about how the library ends, or about threads that go on",
                    )
                break
            said = unread(reports, killed.get("reported", 0))
            written.append({**killed, "event": "crashed", "problems": [_cause(done.returncode)], "reports": said})
        written.read()
        result = library_result(name, written.events, time.monotonic() - began)
        if done.returncode and not any(row.verdict in WRONG for row in result.rows()):
            raise ParityError(
                f"something failed on {name} that belongs to no case",
                where=library,
                log=log,
                output=done.output,
                next_step="read the log",
            )
        return result

    def _command(self, library: Path, results: Path, killed: dict[str, Any] | None, part: Part) -> list[str | Path]:
        command: list[str | Path] = [
            *self.python,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "-p",
            "no:logging",
            "--assert=plain",
            "-c",
            os.devnull,
            "--confcutdir",
            self.tests,
            self.tests,
            "--tb=short",
            "--library",
            library,
            "--level",
            self.level,
            "--threads",
            str(self.threads),
            "--results",
            results,
            "--outputs",
            self.work / "outputs",
        ]
        for operator in self.only:
            command += ["--operator", operator]
        if self.version:
            command += ["--wheel-version", self.version]
        if self.onednn:
            command += ["--onednn", self.onednn]
        for fault in self.fixed_faults:
            command.append(f"--fixed={fault}")
        if self.once:
            command.append("--once")
        if part != WHOLE:
            command += ["--part", f"{part.number}/{part.of}"]
        if killed:
            command += ["--after-drawn" if killed.get("drawn") else "--after", killed["case"]]
        return command


@contextmanager
def no_core_files() -> Iterator[None]:
    """Let processes that crash leave no image of their memory; QEMU puts its own into the working folder.

    The limit is this process' own: where suites run side by side, this has to enclose all of them.
    """
    before = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_CORE, before)


def _cause(status: int) -> str:
    if status == -signal.SIGALRM:
        return "it did not end within the time that a case may take"
    return f"the process {how_ended(status)}"
