"""Processes that a test starts: found by a mark, waited for, and ended with it."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

SECONDS = 20.0
"""In which everything has to be over that a case waits for."""


def is_gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def wait_until(happened: Callable[[], object], seconds: float = SECONDS) -> None:
    end = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < end
        time.sleep(0.01)


class Marked:
    """Processes that have a variable of their own in their environment; all of them end with the test."""

    def __init__(self, folder: Path) -> None:
        self.token = f"{folder.name}-{os.getpid()}"
        self.env = {"PATH": os.environ["PATH"], "CAMPAIGN_TOKEN": self.token}

    def living(self) -> list[psutil.Process]:
        found = []
        for process in psutil.process_iter():
            try:
                if process.environ().get("CAMPAIGN_TOKEN") == self.token and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
            except psutil.Error:
                continue
        return found

    def end(self) -> None:
        for _ in range(100):
            living = self.living()
            if not living:
                return
            for process in living:
                try:
                    process.send_signal(signal.SIGKILL)
                except psutil.Error:
                    continue


def sh(script: str) -> Sequence[str]:
    return ["/bin/sh", "-c", script]
