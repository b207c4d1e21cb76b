"""What hostile code tries, one attack for each name; run by ``python hostile.py ATTACK ARGUMENT…`` inside a sandbox.

Each prints what it gained as ``gained: …``, or why it gained nothing as ``refused: …``.
"""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

LIBC = ctypes.CDLL(None, use_errno=True)


def read(path: str) -> str:
    return Path(path).read_text(errors="replace")


def listing(path: str) -> str:
    return " ".join(os.listdir(path))  # noqa: PTH208


def environs(secret: str) -> str:
    """Look for a secret in the environment of every process that is visible."""
    found, seen = [], 0
    for name in filter(str.isdigit, os.listdir("/proc")):  # noqa: PTH208
        for file in ("environ", "mem", "task/" + name + "/environ"):
            try:
                with open(f"/proc/{name}/{file}", "rb") as stream:  # noqa: PTH123
                    content = stream.read(1 << 20) if file != "mem" else b""
            except OSError:
                continue
            seen += 1
            if secret.encode() in content:
                found.append(name)
    if not found:
        raise PermissionError(f"not in {seen} files that are readable")
    return f"{secret} of {', '.join(found)}"


def write(path: str) -> str:
    with open(path, "a") as stream:  # noqa: PTH123
        stream.write("changed")
    return f"wrote {path}"


def remove(path: str) -> str:
    os.unlink(path)  # noqa: PTH108
    return f"removed {path}"


def truncate(path: str) -> str:
    os.truncate(path, 0)
    return f"cut {path}"


def link(path: str, here: str) -> str:
    os.link(path, here)
    return write(here)


def chmod(path: str) -> str:
    os.chmod(path, 0o777)  # noqa: PTH101
    return f"changed {path}"


def tcp(host: str, port: str) -> str:
    with socket.create_connection((host, int(port)), timeout=3):
        return f"reached {host}"


def udp(host: str, port: str) -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.sendto(b"out", (host, int(port)))
    return f"sent to {host}"


def dns(name: str) -> str:
    return str(socket.getaddrinfo(name, 80))


def abstract(name: str) -> str:
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(f"\0{name}")
        return f"reached @{name}"


def unix(path: str) -> str:
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(path)
        return f"reached {path}"


def vsock() -> str:
    with socket.socket(socket.AF_VSOCK) as client:
        client.settimeout(3)
        client.connect((2, 1))
        return "reached the host of this machine"


def kill(pid: str) -> str:
    os.kill(int(pid), signal.SIGTERM)
    return f"killed {pid}"


def kill_parents() -> str:
    """Signal the parent, and then everything (kill(2): -1), but end no process of the attack's own."""
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    os.kill(os.getppid(), signal.SIGUSR1)
    os.kill(-1, signal.SIGUSR1)
    return "signalled"


def ptrace(pid: str) -> str:
    attach = 16
    if LIBC.ptrace(attach, int(pid), None, None) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return f"attached to {pid}"


def memory(pid: str) -> str:
    with open(f"/proc/{pid}/mem", "rb"):  # noqa: PTH123
        return f"memory of {pid}"


def descriptors() -> str:
    """List open files besides the three that every program has, and the listing's own."""
    more = [name for name in os.listdir("/proc/self/fd") if int(name) > 2]  # noqa: PTH208
    links = []
    for name in more:
        try:
            links.append(os.readlink(f"/proc/self/fd/{name}"))  # noqa: PTH115
        except OSError:
            continue
    if not (held := [text for text in links if "/proc" not in text]):
        raise PermissionError("none")
    return " ".join(held)


def keyring() -> str:
    number, search, user = {"x86_64": 250, "aarch64": 219}[os.uname().machine], 6, -4
    if LIBC.syscall(number, search, user, 0, 0, 0) < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return "keys"


def mount() -> str:
    if LIBC.mount(b"none", b"/tmp", b"tmpfs", 0, None) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return "mounted"


def namespace() -> str:
    new_user = 0x10000000
    if LIBC.unshare(new_user) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return "a namespace of its own"


def privileges() -> str:
    lines = dict(line.split(":", 1) for line in read("/proc/self/status").splitlines())
    # Without new privileges the bounding set gives nothing.
    kept = [name for name in ("CapInh", "CapPrm", "CapEff", "CapAmb") if int(lines[name], 16)]
    if kept or lines["NoNewPrivs"].strip() != "1" or lines["Seccomp"].strip() != "2":
        return f"{kept} {lines['NoNewPrivs']} {lines['Seccomp']}"
    raise PermissionError("none left")


def limits(pid: str) -> str:
    import resource  # noqa: PLC0415

    return str(resource.prlimit(int(pid), resource.RLIMIT_CPU, (1, 1)))


def attempts() -> Iterator[tuple[str, Callable[..., str]]]:
    yield from ((name, value) for name, value in globals().items() if callable(value) and not isinstance(value, type))


def main() -> None:
    name, *arguments = sys.argv[1:]
    try:
        print("gained:", dict(attempts())[name](*arguments))
    except (TimeoutError, OSError) as error:
        print("refused:", f"{type(error).__name__}: {error}")


if __name__ == "__main__":
    main()
