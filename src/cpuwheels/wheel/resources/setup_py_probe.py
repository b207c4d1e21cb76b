"""Ask a source's ``setup.py`` for its metadata and its package files, and note what the answers depend on.

Runs inside the build environment, as a script, in a private copy of the source. Torch, which vLLM's ``setup.py``
imports, is imported once; then this process forks for the two questions, one after the other. An audit hook (PEP 578)
notes each file of the source that is opened: to be copied by setuptools' ``build_py``, to be read, or to be written.
Anything that such notes cannot record is a reason not to keep the answers.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import runpy
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import FrameType

WRITING = os.O_WRONLY | os.O_RDWR
PROCESSES = {"os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "os.system", "pty.spawn"}
MOVES = {"os.link", "os.rename", "os.symlink", "os.truncate"}
ASKS_FOR_A_REPOSITORY = {"git", "hg"}
"""Started by setuptools-scm; the private copy is no repository, and the version is given."""


def absolute(path: str | bytes | os.PathLike[str] | int) -> str:
    """Return a path from the root, links not followed; the audited functions also take a file descriptor."""
    return "" if isinstance(path, int) else os.path.abspath(os.fsdecode(path))  # noqa: PTH100  (`Path` keeps "..")


class Notes:
    """What one question has done so far.

    Args:
        tree: The private copy.
        own: Folders that hold only the answers.
    """

    def __init__(self, tree: Path, own: list[Path]) -> None:
        self.tree = f"{tree}/"
        self.known = tuple(f"{path}/" for path in (*own, sys.prefix, sys.base_prefix, "/proc/self", "/dev"))
        self.read: set[str] = set()
        self.written: set[str] = set()
        self.copied: dict[str, str] = {}
        self.against: set[str] = set()

    def hook(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Note an audit event."""
        if event == "open":
            path, _, flags = arguments
            if not isinstance(path, int):
                self.opened(absolute(path), flags or 0)
        elif event in MOVES:
            path = absolute(arguments[0])
            if path.startswith(self.tree) and path not in self.written:
                self.against.add(f"{event} of {path.removeprefix(self.tree)}")
        elif event == "subprocess.Popen":
            program = Path(os.fsdecode(arguments[0]))
            if program.name not in ASKS_FOR_A_REPOSITORY:
                self.against.add(f"it starts {program}")
        elif event in PROCESSES or event == "socket.connect":
            self.against.add(event)

    def opened(self, path: str, flags: int) -> None:
        """Note that a file is opened."""
        source = self._copying()
        source = self.copied.get(source, source)
        origin = self.copied.get(path, path)
        known = path in self.written or bool(flags & (os.O_TRUNC | os.O_EXCL))
        if flags & WRITING:
            self.copied.pop(path, None)
            if source:
                self.copied[path] = source
            else:
                self.written.add(path)
        if known:
            return
        if origin.startswith(self.tree):
            # A copy that is read makes the file that it was copied from one that is read.
            self.read.update([] if source else [origin.removeprefix(self.tree)])
        elif not origin.startswith(self.known) and origin != __file__:
            self.against.add(f"it reads {origin}")

    @staticmethod
    def _copying() -> str:
        """Return the file that setuptools is copying just now, if it is."""
        frame: FrameType | None = sys._getframe(1)  # noqa: SLF001  (the stack says who opens a file, and nothing else does)
        while frame is not None:
            if frame.f_code.co_name == "_copy_file_contents" and "src" in frame.f_locals:
                return absolute(frame.f_locals["src"])
            frame = frame.f_back
        return ""


def metadata(folder: Path) -> None:
    """Answer with the metadata, through the PEP 517 hook."""
    build_meta = importlib.import_module("setuptools.build_meta")
    print(build_meta.prepare_metadata_for_build_wheel(str(folder)))


def packages(folder: Path) -> None:
    """Answer with the package files, through setuptools' ``build_py``."""
    sys.argv = ["setup.py", "--quiet", "build_py", "--build-lib", str(folder)]
    runpy.run_path(str(Path("setup.py").absolute()), run_name="__main__")


def main(answers: Path) -> int:
    """Ask both questions, each in a process of its own, and return the status of the first that fails."""
    sys.path.insert(0, str(Path.cwd()))
    for name in ("torch", "setuptools.build_meta"):
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    for question in (metadata, packages):
        child = os.fork()
        if child == 0:
            own = [answers / "metadata", answers / "packages"]
            notes = Notes(Path.cwd(), own)
            sys.addaudithook(notes.hook)
            question(answers / question.__name__)
            said = {
                "read": sorted(notes.read),
                "written": sorted(notes.written),
                "copied": notes.copied,
                "against": sorted(notes.against),
            }
            (answers / f"{question.__name__}.json").write_text(json.dumps(said), encoding="utf-8")
            return 0
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if status != 0:
            return status if status > 0 else 1
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
