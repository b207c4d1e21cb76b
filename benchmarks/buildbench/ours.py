"""Our side: ``cpuwheels build`` as a user runs it, in stores of the benchmark's own."""

from __future__ import annotations

import os
import re
import shutil
import sys
import time
import zipfile
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ConfigDict

from buildbench.edit import edit_kernel, edit_python
from buildbench.measure import measure
from buildbench.unsteered import measured_run
from cpuwheels.core.filesystem import remove_tree, storage_errors, write_atomic
from cpuwheels.core.models import Strict
from cpuwheels.core.tree_faults import RESERVED
from cpuwheels.kernels.ccache.settings import REMOTE_VARIABLE
from cpuwheels.kernels.memory.ledger import JobRecord  # noqa: TC001  (pydantic reads the annotation)
from cpuwheels.pipeline.built_wheel import RECORD, read_built

if TYPE_CHECKING:
    from collections.abc import Callable

    from buildbench.measure import Usage
    from buildbench.results import Measured
    from buildbench.setting import Setting

KEPT = frozenset(
    {
        "abi-stubs",
        "ccache",
        "compat",
        "downloads",
        "environments",
        "git",
        "locks",
        "native",
        "onednn",
        "prepared",
        "sandbox",
        "sources",
        "sysroots",
        "toolchains",
    }
)
"""Stores that a cold build keeps: what was fetched, unpacked or installed. All others are emptied."""

_UNSANDBOXED = Path(__file__).with_name("unsandboxed.py")
_MODULE = re.compile(r"vllm/(\w+)\.abi3\.so|vllm\.libs/(?P<shared>libcpuwheels_\w+)-\w+\.so")


class _Jobs(Strict):
    model_config = ConfigDict(extra="ignore")

    compiled_in_this_run: bool


class _Memory(Strict):
    model_config = ConfigDict(extra="ignore")

    cap: int
    how: str
    peak: int


class _Sandbox(Strict):
    model_config = ConfigDict(extra="ignore")

    mechanism: str


class _Record(Strict):
    """The part of a build record that the benchmark reads."""

    model_config = ConfigDict(extra="ignore")

    jobs: _Jobs
    memory: _Memory
    sandbox: _Sandbox
    seconds: dict[str, float]
    files: list[JobRecord]


class Ours:
    """A user's stores, sources and output folder.

    Args:
        setting: What is built.
        kernel: C++ file that is changed.
        python: Python file that is changed.
        sandboxed: Whether upstream's code is confined, as a user has it.
    """

    def __init__(self, setting: Setting, kernel: str, python: str, *, sandboxed: bool = True) -> None:
        self.setting = setting
        self.tree = setting.work / "tree"
        self._kernel, self._python = kernel, python
        self._program: list[str | Path] = ["-m", "cpuwheels"] if sandboxed else [_UNSANDBOXED]
        self._mark = setting.paths.cache / "built-of.txt"

    def ready(self) -> bool:
        """Return whether the stores and the output folder hold a build without a cap; confined or not is the same."""
        return self._mark.is_file() and self._mark.read_text() == self.setting.fingerprint

    def cold(self, log: Path) -> Measured:
        """Build with stores that hold no results of builds.

        Raises:
            CommandError: The build failed.
        """
        self.forget()
        measured = self._build(log)
        write_atomic(self._mark, self.setting.fingerprint)
        return measured

    def capped(self, log: Path, cap: str | None) -> Measured:
        """Build cold below a memory cap, or without one.

        Raises:
            CommandError: The build failed.
        """
        self.forget()
        return self._build(log, *([] if cap is None else ["--memory", cap]))

    def edited(self, log: Path) -> Measured:
        """Build after a change to one C++ file.

        Raises:
            CommandError: The build failed.
        """
        return self._again(log, lambda: edit_kernel(self.tree, self._kernel))

    def python_changed(self, log: Path) -> Measured:
        """Build after a change to one Python file.

        Raises:
            CommandError: The build failed.
        """
        return self._again(log, lambda: edit_python(self.tree, self._python))

    def unchanged(self, log: Path) -> Measured:
        """Repeat the last build.

        Raises:
            CommandError: The build failed.
        """
        return self._again(log, lambda: None)

    def _again(self, log: Path, change: Callable[[], None]) -> Measured:
        self._build(log)  # from an interrupted run, which may have left it incomplete
        change()
        return self._build(log)

    def parity(self, log: Path, level: str, *, emulated: bool) -> Measured:
        """Test the kernels of the last build, with everything installed that this needs.

        Raises:
            CommandError: An operator failed.
        """
        options = [] if emulated else ["--no-emulation"]
        self._run(log, "parity", "--level", "smoke", *options)  # makes the environments
        began = datetime.now(UTC)
        usage = self._run(log, "parity", "--level", level, *options)
        return measured_run(began, usage, (), kernels=None, stages={})

    def wheel(self) -> Path:
        """Return the wheel of the last build.

        Raises:
            WheelError: There is none.
        """
        return read_built(self._output()).path

    def sizes(self) -> tuple[dict[str, int], int]:
        """Return the bytes of each module in the wheel, unpacked, and of the wheel.

        A library that the build made for several modules counts as one; what was copied from elsewhere does not.

        Raises:
            WheelError: There is none.
        """
        wheel = read_built(self._output())
        with zipfile.ZipFile(wheel.path) as archive:
            names = {member: _MODULE.fullmatch(member.filename) for member in archive.infolist()}
        sizes = {found[1] or found["shared"]: member.file_size for member, found in names.items() if found}
        return sizes, wheel.size

    def forget(self) -> None:
        """Empty every store of what was built, and lay out upstream's sources afresh."""
        with storage_errors(self.setting.work):
            for path in self.setting.paths.cache.iterdir():
                if path.name not in KEPT:
                    remove_tree(path)
            remove_tree(self._output())
            remove_tree(self.tree)
            ignore = shutil.ignore_patterns(f"{RESERVED}*")
            shutil.copytree(self.setting.source, self.tree, symlinks=True, ignore=ignore)
            if not (self.tree / "PKG-INFO").is_file():  # a checkout: what is built is as if it were its sdist
                text = f"Metadata-Version: 2.4\nName: vllm\nVersion: {self.setting.subject.version}\n"
                (self.tree / "PKG-INFO").write_text(text)

    def _output(self) -> Path:
        return self.setting.paths.output(self.setting.request.target.id, self.setting.subject.version)

    def _build(self, log: Path, *arguments: str) -> Measured:
        began, now = datetime.now(UTC), time.time()
        usage = self._run(log, "build", "--source", self.tree, *arguments)
        record = read_record(self._output() / RECORD, now)
        if record is None:
            return measured_run(began, usage, (), kernels=None, stages={})
        compiled = record.jobs.compiled_in_this_run
        measured = measured_run(
            began, usage, record.files if compiled else (), kernels=record.seconds.get("kernels"), stages=record.seconds
        )
        measured = measured.model_copy(update={"sandbox": record.sandbox.mechanism})
        if not compiled:
            return measured
        memory = record.memory
        update = {"gate_peak": memory.peak, "cap": memory.cap, "held": memory.how}
        return measured.model_copy(update=update)

    def _run(self, log: Path, name: str, *arguments: str | Path) -> Usage:
        """Run a command of the project for the target."""
        where, target = self.setting.paths.as_arguments(), self.setting.request.target.id
        command: list[str | Path] = [sys.executable, *self._program, *where, name, target, *arguments]
        # A shared compiler cache would already hold what is measured.
        env = {name: value for name, value in os.environ.items() if name != REMOTE_VARIABLE}
        return measure(command, log=log, env=env)


def read_record(path: Path, since: float) -> _Record | None:
    """Return a build record, or None if it is older than a moment: a complete wheel is not made again."""
    if not path.is_file() or path.stat().st_mtime < since:
        return None
    return _Record.model_validate_json(path.read_bytes())
