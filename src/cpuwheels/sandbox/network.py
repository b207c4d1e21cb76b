"""A network of their own for several steps: a namespace with a loopback device and nothing else."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from cpuwheels.core.conversation import Conversation
from cpuwheels.core.environ import closed_environment
from cpuwheels.core.errors import SandboxError
from cpuwheels.sandbox.steps import Step
from cpuwheels.sandbox.view import View

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cpuwheels.sandbox.confine import Sandbox

_SECONDS = 60.0
_HELLO = "there"


@contextmanager
def shared_network(sandbox: Sandbox, work: Path, plans: Path) -> Iterator[Path]:
    """Hold a network namespace while the block runs; steps join it by what is yielded.

    An idle process, confined like any other, holds it, so that no step has to outlive another.

    Args:
        sandbox: One with bubblewrap.
        work: Folder of that process.
        plans: Folder for the sandbox's description.

    Raises:
        SandboxError: It cannot be made.
    """
    confined = sandbox.confine(Step("the network", View(work), work), ["cat"], closed_environment(), plans)
    log = plans / "network.log"
    with log.open("ab") as stream:
        holder = Conversation(confined.argv, env=confined.env, stderr=stream.fileno())
    try:
        holder.ask(_HELLO)
        try:
            there = holder.answer(_SECONDS) == _HELLO
        except TimeoutError:
            there = False
        # bubblewrap itself stays outside.
        inside = psutil.Process(holder.child.pid).children() if there else []
        if not inside:
            raise SandboxError(
                "a network for a server and those that ask it cannot be made",
                where=log,
                output=log.read_text(encoding="utf-8", errors="replace")[-2000:],
                next_step="read the log",
            )
        yield Path(f"/proc/{inside[0].pid}/ns/net")
    finally:
        holder.close()
