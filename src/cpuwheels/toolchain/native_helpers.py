"""The native helpers in ``csrc/``: compiled with an available toolchain, found, and run."""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ValidationError

from cpuwheels.core.capture import capture
from cpuwheels.core.digests import make_key, tree_digest
from cpuwheels.core.environ import closed_environment
from cpuwheels.core.errors import CommandError, ToolchainError
from cpuwheels.core.models import Strict
from cpuwheels.core.process import run
from cpuwheels.toolchain.amx import Amx  # noqa: TC001  (pydantic reads the annotation)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from cpuwheels.config.context import BuildContext
    from cpuwheels.core.store import Store

KIND = "native"
PROGRAMS = ("isaprobe", "memgate")
CPUINFO = Path("/proc/cpuinfo")
_FLAGS = ("-std=c17", "-O2", "-Wall", "-Wextra")


@dataclass(frozen=True)
class NativeTools:
    """The compiled helpers in the store.

    Attributes:
        isaprobe: Reports this machine's CPU features; see `probe`.
        memgate: Launcher that measures each compilation: ``memgate --ledger FILE -- COMMAND…``.
    """

    isaprobe: Path
    memgate: Path


class CpuFeatures(Strict):
    """What this machine's CPU and operating system let a program use."""

    architecture: str
    """What ``platform.machine()`` returns."""
    vendor: str
    model: str
    """For people; may be empty."""
    features: frozenset[str]
    """Names as in Linux's ``/proc/cpuinfo``; only those whose register state the system saves."""
    xcr0: str | None
    """x86's XCR0 in hexadecimal."""
    amx: Amx | None
    """None if the processor announces no AMX."""


def native_tools(context: BuildContext, cc: Path, flags: Sequence[str], digest: str) -> NativeTools:
    """Return the helpers, compiling them if the store does not have them.

    They are linked statically where that works: a launcher that starts 500 times should start fast, and it
    must also run where the toolchain's C library is newer than the machine's.

    Args:
        context: The run; its project has the sources, and its store keeps the programs.
        cc: C compiler whose programs run on this machine.
        flags: Options it needs, such as ``--sysroot`` and ``-B``.
        digest: Names the compiler's content.

    Raises:
        ToolchainError: They do not compile, or do not run on this machine.
    """
    root, log = context.root, context.logs / "native.log"
    key = make_key(sources=tree_digest(root / "csrc", list(PROGRAMS)), compiler=digest, flags=_FLAGS)

    def make(folder: Path) -> None:
        for program in PROGRAMS:
            _compile(root / "csrc" / program, [cc, *flags, *_FLAGS], folder / program, log)
        _check_runs(folder / "memgate", log)

    folder = context.store.get(KIND, key, make)
    return NativeTools(*(folder / program for program in PROGRAMS))


def _compile(source: Path, command: Sequence[str | Path], program: Path, log: Path) -> None:
    files = sorted(source.glob("*.c"))
    env = closed_environment()
    line = [*command, "-o", program, *files]
    if run([*line, "-static"], log=log, env=env, check=False).returncode == 0:
        return
    try:
        run(line, log=log, env=env)
    except CommandError as error:
        raise ToolchainError(
            f"{command[0]} cannot compile {source.name}",
            where=source,
            log=log,
            output=error.output,
            next_step="install the C library's headers for this compiler, or use another --toolchain",
        ) from error


def _check_runs(memgate: Path, log: Path) -> None:
    done = capture([memgate, "--ledger", os.devnull, "--", memgate, "--ledger", os.devnull, "--", "true"])
    if done.returncode != 0:
        raise ToolchainError(
            "programs of this C compiler do not run on this machine",
            where=memgate.name,
            log=log,
            output=done.output,
            next_step="use a compiler for this machine, also when the target is another one",
        )


def find_helper(name: str, store: Store | None = None) -> Path | None:
    """Return the helper that was installed with the package, else the latest that a build left in the store."""
    return next(_helpers(name, store), None)


def _helpers(name: str, store: Store | None) -> Iterator[Path]:
    candidates = [Path(__file__).parents[1] / "bin" / name]
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        # In an editable install the program lies with the metadata, away from the Python files.
        installed = importlib.metadata.distribution("cpuwheels").locate_file(f"cpuwheels/bin/{name}")
        candidates.append(Path(str(installed)))
    if store is not None:
        candidates += sorted(store.root.glob(f"{KIND}/*/{name}"), key=lambda path: -path.stat().st_mtime)
    return (path for path in candidates if os.access(path, os.X_OK))


def cpu_at_hand(store: Store) -> CpuFeatures | None:
    """Return what this machine's CPU has, if there is an isaprobe that can report it; nothing is compiled.

    One that an older cpuwheels left in the store, or in an editable install, may not report all that is needed now,
    and one that came with a copied package may be for another machine: these are skipped.
    """
    for isaprobe in _helpers("isaprobe", store):
        with contextlib.suppress(CommandError):
            return probe(isaprobe)
    return None


def features_here(store: Store, cpuinfo: Path = CPUINFO) -> frozenset[str]:
    """Return what this machine's CPU has, without compiling anything.

    Args:
        store: Where an earlier build may have left isaprobe.
        cpuinfo: Read where no isaprobe can report it.

    Raises:
        ToolchainError: There is no isaprobe, and this system has no such file.
    """
    if cpu := cpu_at_hand(store):
        return cpu.features
    try:
        lines = cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError as error:
        raise ToolchainError(
            "nothing on this machine reports what this CPU has",
            where="isaprobe",
            next_step="install a C compiler and then cpuwheels anew, which compiles isaprobe",
        ) from error
    # Linux names them "flags" on x86, "Features" on Arm and "features" on IBM Z.
    found = (line.partition(":") for line in lines)
    named = (value for name, _, value in found if name.strip().lower() in {"flags", "features"})
    return frozenset(next(named, "").split())


def probe(isaprobe: Path) -> CpuFeatures:
    """Return the CPU features of this machine.

    Raises:
        CommandError: The program does not run, or does not answer as it should.
    """
    done = capture([isaprobe], timeout=10)
    if done.returncode == 0:
        try:
            return CpuFeatures.model_validate_json(done.output)
        except ValidationError as error:
            raise CommandError(
                "isaprobe gave no usable answer",
                where=isaprobe,
                output=done.output,
                next_step="install cpuwheels anew: its isaprobe is of another version",
            ) from error
    raise CommandError(
        f"isaprobe failed with status {done.returncode}",
        where=isaprobe,
        output=done.output,
        next_step="install cpuwheels anew on this machine",
    )
