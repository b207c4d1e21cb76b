"""Power cuts: a piece of work is cut off at each of its steps, and what was not on the disk is lost.

    python power_cut.py SCRIPT FOLDER

SCRIPT has functions ``before(folder)``, ``work(folder)`` and ``check(folder)``. For each step of the work (a rename, a
removal or an ``fsync``) and each model of a file system, a process does the work in a fresh folder and ends there, as
if the power was cut. Then files whose content was never synced have lost it, and in one of the models the renames are
undone that no sync of their folder followed. ``check`` raises if what is left is neither the old nor the new.
"""

from __future__ import annotations

import json
import os
import runpy
import shutil
import sys
from pathlib import Path
from typing import Any

MODELS = ("names kept", "names lost")
"""Whether the names that were not synced have reached the disk: either may happen."""


class Recorder:
    """Counts steps, ends the process at one of them, and remembers what was synced.

    Args:
        folder: Where the work is done.
        cut: Number of the step at which the power is cut.
        journal: File for what happened.
    """

    def __init__(self, folder: Path, cut: int, journal: Path) -> None:
        self.folder, self.cut, self.journal = folder, cut, journal
        self.steps = 0
        self.synced: set[int] = {path.stat().st_ino for path in folder.rglob("*") if path.is_file()}
        self.renames: list[tuple[str, str, str]] = []
        self.saved = journal.with_suffix(".saved")
        self.saved.mkdir()

    def step(self) -> None:
        if self.steps == self.cut:
            self.end(done=False)
        self.steps += 1

    def end(self, *, done: bool) -> None:
        self.journal.write_text(json.dumps({"done": done, "synced": sorted(self.synced), "renames": self.renames}))
        os._exit(0)

    def install(self) -> None:
        fsync, replace, rename, unlink = os.fsync, os.replace, os.rename, os.unlink

        def synced(handle: Any) -> None:
            self.step()
            fsync(handle)
            about = os.fstat(handle)
            self.synced.add(about.st_ino)
            place = str(Path(f"/proc/self/fd/{handle}").readlink())
            self.renames = [each for each in self.renames if str(Path(each[1]).parent) != place]

        def moved(source: Any, target: Any, *, _move: Any = replace, **more: Any) -> None:
            self.step()
            old = ""
            if Path(target).is_file():
                old = str(self.saved / str(self.steps))
                os.link(target, old)
            _move(source, target, **more)
            self.renames.append((os.fspath(source), os.fspath(target), old))

        def removed(path: Any, **more: Any) -> None:
            self.step()
            unlink(path, **more)

        os.fsync, os.replace, os.unlink = synced, moved, removed
        os.rename = lambda source, target, **more: moved(source, target, _move=rename, **more)


def lose(journal: dict[str, Any], folder: Path, model: str) -> None:
    """Take away what had not reached the disk."""
    if model == "names lost":
        for source, target, old in reversed(journal["renames"]):
            if os.path.lexists(target):
                Path(source).parent.mkdir(parents=True, exist_ok=True)
                Path(target).rename(source)
            if old:
                Path(old).rename(target)
    kept = set(journal["synced"])
    for path in folder.rglob("*"):
        if path.is_file() and not path.is_symlink() and path.stat().st_ino not in kept:
            os.truncate(path, 0)


def cut_everywhere(script: dict[str, Any], base: Path) -> int:
    """Cut the work at each step, and return how many there were."""
    cut = 0
    while True:
        for model in MODELS:
            folder, journal = base / f"{cut} {model}", base / f"{cut} {model}.json"
            folder.mkdir()
            script["before"](folder)
            process = os.fork()
            if process == 0:
                try:
                    recorder = Recorder(folder, cut, journal)
                    recorder.install()
                    script["work"](folder)
                    recorder.end(done=True)
                finally:
                    os._exit(1)
            assert os.waitpid(process, 0)[1] == 0, f"the work failed at step {cut}"
            said = json.loads(journal.read_text())
            lose(said, folder, model)
            try:
                script["check"](folder, said["done"])
            except BaseException as error:
                raise AssertionError(f"cut at step {cut}, {model}: {error}") from error
            shutil.rmtree(folder)
        if said["done"]:
            return cut
        cut += 1


if __name__ == "__main__":
    print(cut_everywhere(runpy.run_path(sys.argv[1]), Path(sys.argv[2])))
