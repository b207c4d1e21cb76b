"""Hosts of a small network: processes in network and PID namespaces of their own, on one bridge.

Nothing of it needs root, and nothing outside sees it: the namespaces belong to a user namespace.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psutil

NETWORK = "10.77.0."
_SECONDS = 10.0
_WAITING = "import os, sys; sys.stdin.readline(); os.execvp(sys.argv[1], sys.argv[1:])"


@dataclass
class Network:
    """A bridge in a namespace; what runs there has the address that ends in 1.

    Attributes:
        holder: The process that has the namespaces.
        hosts: The processes whose end is that of a host, by its number.
    """

    holder: subprocess.Popen[bytes]
    hosts: dict[int, subprocess.Popen[str]] = field(default_factory=dict)

    @property
    def address(self) -> str:
        return f"{NETWORK}1"

    def inside(self, *command: object) -> list[str]:
        """Return a command that runs where the bridge is."""
        return _entering(self.holder.pid, *command)

    def start(self, number: int, *command: object, **given: object) -> subprocess.Popen[str]:
        """Start a host with a command; it ends with it, and all that it started."""
        waits = [sys.executable, "-c", _WAITING, *map(str, command)]
        separate = ["unshare", "--net", "--pid", "--fork", "--kill-child", "--mount-proc", *waits]
        host = subprocess.Popen(self.inside(*separate), stdin=subprocess.PIPE, text=True, **given)  # type: ignore[call-overload]
        self.hosts[number] = host
        first = _only_child(host.pid)
        card = f"host{number}"
        self._ip("link", "add", card, "type", "veth", "peer", "name", "card", "netns", first)
        self._ip("link", "set", card, "master", "bridge", "up")
        for words in (
            ("addr", "add", f"{NETWORK}{10 + number}/24", "dev", "card"),
            ("link", "set", "card", "up"),
            ("link", "set", "lo", "up"),
        ):
            subprocess.run(_entering(first, "ip", *words), check=True)
        assert host.stdin
        host.stdin.write("go\n")
        host.stdin.flush()
        return host

    def cut(self, number: int) -> None:
        """Pull a host's cable: nothing is refused, and nothing arrives."""
        self._ip("link", "set", f"host{number}", "down")

    def mend(self, number: int) -> None:
        """Put it in again."""
        self._ip("link", "set", f"host{number}", "up")

    def switch_off(self, number: int) -> None:
        """End a host as a power cut does: its processes are killed, and its address answers no more."""
        host = self.hosts.pop(number)
        if host.poll() is None:  # the device of one that has ended by itself is gone with it
            self.cut(number)
        host.kill()
        host.wait()
        assert host.stdin
        host.stdin.close()

    def _ip(self, *words: object) -> None:
        subprocess.run(self.inside("ip", *words), check=True)


def can_have_hosts() -> bool:
    """Return whether this system lets a program make such namespaces and a bridge, and has ``ip``."""
    words = ("unshare", "--user", "--map-root-user", "--net", "ip", "link", "add", "bridge", "type", "bridge")
    try:
        return subprocess.run(words, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


@contextmanager
def network() -> Iterator[Network]:
    """Make the bridge; all hosts are switched off with it."""
    holder = subprocess.Popen(
        ["unshare", "--user", "--map-root-user", "--net", "sh", "-c", "echo ready; exec sleep 3600"],
        stdout=subprocess.PIPE,
    )
    made = Network(holder)
    try:
        assert holder.stdout
        assert holder.stdout.readline() == b"ready\n"
        made._ip("link", "set", "lo", "up")
        made._ip("link", "add", "bridge", "type", "bridge")
        made._ip("addr", "add", f"{made.address}/24", "dev", "bridge")
        made._ip("link", "set", "bridge", "up")
        yield made
    finally:
        for number in list(made.hosts):
            made.switch_off(number)
        holder.kill()
        holder.wait()
        assert holder.stdout
        holder.stdout.close()


def _entering(process: int, *command: object) -> list[str]:
    return ["nsenter", "--target", str(process), "--user", "--net", "--preserve-credentials", *map(str, command)]


def _only_child(process: int) -> int:
    """Return the first process of a new PID namespace, by the number that it has here."""
    end = time.monotonic() + _SECONDS
    while time.monotonic() < end:
        for child in psutil.Process(process).children():
            if Path(f"/proc/{child.pid}/ns/pid").readlink() != Path("/proc/self/ns/pid").readlink():
                return child.pid
        time.sleep(0.02)
    raise AssertionError("the namespaces do not come")
