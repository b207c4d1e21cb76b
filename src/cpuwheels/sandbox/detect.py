"""Which mechanism confines steps on this machine, found out by trying them, the best one first."""

from __future__ import annotations

import functools
import os
import sys
import tempfile
from pathlib import Path

from cpuwheels.core.capture import capture
from cpuwheels.core.environ import closed_environment
from cpuwheels.sandbox.confine import Sandbox
from cpuwheels.sandbox.landlock import LEAST, WITH_SCOPES, landlock_version
from cpuwheels.sandbox.mechanism import LESSER, SIGNALS, Kind, Mechanism
from cpuwheels.sandbox.seccomp import is_known
from cpuwheels.sandbox.steps import Step
from cpuwheels.sandbox.view import View

_SECONDS = 20
_HELLO = "inside"


@functools.cache
def best_mechanism(programs: tuple[Path, ...], missing: str = "") -> Mechanism:
    """Return the best mechanism that works.

    Args:
        programs: bubblewrap, in the order in which it is tried.
        missing: Why there is no other bubblewrap.
    """
    if sys.platform != "linux":
        return Mechanism("none", f"sandboxes are Linux's; this is {sys.platform}")
    faults = [missing] if missing else []
    kinds: tuple[Kind, ...] = ("user namespace", "root") if os.geteuid() == 0 else ("user namespace",)
    for kind in kinds:
        for program in programs:
            mechanism = Mechanism(kind, "; ".join(faults), program, filtered=is_known())
            if not (fault := try_out(mechanism)):
                return mechanism
            faults.append(f"{mechanism.title} does not work here: {fault}")
    mechanism = _landlock("; ".join(faults))
    if mechanism.kind != "none" and (fault := try_out(mechanism)):
        return Mechanism("none", f"{mechanism.reason}; {mechanism.title} does not work here: {fault}")
    return mechanism


def try_out(mechanism: Mechanism) -> str:
    """Run a small command confined, and return what is wrong; nothing if it works."""
    with tempfile.TemporaryDirectory(prefix="cpuwheels-") as name:
        folder = Path(name)
        (folder / "work").mkdir()
        step = Step("a trial", View(folder / "work"), folder / "work")
        script = f"test -r /proc/self/stat && echo $$ > pid && echo {_HELLO}"
        confined = Sandbox(mechanism).confine(step, ["/bin/sh", "-c", script], closed_environment(), folder)
        done = capture(confined.argv, env=confined.env, timeout=_SECONDS, both=True)
    lines = done.output.strip().splitlines() or [f"status {done.returncode}"]
    return "" if done.returncode == 0 and lines[-1] == _HELLO else lines[-1]


def _landlock(faults: str) -> Mechanism:
    version = landlock_version()
    if version < LEAST:
        found = f"its Landlock is version {version}" if version else "it has no Landlock"
        return Mechanism("none", f"{faults}; this kernel is too old, or {found}; {LEAST} is needed (Linux 6.2)")
    if not is_known():
        return Mechanism("none", f"{faults}; there is no filter of system calls for {os.uname().machine}")
    lesser = LESSER if version >= WITH_SCOPES else f"{LESSER}; {SIGNALS}"
    return Mechanism("landlock", f"{faults}; {lesser}", landlock=version)
