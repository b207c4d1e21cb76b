"""A command made into one that runs confined: what `cpuwheels.sandbox.resources.enter` is told to do."""

from __future__ import annotations

import base64
import json
import os
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from cpuwheels.core.digests import text_digest
from cpuwheels.core.environ import LIBRARY, NETWORK_KEPT
from cpuwheels.core.filesystem import storage_errors, write_atomic
from cpuwheels.sandbox.landlock import landlock_rules
from cpuwheels.sandbox.seccomp import syscall_filter
from cpuwheels.sandbox.view import SYSTEM, Places, places

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from cpuwheels.core.process import Completed
    from cpuwheels.sandbox.mechanism import Mechanism
    from cpuwheels.sandbox.steps import Step

HOME = "/tmp/home"  # noqa: S108  (in a file system of the step's own)
"""The home folder of a step with bubblewrap: an empty one."""

TEMPORARY = "tmp"
"""Folder in a step's own for temporary files; in memory they would count against the memory cap."""

_ENTER = Path(__file__).parent / "resources" / "enter.py"
_GUARD = _ENTER.with_name("guard.py")
_SMALL = str(64 << 20)
_USER = "build"
_SIGNALLED = 128
_DROPPED = {*NETWORK_KEPT, "XDG_CACHE_HOME", "XDG_RUNTIME_DIR"}


@dataclass(frozen=True)
class Confined:
    """A command that runs confined.

    Attributes:
        argv: The command.
        env: The whole environment.
        by_bubblewrap: Whether bubblewrap stands between; it ends with 128 and the signal that ended the command.
    """

    argv: list[str | Path]
    env: dict[str, str]
    by_bubblewrap: bool = False

    def ended(self, done: Completed) -> Completed:
        """Return how the command itself ended: a signal as a negative status."""
        return replace(done, returncode=self.status(done.returncode))

    def status(self, status: int) -> int:
        """Return the command's own exit status, negative for a signal, from that of what stands between."""
        return _SIGNALLED - status if self.by_bubblewrap and status > _SIGNALLED else status


Confine: TypeAlias = "Callable[[Sequence[str | Path], Mapping[str, str]], Confined]"
"""Makes a command and its environment into one that is confined."""


def unconfined(argv: Sequence[str | Path], env: Mapping[str, str]) -> Confined:
    """Return a command as it is: what it loads is trusted, or the user wants it so."""
    return Confined(list(argv), dict(env))


@dataclass(frozen=True)
class Sandbox:
    """Confines steps.

    Attributes:
        mechanism: By which mechanism.
    """

    mechanism: Mechanism

    def confine(self, step: Step, argv: Sequence[str | Path], env: Mapping[str, str], plans: Path) -> Confined:
        """Return a command that runs as a step.

        Args:
            step: The step; its folders are there.
            argv: The command.
            env: The variables that it needs: a closed environment, and what the step adds on purpose.
            plans: Folder for the sandbox's description; the step does not see it.

        Raises:
            StoreError: A folder cannot be written.
        """
        with storage_errors(step.view.work):
            for folder in filter(None, (step.view.work / TEMPORARY, step.home)):
                folder.mkdir(exist_ok=True)
        text = json.dumps(self.plan(step), indent=1) + "\n"
        path = plans / "sandbox" / f"{text_digest(text)[:16]}.json"
        with storage_errors(plans):
            write_atomic(path, text)
        command = [sys.executable, "-I", "-S", _ENTER, path, "--", *argv]
        return Confined(command, self.environment(step, env), by_bubblewrap=self.mechanism.program is not None)

    def environment(self, step: Step, env: Mapping[str, str]) -> dict[str, str]:
        """Return the environment of a step: without the user's folders and without addresses of the network."""
        temporary = str(step.view.work / TEMPORARY)
        home = str(step.home) if step.home else HOME if self.mechanism.program else temporary
        own = {"HOME": home, "TMPDIR": temporary}
        kept = {name: value for name, value in env.items() if name not in _DROPPED}
        return kept | own | {"USER": _USER, "LOGNAME": _USER}

    def plan(self, step: Step) -> dict[str, Any]:
        """Return what the launcher does for a step."""
        limits = [[number, *pair] for number, pair in step.limits.lowered().items()]
        plan: dict[str, Any] = {
            "step": step.name,
            "folder": str(step.folder),
            "limits": limits,
            "bubblewrap": str(self.mechanism.program) if self.mechanism.program else None,
            "landlock": None,
            "filter": "",
        }
        if self.mechanism.kind == "none":
            return plan
        found = places(step.view, (*SYSTEM, *_loaded()))
        if self.mechanism.filtered:
            code = syscall_filter(sockets=self.mechanism.program is not None)
            plan["filter"] = base64.b64encode(code).decode()
        if self.mechanism.kind == "landlock":
            plan["landlock"] = landlock_rules(found, self.mechanism.landlock)
            plan["guard"] = str(_GUARD)
            return plan
        plan["network"] = str(step.network) if step.network else None
        plan["namespaces"] = namespaces(user=self.mechanism.kind == "user namespace", network=step.network is None)
        plan["files"] = _accounts()
        plan["mounts"] = mounts(found, step.shared_memory)
        return plan


def namespaces(*, user: bool, network: bool = True) -> list[str]:
    """Return bubblewrap's options for namespaces and privileges (bwrap(1)).

    Args:
        user: Whether there is a user namespace. Where a network is joined, this is one within that of the network, in
            which the user may have another number.
        network: Whether there is a network namespace of its own.
    """
    options = ["--unshare-ipc", "--unshare-pid", "--unshare-uts", "--unshare-cgroup-try"]
    options += ["--unshare-net"] if network else []
    first = ["--unshare-user", "--uid", str(os.getuid()), "--gid", str(os.getgid())] if user else []
    # The command has a session of its own already (core.process), and with another one it would get no signal.
    return [*first, *options, "--hostname", _USER, "--die-with-parent", "--cap-drop", "ALL"]


def mounts(found: Places, shared_memory: int | None) -> list[str]:
    """Return bubblewrap's options for what is visible; a folder comes before what is in it.

    Args:
        found: What is visible.
        shared_memory: Bytes of shared memory; None for half of the machine's memory.
    """
    options = ["--size", _SMALL, "--tmpfs", "/tmp", "--dir", HOME]  # noqa: S108  (its own)
    options += ["--proc", "/proc", "--dev", "/dev"]
    size = [] if shared_memory is None else ["--size", str(shared_memory)]
    options += [*size, "--tmpfs", "/dev/shm"]  # noqa: S108
    for path, what in found.ordered():
        if isinstance(what, str):
            options += ["--symlink", what, path]
        else:
            options += ["--bind" if what else "--ro-bind", path, path]
    return [*options, "--remount-ro", "/dev", "--remount-ro", "/"]


def _loaded() -> tuple[Path, ...]:
    """Return the library that every command of a second build loads."""
    return (Path(library),) if (library := os.environ.get(LIBRARY)) else ()


def _accounts() -> dict[str, str]:
    """Return what stands in for the lists of users, groups and hosts."""
    user, group = os.getuid(), os.getgid()
    return {
        "/etc/passwd": f"{_USER}:x:{user}:{group}::{HOME}:/bin/sh\n",
        "/etc/group": f"{_USER}:x:{group}:\n",
        "/etc/hosts": f"127.0.0.1 localhost {_USER}\n::1 localhost\n",
    }
