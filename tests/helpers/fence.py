"""A command in a network of its own, in which a proxy is all there is: what does not go through the proxy fails.

As a program: brings up the loopback device, hands connections to a port on to a socket of the file system, and runs
the command.
"""

from __future__ import annotations

import array
import contextlib
import fcntl
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

_PORT = 3128
_IFREQ, _GET_FLAGS, _SET_FLAGS, _UP = 40, 0x8913, 0x8914, 1
OWN_NETWORK = ["unshare", "--net"] if os.geteuid() == 0 else ["unshare", "--user", "--map-root-user", "--net"]


def run_fenced(
    command: Sequence[str], proxy: Path, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command in a network that has nothing but a proxy.

    Args:
        command: The command.
        proxy: The socket on which the proxy listens.
        env: Variables on top of this process's own.
    """
    address = f"http://127.0.0.1:{_PORT}"
    names = [name for name in os.environ if name.lower().endswith("_proxy")]
    own = {name: value for name, value in os.environ.items() if name not in names}
    own |= {"http_proxy": address, "https_proxy": address}
    fenced = [*OWN_NETWORK, sys.executable, str(Path(__file__)), str(proxy), *command]
    return subprocess.run(
        fenced, env=own | dict(env or {}), text=True, stdin=subprocess.DEVNULL, capture_output=True, check=False
    )


def main() -> int:
    """Run the command that is given after the socket."""
    _bring_up("lo")
    listening = socket.create_server(("127.0.0.1", _PORT), backlog=64)
    threading.Thread(target=_serve, args=(listening, sys.argv[1]), daemon=True).start()
    return subprocess.run(sys.argv[2:], check=False).returncode


def _bring_up(device: str) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        request = array.array("B", device.encode().ljust(_IFREQ, b"\0"))
        fcntl.ioctl(any_socket, _GET_FLAGS, request)
        request[16] |= _UP
        fcntl.ioctl(any_socket, _SET_FLAGS, request)


def _serve(listening: socket.socket, proxy: str) -> None:
    while True:
        inside, _ = listening.accept()
        outside = socket.socket(socket.AF_UNIX)
        outside.connect(proxy)
        for source, target in ((inside, outside), (outside, inside)):
            threading.Thread(target=_copy, args=(source, target), daemon=True).start()


def _copy(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(1 << 16):
            target.sendall(data)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)


if __name__ == "__main__":
    sys.exit(main())
