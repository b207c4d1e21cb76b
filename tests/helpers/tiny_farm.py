"""A farm of real workers that build the stand-in's wheels."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

END_SECONDS = 60


class Person(Protocol):
    """Somebody who runs commands of cpuwheels, with folders of their own."""

    def command(self, *arguments: str | Path) -> list[str]:
        """Return the command line of one."""

    def run(self, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        """Run one to its end."""


@contextmanager
def tiny_farm(
    who: Person, folder: Path, clone: Path | None = None, workers: int = 2
) -> Iterator[tuple[str, Path, Path]]:
    """Run a farm on this machine while the block runs.

    Args:
        who: Runs it.
        folder: Where its files are; empty.
        clone: The repository that workers take commits from, if not from those of the matrix.
        workers: How many there are.

    Yields:
        The address, the certificates' folder and the workers' folder.
    """
    keys, places = folder / "keys", folder / "workers"
    done = who.run("farm", "keys", "--farm-keys", keys)
    assert done.returncode == 0, done.stderr
    words: tuple[str | Path, ...] = ("farm", "up", "--workers", str(workers), "--farm-keys", keys, "--folder", places)
    words += ("--repo", clone) if clone else ()
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(who.command(*words), stdout=subprocess.PIPE, stderr=log, text=True)
        try:
            assert process.stdout
            address = process.stdout.readline().strip()
            assert address.startswith("tls://127.0.0.1:"), (folder / "log").read_text()
            yield address, keys, places
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait(END_SECONDS) == 130
            process.stdout.close()
