"""What enforces the memory cap of a build: a control group where one can be made, else memgate's watch."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cpuwheels.core.capture import capture
from cpuwheels.core.filesystem import holding
from cpuwheels.kernels.memory.cgroups import PROC, Group, groups, read_or_nothing

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_PREFIX = "cpuwheels-"
_GONE_SECONDS = 5.0
_ASK_SECONDS = 10.0
_ATTEMPTS = 100
_PAGE = os.sysconf("SC_PAGE_SIZE")
_READ_OWN_LIMIT = 'cat "/sys/fs/cgroup$(sed -n s/^0:://p /proc/self/cgroup)/memory.max"'
# The shell enters the group before it becomes the command, so that no child of the command is ever outside.
ENTER = 'echo $$ > "$0" && exec "$@"'


@dataclass(frozen=True)
class Hold:
    """What keeps a command and its children below a number of bytes.

    Attributes:
        how: For people.
        prefix: Put in front of the command.
        oom_events: File with the group's count of processes killed for memory; None without a group.
    """

    how: str
    prefix: tuple[str, ...] = ()
    oom_events: Path | None = None


WATCH = Hold("memgate's watch over the process tree (no control group could be made)")


@contextlib.contextmanager
def hold(limit: int, proc: Path = PROC) -> Iterator[Hold]:
    """Yield what keeps a command below a limit; a control group lives as long as the block.

    A group is made below this process's own one, or next to it where that sets no limit of its own (in a
    group with processes cgroup v2 allows no groups with controllers, but in the root: cgroups(7), "no internal
    processes"). Every obstacle (no permission, a read-only mount, another hierarchy)
    means that no group can be made here. Then the user's service manager is asked for one (a scope, as a login
    session that is not delegated needs), and if there is none, memgate's watch alone enforces the cap.

    Args:
        limit: Bytes for all processes of the command together.
        proc: The proc file system.
    """
    for own, parent in places(proc):
        made = _make(parent, own.unified, limit)
        if made is not None:
            group, lock = made
            break
    else:
        yield _scope(limit) or WATCH
        return
    try:
        version = "v2" if own.unified else "v1"
        yield Hold(
            f"cgroup {version} {group}",
            ("/bin/sh", "-c", ENTER, str(group / "cgroup.procs")),
            group / ("memory.events" if own.unified else "memory.oom_control"),
        )
    finally:
        os.close(lock)
        _remove(group)


def places(proc: Path = PROC) -> list[tuple[Group, Path]]:
    """List where a group could be made, with this process's own group: inside it, else next to it."""
    chain = groups("memory", proc)
    if not chain:
        return []
    own = chain[0]
    places = [(own, own.folder)]
    if own.unified and len(chain) > 1 and read_or_nothing(own.folder / "memory.max").strip() == "max":
        places.append((own, chain[1].folder))
    return places


def count_memory_below(group: Path) -> None:
    """Let the groups within a cgroup v2 group have the memory controller.

    Raises:
        OSError: They may not.
    """
    control = group / "cgroup.subtree_control"
    if "memory" not in read_or_nothing(control).split():
        control.write_text("+memory")


def _make(parent: Path, unified: bool, limit: int) -> tuple[Path, int] | None:
    """Return a new group with the descriptor that has its lock, or None if none can be made."""
    group = parent / f"{_PREFIX}{os.getpid()}"
    try:
        _remove_leftovers(parent)
        if unified:
            count_memory_below(parent)
        lock = _new_locked(group)
    except OSError:
        return None
    try:
        if unified:
            (group / "memory.max").write_text(str(limit))
            _write_if_there(group / "memory.swap.max", "0")
        else:
            (group / "memory.limit_in_bytes").write_text(str(limit))
            _write_if_there(group / "memory.memsw.limit_in_bytes", str(limit))
        if not (group / "cgroup.procs").is_file():
            raise FileNotFoundError
    except OSError:
        os.close(lock)
        _remove(group)
        return None
    return group, lock


def _new_locked(group: Path) -> int:
    """Make a group and return a descriptor with a lock on it, which tells other builds that it is in use.

    Between the two another build may take the empty group for a leftover, and remove it; then it is made again.

    Raises:
        OSError: It cannot be made.
    """
    for _ in range(_ATTEMPTS):
        group.mkdir()
        with contextlib.suppress(FileNotFoundError):
            lock = os.open(group, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX)
                if os.fstat(lock).st_ino == group.stat().st_ino:
                    return lock
            except BaseException:
                os.close(lock)
                raise
            os.close(lock)
    raise FileNotFoundError(group)


def _scope(limit: int) -> Hold | None:
    """Return a transient scope of the user's systemd (systemd-run(1)), if it makes one with a limit."""
    program, folder = shutil.which("systemd-run"), os.environ.get("XDG_RUNTIME_DIR")
    if program is None or folder is None:
        return None
    # A build's own environment does not lead to the user's systemd.
    prefix = ["/usr/bin/env", f"XDG_RUNTIME_DIR={folder}", program, "--user", "--scope", "--quiet", "--collect"]
    prefix += [f"--property=MemoryMax={limit}", "--property=MemorySwapMax=0", "--"]
    # The manager also accepts the property where the kernel does not let it act on it.
    asked = capture([*prefix, "/bin/sh", "-c", _READ_OWN_LIMIT], timeout=_ASK_SECONDS)
    if asked.returncode != 0 or asked.output.strip() != str(limit // _PAGE * _PAGE):
        return None
    return Hold("cgroup v2, a scope of the user's systemd", tuple(prefix))


def _remove_leftovers(parent: Path) -> None:
    """End and remove the groups of builds that were killed."""
    for left in parent.glob(f"{_PREFIX}*"):
        with holding(left) as free, contextlib.suppress(OSError):
            if free:
                _kill(left)
                left.rmdir()


def _kill(group: Path) -> None:
    """Kill all processes of a cgroup v2 group (Linux 5.14), those that were started by others included."""
    _write_if_there(group / "cgroup.kill", "1")


def _remove(group: Path) -> None:
    """Remove a group once its last process is gone; killed ones take a moment."""
    end = time.monotonic() + _GONE_SECONDS
    _kill(group)
    while group.is_dir():
        try:
            group.rmdir()
        except OSError:
            if time.monotonic() > end:
                return  # the next build removes it
            time.sleep(0.05)


def _write_if_there(path: Path, text: str) -> None:
    if path.exists():
        with contextlib.suppress(OSError):
            path.write_text(text)
