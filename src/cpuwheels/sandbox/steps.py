"""Every step that runs upstream's code, and its sandbox: what it sees, what it may take."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cpuwheels.sandbox.limits import Limits
from cpuwheels.sandbox.view import View, interpreter_places

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


@dataclass(frozen=True)
class Step:
    """A step and its sandbox.

    Attributes:
        name: For people, as in "setup.py".
        view: What it sees.
        folder: Its working folder.
        limits: What each of its processes may take.
        home: Its home folder, if it is to be on disk; else it is an empty one in memory.
        shared_memory: Bytes of shared memory that it may take, with bubblewrap; None for half of the machine's.
        network: A network namespace of `cpuwheels.sandbox.network` that it joins, with bubblewrap; else its own.
    """

    name: str
    view: View
    folder: Path
    limits: Limits = field(default_factory=Limits)
    home: Path | None = None
    shared_memory: int | None = 64 << 20
    network: Path | None = None


def setup_py(python: Path, packages: Iterable[Path], probe: Path, work: Path) -> Step:
    """Asking a source's ``setup.py``, in its private copy.

    Args:
        python: Interpreter of the build environment.
        packages: The environment, and torch where it lies elsewhere.
        probe: The script that asks.
        work: With the copy in ``source`` and the folder for the answers.
    """
    readable = (*interpreter_places(python), *packages, probe)
    return Step("setup.py", View(work, readable), work / "source", Limits(cpu_seconds=3600))


def pep517_hook(python: Path, environment: Path, overlay: Path, out: Path) -> Step:
    """Packing by the overlay's PEP 517 hook.

    Args:
        python: Interpreter of the build environment.
        environment: The environment.
        overlay: The overlay project.
        out: For the wheel.
    """
    # The overlay's files are names of those in the store.
    readable = (*interpreter_places(python), environment, overlay / "package", overlay / "kernels")
    return Step("the PEP 517 hook", View(out, readable, (overlay,)), overlay, Limits(cpu_seconds=3600))


def load(python: Path, packages: Iterable[Path], probes: Path, work: Path) -> Step:
    """Loading the libraries of a wheel.

    Args:
        python: Interpreter of the environment that the wheel is installed in.
        packages: That environment, and those that it finds packages in.
        probes: The folder with the scripts that load them.
        work: For the answers.
    """
    readable = (*interpreter_places(python), *packages, probes)
    return Step("loading the libraries", View(work, readable), work, Limits(cpu_seconds=3600))


def parity(python: Path, packages: Iterable[Path], tests: Path, work: Path) -> Step:
    """The cases of parity, in a process that has loaded a library of the wheel.

    Args:
        python: Interpreter of the environment that the wheel is installed in.
        packages: That environment, what it finds packages in, and an emulator if there is one.
        tests: The cases.
        work: For results and outputs; the environment may lie in it, and is only read.
    """
    readable = (*interpreter_places(python), *packages, tests)
    # Operators that share memory between ranks are tried with gigabytes.
    return Step("the cases of parity", View(work, readable), work, shared_memory=None)


def timing(python: Path, packages: Iterable[Path], tests: Path, work: Path) -> Step:
    """Timing the operators of one side, in a process that has loaded a library of its wheel.

    Args:
        python: Interpreter of the environment that the wheel is installed in.
        packages: That environment, and what it finds packages in.
        tests: The cases, and the script that times them.
        work: For temporary files; the other side does not see it.
    """
    readable = (*interpreter_places(python), *packages, tests)
    return Step("timing the operators", View(work, readable), work, shared_memory=None)


def command(
    python: Path,
    readable: Iterable[Path],
    writable: Iterable[Path],
    folder: Path,
    work: Path,
    network: Path | None = None,
) -> Step:
    """A command or script of the user's, in an environment with a wheel that is tested.

    It may take as much shared memory and CPU time as there is: what it does is the user's choice.

    Args:
        python: Interpreter of the environment that the wheel is installed in.
        readable: That environment, what it finds packages in, and what the user names.
        writable: What the user names.
        folder: Where it runs; it may be read.
        work: For its home folder and temporary files.
        network: As the step has it.
    """
    view = View(work, (folder, *interpreter_places(python), *readable), tuple(writable))
    return Step("the command", view, folder, home=work / "home", shared_memory=None, network=network)


def serving(python: Path, readable: Iterable[Path], work: Path, temporary: Path, network: Path | None) -> Step:
    """A server with the wheel, or what makes its models and asks it.

    They reach each other, and nothing else, at the loopback address of a network that they share.

    Args:
        python: Interpreter of the environment that the wheel is installed in.
        readable: That environment, what it finds packages in, scripts, and models of the user's.
        work: For models, questions, answers and the home folder; the environment may lie in it, and is only read.
        temporary: For sockets, whose paths have to be short.
        network: As the step has it.
    """
    view = View(temporary, (*interpreter_places(python), *readable), (work,))
    return Step("serving", view, work, home=work / "home", shared_memory=None, network=network)


def compilation(name: str, folder: Path, readable: Iterable[Path], writable: Iterable[Path]) -> Step:
    """CMake's configuration of a project, or ninja with compilers and linkers.

    The number of open files and the CPU time stay as they are: ninja waits for hundreds of jobs, for hours.

    Args:
        name: Which of both.
        folder: All of the build lies below it.
        readable: Tools and inputs.
        writable: What several builds share: the gate of the memory cap, and the compiler cache.
    """
    return Step(name, View(folder, tuple(readable), tuple(writable)), folder)
