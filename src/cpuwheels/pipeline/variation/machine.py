"""What this machine lets a second build have otherwise: found out when it is first asked for."""

from __future__ import annotations

import grp
import json
import os
import platform
import pwd
import sys
import tempfile
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cpuwheels.core.capture import capture
from cpuwheels.fetch.uv import found_interpreters
from cpuwheels.kernels.memory.limits import available_memory

if TYPE_CHECKING:
    from collections.abc import Mapping

LAUNCH = Path(__file__).parent / "resources" / "launch.py"
"""Enters what a plan describes, and becomes the command behind it."""

FROM_COPY = LAUNCH.with_name("from_copy.py")
"""Runs the cpuwheels of a folder."""

DRIVERS = ("3.13", "3.12", "3.11")
"""Versions of Python that this program runs with."""

NO_RANDOM_ADDRESSES, OLD_KERNEL = 0x0040000, 0x0020000  # <linux/personality.h>

NOTHING: dict[str, Any] = {
    "user": None,
    "group": None,
    "hostname": None,
    "files": {},
    "binds": [],
    "closed": False,
    "personality": 0,
    "cpus": [],
}
"""The plan of a launcher that changes nothing."""


def alone(plan: Mapping[str, Any]) -> dict[str, Any]:
    """Return a launcher's plan under which the command has a network of its own, with nothing in it."""
    return {**plan, "user": os.geteuid(), "group": os.getegid(), "closed": True}


_RANDOM = Path("/proc/sys/kernel/randomize_va_space")


class Machine:
    """This machine, as the first build found it."""

    @cached_property
    def environ(self) -> Mapping[str, str]:
        """The environment of the first build."""
        return os.environ

    @cached_property
    def is_linux(self) -> bool:
        """Whether it is one whose kernel has what most axes need."""
        return sys.platform == "linux"

    @cached_property
    def umask(self) -> int:
        """The umask of the first build."""
        umask = os.umask(0o022)
        os.umask(umask)
        return umask

    @cached_property
    def cpus(self) -> frozenset[int]:
        """The CPUs that may be used."""
        if hasattr(os, "sched_getaffinity"):
            return frozenset(os.sched_getaffinity(0))
        return frozenset(range(os.cpu_count() or 1))

    @cached_property
    def memory(self) -> int:
        """Bytes of memory that may be used."""
        return available_memory().bytes

    @cached_property
    def namespaces(self) -> str:
        """Why there are no namespaces of one's own here; empty if there are."""
        if not self.is_linux:
            return f"namespaces are Linux's; this is {sys.platform}"
        plan = NOTHING | {"user": os.getuid() + 1, "group": os.getgid() + 1, "hostname": "other"}
        return self._fault_of(plan, "user namespaces do not work here")

    @cached_property
    def networks(self) -> str:
        """Why a process can have no network of its own, with nothing in it; empty if it can."""
        if not self.is_linux:
            return f"namespaces are Linux's; this is {sys.platform}"
        return self._fault_of(alone(NOTHING), "network namespaces do not work here")

    @cached_property
    def personalities(self) -> str:
        """Why a process can have no other personality(2); empty if it can."""
        if not self.is_linux:
            return f"personalities are Linux's; this is {sys.platform}"
        return self._fault_of(NOTHING | {"personality": NO_RANDOM_ADDRESSES}, "personality(2) does not work here")

    def _fault_of(self, plan: Mapping[str, Any], what: str) -> str:
        with tempfile.NamedTemporaryFile("w", suffix=".json", prefix="cpuwheels-") as file:
            json.dump(plan, file)
            file.flush()
            done = capture([sys.executable, "-I", "-S", LAUNCH, file.name, "--", "true"], timeout=20, both=True)
        lines = done.output.strip().splitlines() or [f"status {done.returncode}"]
        return f"{what}: {lines[-1]}" if done.returncode else ""

    @cached_property
    def randomized(self) -> bool:
        """Whether the kernel places programs at random addresses."""
        try:
            return int(_RANDOM.read_text()) > 0
        except (OSError, ValueError):
            return False

    @cached_property
    def hostname(self) -> str:
        """The machine's name."""
        return platform.node()

    @cached_property
    def user(self) -> tuple[str, int]:
        """The user's name and number."""
        try:
            return pwd.getpwuid(os.getuid()).pw_name, os.getuid()
        except KeyError:
            return "nobody", os.getuid()

    @cached_property
    def kernel(self) -> str:
        """The kernel's release, as programs see it."""
        return platform.release()

    @cached_property
    def locales(self) -> tuple[str, ...]:
        """The locales that are installed."""
        done = capture(["locale", "-a"])
        return tuple(done.output.split()) if done.returncode == 0 else ()

    @cached_property
    def driver(self) -> str:
        """The version of Python that runs this program, such as ``3.11``."""
        return f"{sys.version_info.major}.{sys.version_info.minor}"

    @cached_property
    def pythons(self) -> Mapping[str, Path]:
        """Other interpreters that can run this program, the newest first."""
        return found_interpreters([version for version in DRIVERS if version != self.driver])

    @cached_property
    def description(self) -> str:
        """The machine in a few words, for who reads what was found on it."""
        return f"{platform.system()} {platform.machine()}, {len(self.cpus)} CPUs, kernel {self.kernel}"

    def accounts(self, name: str, number: int) -> dict[str, str]:
        """Return lists of users and groups in which one user has another name and number."""
        old_user, old_group = os.getuid(), os.getgid()
        users = [
            ":".join([one.pw_name, "x", str(one.pw_uid), str(one.pw_gid), one.pw_gecos, one.pw_dir, one.pw_shell])
            for one in pwd.getpwall()
            if one.pw_uid not in {old_user, number}
        ]
        groups = [
            ":".join([one.gr_name, "x", str(one.gr_gid), ""])
            for one in grp.getgrall()
            if one.gr_gid not in {old_group, number}
        ]
        users.append(f"{name}:x:{number}:{number}::{Path.home()}:/bin/sh")
        groups.append(f"{name}:x:{number}:")
        return {"/etc/passwd": "\n".join([*users, ""]), "/etc/group": "\n".join([*groups, ""])}
