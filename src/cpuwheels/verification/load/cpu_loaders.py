"""The install check on several CPUs: each library is loaded on the CPU that it is tested on."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Self

from cpuwheels.sandbox.confine import unconfined
from cpuwheels.verification.load.loader import Loader

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from cpuwheels.core.process import Completed
    from cpuwheels.sandbox.confine import Confine
    from cpuwheels.verification.emulation.cpus import Cpu
    from cpuwheels.verification.load.loader import Loaded, Module


class CpuLoaders:
    """A `Loader` for each CPU, used like one; a context that ends with all of them finished.

    Args:
        cpus: The CPUs, with interpreters that share what is installed. Modules that are no library are loaded on the
            first.
        work: For the answers.
        log: Log file of the processes; every CPU has its own next to it.
        confine: Confines the commands of the interpreters; they run as they are if not given.
    """

    def __init__(self, cpus: Sequence[Cpu], work: Path, log: Path, confine: Confine = unconfined) -> None:
        self._cpus = cpus
        self._loaders = [
            Loader(
                _maker(cpu),
                work / str(place),
                log.with_stem(f"{log.stem}-{place}") if place else log,
                cpu.environment,
                confine,
            )
            for place, cpu in enumerate(cpus)
        ]
        self._running = ExitStack()

    def __enter__(self) -> Self:
        for loader in self._loaders:
            self._running.enter_context(loader)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        self._running.__exit__(kind, error, trace)  # type: ignore[arg-type]

    def python(self) -> Path:
        """Return the first interpreter."""
        return self._loaders[0].python()

    def ask(self, arguments: Sequence[str | Path]) -> Completed:
        """Return what the first interpreter answers."""
        return self._loaders[0].ask(arguments)

    def load(self, modules: Sequence[Module]) -> dict[Path, Loaded]:
        """Load each module on its CPU, in a process of its own; called once.

        Raises:
            InstallCheckError: A process that forks for them failed, which is not their fault.
        """
        found: dict[Path, Loaded] = {}
        for place, loader in enumerate(self._loaders):
            if own := [module for module in modules if self._place(module) == place]:
                found |= loader.load(own)
        return found

    def _place(self, module: Module) -> int:
        name = module.path.name.partition(".")[0]
        return next((place for place, cpu in enumerate(self._cpus) if name in (cpu.libraries or ())), 0)


def _maker(cpu: Cpu) -> Callable[[], Path]:
    return lambda: Path(cpu.python[0])
