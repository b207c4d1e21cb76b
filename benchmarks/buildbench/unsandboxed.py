"""``cpuwheels`` as it is, but that nothing confines upstream's code: what the sandbox costs is measured against it.

python unsandboxed.py ARGUMENTS OF CPUWHEELS
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cpuwheels.cli.main import main
from cpuwheels.sandbox import prepare
from cpuwheels.sandbox.confine import Confined, Sandbox, unconfined
from cpuwheels.sandbox.mechanism import Mechanism

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from cpuwheels.config.context import BuildContext
    from cpuwheels.sandbox.steps import Step


class Open(Sandbox):
    """Runs the commands of steps as they are."""

    def confine(self, step: Step, argv: Sequence[str | Path], env: Mapping[str, str], plans: Path) -> Confined:
        """Return the command itself, in the step's folder."""
        del plans
        return unconfined(["env", f"--chdir={step.folder}", *argv], env)


def open_sandbox(context: BuildContext) -> Sandbox:
    """Return what stands in for a sandbox, without looking for one."""
    del context
    return Open(Mechanism("none", "measured without"))


if __name__ == "__main__":
    prepare.get_sandbox = open_sandbox  # before any command imports it
    main()
