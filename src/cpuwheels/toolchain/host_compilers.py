"""The compilers of this machine: which there are, and whether each meets a target's requirements."""

from __future__ import annotations

import os
import shlex
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cpuwheels.config.host import gnu_triple, is_foreign
from cpuwheels.core.environ import closed_environment
from cpuwheels.toolchain.probe import Compiler, RefusedError, probe

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from cpuwheels.config.matrix import Target
    from cpuwheels.config.options import ToolchainChoice

_PAIRS = (("clang++", "clang"), ("g++", "gcc"), ("c++", "cc"))
"""Names of C++ compilers and of the C compilers that come with them."""


@dataclass(frozen=True)
class Verdict:
    """Whether one host compiler meets a target's requirements.

    Attributes:
        command: The compiler as it was found, such as ``g++`` or ``CXX=/opt/bin/g++-13``.
        text: What it is, and why it is refused if it is.
        compiler: The compiler if it is accepted.
    """

    command: str
    text: str
    compiler: Compiler | None = None

    def __str__(self) -> str:
        """Return command and text on one line."""
        return f"{self.command}: {self.text}"


def verdicts(target: Target, environ: Mapping[str, str]) -> Iterator[Verdict]:
    """Check this machine's compilers in order of preference, one at a time.

    First ``CXX``, then the partner of ``CC``, then those of `host_commands` that are on PATH. A program that
    was already checked under another name is not checked again.
    """
    seen: set[tuple[Path, str]] = set()
    for command, program, cc in _candidates(target, environ):
        path = shutil.which(program, path=closed_environment()["PATH"])
        if path is None:
            if "=" in command:
                yield Verdict(command, "there is no such program")
            continue
        cxx = Path(path).absolute()
        try:
            compiler = probe(cc or partner(cxx), cxx, target)
        except RefusedError as error:
            verdict = Verdict(command, str(error))
        else:
            verdict = Verdict(command, f"{compiler.identity} ({compiler.title})", compiler)
        # The same program may give other answers under other names: compiler caches are links to one file.
        if (mark := (cxx.resolve(), verdict.text)) not in seen:
            seen.add(mark)
            yield verdict


def _candidates(target: Target, environ: Mapping[str, str]) -> Iterator[tuple[str, str, Path | None]]:
    cc = _program(environ.get("CC", ""))
    cc_path = shutil.which(cc, path=closed_environment()["PATH"]) if cc else None
    if cxx := _program(environ.get("CXX", "")):
        yield f"CXX={cxx}", cxx, Path(cc_path).absolute() if cc_path else None
    elif cc:
        yield (f"CC={cc}", partner(Path(cc), cxx=True).as_posix(), Path(cc_path).absolute() if cc_path else None)
    for command in host_commands(target):
        yield command, command, None


def host_commands(target: Target) -> tuple[str, ...]:
    """Return the C++ compilers that are looked for on PATH, in order of preference.

    On another kind of machine those are cross compilers: their names begin with the target's triplet, and a command
    without one is this machine's own compiler.
    """
    commands = target.compiler.commands
    return tuple(f"{gnu_triple(target)}-{command}" for command in commands) if is_foreign(target) else commands


def _program(value: str) -> str:
    """Return the compiler that CC or CXX names; what precedes it, such as ``ccache``, is left out."""
    words = [word for word in shlex.split(value) if not word.startswith("-")]
    return words[-1] if words else ""


def partner(compiler: Path, *, cxx: bool = False) -> Path:
    """Return the C compiler that belongs to a C++ compiler, or with ``cxx`` the other way round.

    It has the same name except for ``g++``/``gcc`` and lies in the same folder.
    """
    for cxx_name, c_name in _PAIRS:
        old, new = (c_name, cxx_name) if cxx else (cxx_name, c_name)
        head, found, tail = compiler.name.rpartition(old)
        if found:
            return compiler.with_name(head + new + tail)
    return compiler


def helpers_choice(choice: ToolchainChoice) -> ToolchainChoice:
    """Return how the compiler of the helpers is chosen where the target is of another kind of machine.

    A compiler of this machine that the user names is a cross compiler; there need not be another good one next to it.
    """
    return "auto" if choice == "host" else choice


def survey_host(target: Target, environ: Mapping[str, str] | None = None) -> list[tuple[str, str, bool]]:
    """Return (command, verdict, whether accepted) for every compiler of this machine."""
    found = verdicts(target, os.environ if environ is None else environ)
    return [(verdict.command, verdict.text, verdict.compiler is not None) for verdict in found]
