"""The report of the doctor of a server: everything that was found, decided and advised, as one model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cpuwheels.core.models import Strict
from cpuwheels.doctor.runtime.choice import Choice, choose
from cpuwheels.doctor.runtime.findings import EXIT_CODES, Finding, Verdict, verdict_of
from cpuwheels.doctor.runtime.machine import Machine  # noqa: TC001
from cpuwheels.doctor.runtime.machine_checks import machine_findings
from cpuwheels.doctor.runtime.model import Model  # noqa: TC001
from cpuwheels.doctor.runtime.model_checks import model_findings
from cpuwheels.doctor.runtime.package import Package  # noqa: TC001
from cpuwheels.doctor.runtime.package_checks import kernel_findings, package_findings
from cpuwheels.doctor.runtime.settings import Setting, Settings, Wish, plan

if TYPE_CHECKING:
    from collections.abc import Sequence

NO_MODEL = "MODEL"
"""Stands for the model in the command, if none is named."""

FORMAT = 1


class Report(Strict):
    """What ``cpuwheels doctor --runtime --json`` prints."""

    format: int = FORMAT
    """Raised when a key changes its meaning."""
    verdict: Verdict
    """``well``; ``works``, but there is advice; or ``fails``."""
    machine: Machine
    package: Package
    choice: Choice
    model: Model | None
    settings: Settings
    findings: tuple[Finding, ...]
    paste: str
    """Lines for a shell: variables, and the command."""

    @property
    def exit_code(self) -> int:
        """The exit code of the command."""
        return EXIT_CODES[self.verdict]

    @property
    def reasons(self) -> Sequence[Setting]:
        """All settings."""
        return (*self.settings.variables, *self.settings.options)


def make_report(machine: Machine, package: Package, model: Model | None, wish: Wish, place: str = NO_MODEL) -> Report:
    """Return the report for a machine, a vLLM and a model.

    Args:
        machine: Live or recorded.
        package: A wheel, or an installed vLLM.
        model: The model; without one there is no plan of the memory.
        wish: What the user wants.
        place: The model as ``vllm serve`` is given it.
    """
    choice = choose(machine, package)
    settings = plan(machine, package, choice, model, wish, place)
    findings = [
        *machine_findings(machine, settings.workers),
        *package_findings(machine, package),
        *kernel_findings(machine, package, choice),
    ]
    if model is not None:
        findings += model_findings(machine, package, choice, model, settings, wish)
    return Report(
        verdict=verdict_of(findings),
        machine=machine,
        package=package,
        choice=choice,
        model=model,
        settings=settings,
        findings=tuple(findings),
        paste=settings.block,
    )
