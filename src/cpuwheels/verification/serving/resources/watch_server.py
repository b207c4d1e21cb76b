"""Run a server in a sandbox, end it when told to, and report what it leaves behind.

    python -I watch_server.py REPORT SECONDS COMMAND...

The sandbox has processes, shared memory and sockets of its own, so all that is there is the server's; and they are gone
with the sandbox, so they have to be counted in it. On SIGTERM the server gets SIGTERM and so many seconds. REPORT then
becomes a JSON object: its exit `status`, None if it did not end; how many `processes` and names of `sockets` it left;
and the names of the `shared` memory that its processes used and left. The exit status is the server's, as a shell has
it.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

_SHARED = re.compile(r"(/dev/shm/[^\n]*?)(?: \(deleted\))?$", re.MULTILINE)
_PAUSE_SECONDS = 0.1
_FIRST = 1


def sockets(table: Path = Path("/proc/net/unix")) -> set[Path]:
    """Return the names in the file system of this network's sockets."""
    rows = (line.split(maxsplit=7) for line in table.read_text(encoding="utf-8", errors="replace").splitlines())
    return {Path(row[7]) for row in rows if len(row) > 7 and row[7].startswith("/")}  # noqa: PLR2004


def others(own: int, proc: Path = Path("/proc")) -> list[Path]:
    """Return the folders of the processes that there are besides the first and a given one."""
    return [entry for entry in proc.iterdir() if entry.name.isdigit() and int(entry.name) not in {_FIRST, own}]


def shared(processes: list[Path]) -> set[Path]:
    """Return the shared memory that processes have open or mapped, by name.

    A runtime's mark that it is there, such as OpenMP's, is neither.
    """
    found: set[str] = set()
    for process in processes:
        with contextlib.suppress(OSError):  # it has ended
            found |= set(_SHARED.findall((process / "maps").read_text(encoding="utf-8", errors="replace")))
            for link in (process / "fd").iterdir():
                with contextlib.suppress(OSError):
                    found |= set(_SHARED.findall(str(link.readlink())))
    return {Path(name) for name in found}


def main(report: Path, seconds: float, command: list[str]) -> int:
    """Run it, and return its exit status."""
    told: list[tuple[set[Path], set[Path]]] = []
    signal.signal(signal.SIGTERM, lambda *_: told.append((sockets(), shared(others(os.getpid())))))
    server = subprocess.Popen(command)
    while server.poll() is None and not told:
        time.sleep(_PAUSE_SECONDS)
    if not told:
        return _shown(server.returncode)
    server.send_signal(signal.SIGTERM)
    try:
        status: int | None = server.wait(seconds)
    except subprocess.TimeoutExpired:
        status = None
    end = time.monotonic() + seconds
    while status is not None and others(os.getpid()) and time.monotonic() < end:
        time.sleep(_PAUSE_SECONDS)
    named, held = told[0]
    found = {
        "status": status,
        "processes": len(others(os.getpid())),
        "shared": sorted(str(path) for path in held if path.exists()),
        "sockets": sum(1 for path in named if path.exists()),
    }
    part = report.with_suffix(".part")
    part.write_text(json.dumps(found), encoding="utf-8")
    part.replace(report)
    return 1 if status is None else _shown(status)


def _shown(status: int) -> int:
    return status if status >= 0 else 128 - status


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), float(sys.argv[2]), sys.argv[3:]))
