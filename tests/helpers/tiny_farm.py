"""A farm of real workers that build the stand-in's wheels."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tiny_project import Tiny

END_SECONDS = 60


@contextmanager
def tiny_farm(tiny: Tiny, folder: Path, clone: Path, workers: int = 2) -> Iterator[tuple[str, Path, Path]]:
    """Run a farm on this machine while the block runs.

    Args:
        tiny: The project.
        folder: Where its files are; empty.
        clone: The repository that workers take commits from.
        workers: How many there are.

    Yields:
        The address, the certificates' folder and the workers' folder.
    """
    keys, places = folder / "keys", folder / "workers"
    done = tiny.run("farm", "keys", "--farm-keys", keys)
    assert done.returncode == 0, done.stderr
    words = ("farm", "up", "--workers", str(workers), "--farm-keys", keys, "--folder", places, "--repo", clone)
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(tiny.command(*words), stdout=subprocess.PIPE, stderr=log, text=True)
        try:
            assert process.stdout
            address = process.stdout.readline().strip()
            assert address.startswith("tls://127.0.0.1:"), (folder / "log").read_text()
            yield address, keys, places
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait(END_SECONDS) == 130
            process.stdout.close()
