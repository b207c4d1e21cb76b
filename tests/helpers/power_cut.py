"""Power cuts: what some work does to a folder is recorded, and each state that a power cut could leave is built.

Recorded is what the process itself does, by way of the functions of `os` and of `open`: names that come and go, and
what was synced. A cut is made after each step. Of what came before it, this is certain to be on the disk:

- what was in the folder before the work;
- what a file had in it when it was last synced (`os.fsync`), but not the file's name;
- a name that was made, moved or removed, if its folder was synced after that. A move is one step even between folders;
  it counts as synced with the folder it went to.

Anything else may have reached the disk or not. Contents may also be there in part, or be as many zeros. So each cut is
tried with none of it, with all of it, and with parts drawn at random, see `Model`.
"""

from __future__ import annotations

import builtins
import inspect
import io
import os
import random
import shutil
import stat
import textwrap
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FunctionType
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

NAMING = ("mkdir", "rmdir", "unlink", "remove", "rename", "replace", "link", "symlink", "mkfifo")
CREATING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
LOST, ZEROS, TORN, KEPT = "lost", "zeros", "torn", "kept"
"""What may have become of a content that was not synced."""


@dataclass(frozen=True)
class Model:
    """What becomes of the things that were not synced.

    Attributes:
        name: For people.
        names: How many of a hundred names are as they were at the cut.
        contents: One of these happens to each content.
        seed: Of the choices.
    """

    name: str
    names: int
    contents: tuple[str, ...]
    seed: int = 0


MODELS = (
    Model("no name and no content", 0, (LOST,)),
    Model("all names and no content", 100, (LOST,)),
    Model("all names and zeros", 100, (ZEROS,)),
    Model("no name and all contents", 0, (KEPT,)),
    *(Model(f"some of each, {seed}", 50, (LOST, ZEROS, TORN, KEPT), seed) for seed in range(4)),
)


@dataclass
class Step:
    """One step of the work.

    Attributes:
        what: For people.
        names: Folder, name, and the numbers of what had the name before and has it now, each none if nothing.
        contents: Of the files that have another content than at the step before.
        synced: Numbers of the files and folders that were synced.
    """

    what: str
    names: list[tuple[int, str, int | None, int | None]] = field(default_factory=list)
    contents: dict[int, bytes] = field(default_factory=dict)
    synced: tuple[int, ...] = ()


class PowerCuts:
    """The power cuts of some work in a folder.

    Args:
        folder: It is made; `check` makes it again and again.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = Path(os.path.realpath(folder))
        self.folder.mkdir(parents=True, exist_ok=True)
        self.steps: list[Step] = []
        self._numbers: dict[tuple[int, int], int] = {}
        self._handles: list[int] = []  # kept open, so that no file gets the number of an earlier one
        self._links: dict[int, str] = {}
        self._modes: dict[int, int] = {}
        self._kinds: dict[int, int] = {}
        self._written: set[int] = set()
        self._names: dict[int, dict[str, int]] = {}
        self._contents: dict[int, bytes] = {}
        self._before: tuple[dict[int, dict[str, int]], dict[int, bytes]] = {}, {}

    # What is recorded

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Record what is done while the block lasts.

        Raises:
            AssertionError: Something was done in the folder that was not seen.
        """
        self._scan(self.folder)
        self._before = {number: dict(names) for number, names in self._names.items()}, dict(self._contents)
        try:
            with ExitStack() as stack:
                self._install(stack)
                yield
            self._step("the last step")
            self._modes = {
                number: stat.S_IMODE(os.fstat(handle).st_mode) for number, handle in enumerate(self._handles)
            }
        finally:
            for handle in self._handles:
                os.close(handle)
        assert self._tree(self._names, self._contents) == _found(self.folder), "something was not recorded"

    def _install(self, stack: ExitStack) -> None:
        for name in NAMING:
            stack.enter_context(patch.object(os, name, self._naming(name, getattr(os, name))))
        for name in ("fsync", "fdatasync"):
            stack.enter_context(patch.object(os, name, self._sync))
        for name in ("truncate", "ftruncate"):
            stack.enter_context(patch.object(os, name, self._opening(getattr(os, name), always=True)))
        stack.enter_context(patch.object(os, "sync", self._sync_all))
        stack.enter_context(patch.object(os, "open", self._opening(os.open)))
        opening = self._opening(io.open)
        stack.enter_context(patch.object(io, "open", opening))
        stack.enter_context(patch.object(builtins, "open", opening))

    def _naming(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def record(*paths: Any, **options: Any) -> Any:
            places = [
                self._place(path, options.get("dir_fd", options.get(which)))
                for path, which in zip(paths, ("src_dir_fd", "dst_dir_fd"), strict=False)
                if isinstance(path, (str, bytes, os.PathLike))
            ]
            result = call(*paths, **options)
            self._step(f"{name} {' '.join(path.name for path in places)}", places)
            return result

        return record

    def _opening(self, call: Callable[..., Any], *, always: bool = False) -> Callable[..., Any]:
        def record(path: Any, *arguments: Any, **options: Any) -> Any:
            how = arguments[0] if arguments else options.get("mode", options.get("flags", 0))
            writes = always or (how & CREATING if isinstance(how, int) else set(how) & set("wax+"))
            place = None if isinstance(path, int) else self._place(path, options.get("dir_fd"))
            opener = options.get("opener")
            result = call(path, *arguments, **options)
            if writes and place is not None and opener is None and place.is_relative_to(self.folder):
                self._step(f"open {place.name}", [place])
                if not place.is_symlink() and place.is_file():
                    self._written.add(self._number(place))
            elif always and place is None and (known := self._known(path)) is not None:
                self._written.add(known)
            return result

        return record

    def _sync(self, handle: Any) -> None:
        if (known := self._known(handle)) is not None:
            self._step(f"sync {_path_of(handle).name}", synced=(known,))

    def _sync_all(self) -> None:
        self._step("sync of everything", synced=tuple(self._numbers.values()))

    def _known(self, handle: Any) -> int | None:
        about = os.fstat(handle if isinstance(handle, int) else handle.fileno())
        return self._numbers.get((about.st_dev, about.st_ino))

    @staticmethod
    def _place(path: Any, handle: int | None = None) -> Path:
        path = Path(os.fsdecode(path))
        base = Path.cwd() if handle is None else _path_of(handle)
        return Path(os.path.realpath((base / path).parent)) / path.name

    def _step(self, what: str, places: list[Path] | None = None, synced: tuple[int, ...] = ()) -> None:
        step = Step(what, synced=synced)
        for place in places or []:
            if not place.is_relative_to(self.folder) or place == self.folder:
                continue
            parent, now = self._number(place.parent), self._number(place) if os.path.lexists(place) else None
            if (before := self._names[parent].get(place.name)) != now:
                step.names.append((parent, place.name, before, now))
                _set(self._names[parent], place.name, now)
        for number in self._written:
            content = Path(f"/proc/self/fd/{self._handles[number]}").read_bytes()
            if self._contents.get(number) != content:
                self._contents[number] = step.contents[number] = content
        if step.names or step.contents or step.synced:
            self.steps.append(step)

    def _number(self, place: Path) -> int:
        about = place.lstat()
        known = self._numbers.get((about.st_dev, about.st_ino))
        if known is not None:
            return known
        number = self._numbers[about.st_dev, about.st_ino] = len(self._handles)
        self._handles.append(_OPEN(place, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC))
        self._kinds[number] = stat.S_IFMT(about.st_mode)
        if stat.S_ISDIR(about.st_mode):
            self._names[number] = {}
        elif stat.S_ISLNK(about.st_mode):
            self._links[number] = str(place.readlink())
        elif place.is_relative_to(self.folder):
            self._written.add(number)  # a second name of a file from elsewhere, or one that is new
        return number

    def _scan(self, folder: Path) -> None:
        number = self._number(folder)
        for place in sorted(folder.iterdir()):
            self._names[number][place.name] = found = self._number(place)
            if found in self._names:
                self._scan(place)
            elif stat.S_ISREG(self._kinds[found]):
                self._contents[found] = place.read_bytes()

    # What is replayed

    def check(self, verify: Callable[[bool], object]) -> int:
        """Build every state in the folder and have it checked; return how many there were.

        Args:
            verify: Told whether the work had ended; raises if the folder is in a state that it may not be in, or if
                what should fix it does not.

        Raises:
            AssertionError: It raised; the message has the cut.
        """
        seen = set()
        for cut in range(len(self.steps) + 1):
            done = cut == len(self.steps)
            for model in MODELS:
                tree = self._tree(*self._after(cut, model))
                if (state := (done, tuple(sorted(tree.items())))) in seen:
                    continue
                seen.add(state)
                self._build(tree)
                try:
                    with patch.object(os, "fsync", lambda _: None):  # which would take most of the time
                        verify(done)
                except Exception as error:
                    last = self.steps[cut - 1].what if cut else "nothing"
                    message = f"cut {cut} of {len(self.steps)}, after {last}, {model.name}: {error!r}"
                    raise AssertionError(message) from error
        return len(seen)

    def _after(self, cut: int, model: Model) -> tuple[dict[int, dict[str, int]], dict[int, bytes]]:
        """Return the names and contents that are on the disk after a cut."""
        chance = random.Random(f"{cut} {model.seed}")
        steps = self.steps[:cut]
        synced: set[int] = set()
        moved: set[int | None] = set()
        there: list[Step] = []
        for step in reversed(steps):
            went = {folder for folder, _, _, now in step.names if now is not None} or {one[0] for one in step.names}
            things = {number for one in step.names for number in one[2:]} - {None}
            # What happened to a thing later is not there without what happened to it before.
            if went & synced or things & moved or chance.randrange(100) < model.names:
                there.append(step)
                moved |= things
            synced |= set(step.synced)
        names = {number: dict(self._before[0].get(number, {})) for number in self._names}
        for step in reversed(there):
            for folder, name, _, now in step.names:
                _set(names[folder], name, now)
        contents = dict(self._before[1])
        latest = dict(contents)
        for step in steps:
            latest |= step.contents
            contents |= {number: latest[number] for number in step.synced if number in latest}
        for number, content in latest.items():
            if contents.get(number) != content:
                fate, whole = chance.choice(model.contents), len(content)
                kept = contents.get(number, b"")
                contents[number] = {LOST: kept, ZEROS: bytes(whole), TORN: content[: whole // 2], KEPT: content}[fate]
        return names, contents

    def _tree(
        self, names: dict[int, dict[str, int]], contents: dict[int, bytes]
    ) -> dict[str, tuple[int, str | bytes, int]]:
        """Return everything that can be reached: kind, content, and the number of the file, as far as it has one."""
        found: dict[str, tuple[int, str | bytes, int]] = {}
        ahead = [("", 0)]
        while ahead:
            path, number = ahead.pop()
            for name, below in names[number].items():
                place = f"{path}{name}"
                if below in self._names:
                    ahead.append((f"{place}/", below))
                content = self._links.get(below) or contents.get(below, b"")
                found[place] = self._kinds[below], content, below
        return _Tree(found)

    def _build(self, tree: dict[str, tuple[int, str | bytes, int]]) -> None:
        for old in self.folder.iterdir():
            shutil.rmtree(old) if old.is_dir() and not old.is_symlink() else old.unlink()
        made: dict[int, Path] = {}
        for name, (kind, content, number) in sorted(tree.items()):
            place = self.folder / name
            if stat.S_ISDIR(kind):
                place.mkdir()
            elif number in made:
                os.link(made[number], place)
            elif isinstance(content, str):
                place.symlink_to(content)
            elif stat.S_ISFIFO(kind):
                os.mkfifo(place)
            else:
                place.write_bytes(content)
                place.chmod(self._modes[number])
                made[number] = place


class _Tree(dict[str, tuple[int, Any, int]]):
    """A tree; two are equal if what is in them is, whatever its numbers are."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, dict) and {name: one[:2] for name, one in self.items()} == {
            name: one[:2] for name, one in other.items()
        }

    __hash__ = None  # type: ignore[assignment]


_OPEN = os.open


def _path_of(handle: Any) -> Path:
    return Path(f"/proc/self/fd/{handle if isinstance(handle, int) else handle.fileno()}").readlink()


def _set(names: dict[str, int], name: str, now: int | None) -> None:
    if now is None:
        names.pop(name, None)
    else:
        names[name] = now


def _found(folder: Path) -> dict[str, tuple[int, Any, int]]:
    found: dict[str, tuple[int, Any, int]] = {}
    for place in folder.rglob("*"):
        kind = stat.S_IFMT(place.lstat().st_mode)
        content: str | bytes = b""
        if stat.S_ISLNK(kind):
            content = str(place.readlink())
        elif stat.S_ISREG(kind):
            content = place.read_bytes()
        found[str(place.relative_to(folder))] = kind, content, 0
    return _Tree(found)


def without(function: Any, line: str, instead: str = "pass") -> Any:
    """Return a copy of a function that has something else in place of a piece of its text.

    Raises:
        ValueError: The text does not have that piece exactly once.
    """
    text = textwrap.dedent(inspect.getsource(function))
    if text.count(line) != 1:
        raise ValueError(f"{line!r} is {text.count(line)} times in {function.__name__}")
    plain = inspect.unwrap(function)
    assert isinstance(plain, FunctionType)
    made: dict[str, Any] = {}
    exec(f"from __future__ import annotations\n{text.replace(line, instead)}", plain.__globals__, made)
    return made[function.__name__]
