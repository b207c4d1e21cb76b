"""What can confine steps on a machine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from pathlib import Path

Kind = Literal["user namespace", "root", "landlock", "none"]

_TITLES: dict[Kind, str] = {
    "user namespace": "bubblewrap with a user namespace",
    "root": "bubblewrap as root, without a user namespace",
    "landlock": "Landlock and a filter of system calls",
    "none": "not sandboxed",
}
LESSER = (
    "a step can still change the permissions, owners, times and extended attributes of this user's other files, and "
    "see the command lines of other processes"
)
"""What Landlock does not keep a step from."""

SIGNALS = "it can also send signals to this user's other processes"
"""Likewise, in kernels before Linux 6.12."""

REMEDY = (
    "let users make namespaces (sysctl kernel.apparmor_restrict_unprivileged_userns=0, or a profile for bubblewrap), "
    "give a container CAP_SYS_ADMIN, or use Linux 6.2 or newer, whose Landlock needs no privilege; "
    "--allow-unsandboxed builds without"
)
"""What to do where there is none, or a lesser one."""


@dataclass(frozen=True)
class Mechanism:
    """A mechanism.

    Attributes:
        kind: Which.
        reason: Why there is no better one; empty for the best.
        program: bubblewrap, if it is that.
        landlock: Version of Landlock, if it is that.
        filtered: Whether there is a filter of system calls for this machine.
    """

    kind: Kind
    reason: str = ""
    program: Path | None = None
    landlock: int = 0
    filtered: bool = True

    @property
    def title(self) -> str:
        """Its name, for people."""
        return _TITLES[self.kind]

    def as_record(self) -> dict[str, str]:
        """Return it as the build record has it."""
        return {"mechanism": self.title, "reason": self.reason}
