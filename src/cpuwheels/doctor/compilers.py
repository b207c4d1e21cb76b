"""Which compiler a build would use, and why not another. Pure: a survey in, checks out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cpuwheels.doctor.check import Check

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cpuwheels.config.matrix import Target
    from cpuwheels.config.options import ToolchainChoice


def judge_compilers(
    target: Target, survey: Sequence[tuple[str, str, bool]], choice: ToolchainChoice, *, runs: bool = True
) -> list[Check]:
    """Check this machine's compilers.

    Args:
        target: Whose requirements count.
        survey: (command, verdict, whether accepted), in order of preference.
        choice: What ``--toolchain`` says.
        runs: Whether this machine can run the pinned compiler, if there is one.
    """
    rows = [
        Check(f"compiler {command}", "ok" if accepted else "info", verdict) for command, verdict, accepted in survey
    ]
    return [*rows, _used(target, survey, choice, runs=runs)]


def uses_pinned(
    target: Target, survey: Sequence[tuple[str, str, bool]], choice: ToolchainChoice, *, runs: bool = True
) -> bool:
    """Return whether a build would unpack the target's pinned compiler; see `judge_compilers`."""
    host = choice != "debian" and any(accepted for _, _, accepted in survey)
    return not host and choice != "host" and target.toolchain is not None and runs


def _used(target: Target, survey: Sequence[tuple[str, str, bool]], choice: ToolchainChoice, *, runs: bool) -> Check:
    name = "toolchain"
    gate = f"{target.compiler.family} {target.compiler.minimum} or newer"
    if uses_pinned(target, survey, choice, runs=runs):
        reason = "asked for" if choice == "debian" else f"no compiler of this machine meets the requirements ({gate})"
        return Check(name, "ok", f"the pinned one, locks/{target.toolchain}.yaml: {reason}")
    accepted = next((command for command, _, good in survey if good), None)
    if accepted is not None and choice != "debian":
        return Check(name, "ok", f"{accepted} of this machine")
    if choice == "debian":
        fault = "the pinned compiler does not run on this machine" if target.toolchain else "has no pinned compiler"
        return Check(name, "fail", f"{target.id}: {fault}", "leave --toolchain debian out")
    pinned = ""
    if target.toolchain is not None:
        pinned = ", or leave --toolchain host out" if runs else "; the pinned one does not run on this machine"
    return Check(
        name,
        "fail",
        f"no compiler of this machine meets the requirements of {target.id} ({gate})",
        f"install one and name it in CXX{pinned}",
    )
