"""Starts commands for cpuwheels, and ends what is left of them, also after cpuwheels was killed.

    python -I -S supervisor.py DESCRIPTOR

DESCRIPTOR is one end of a socket pair. For each command cpuwheels sends a byte and descriptors over it: one end of a
channel of its own, the command's stdin, stdout and stderr, and the ends of its pipes that cpuwheels reads. This process
forks for each and goes on; the fork is the command's supervisor. Its environment is empty, and it has one thread only.

A supervisor reads the request from its channel: a length of 8 bytes, and a dictionary written by `marshal`. It answers
with lines: ``forked PID SUPERVISOR``, ``started`` or ``failed ERRNO``, ``ended STATUS``, ``killed`` if something had to
be killed, and ``used SECONDS`` with the CPU time of all of it. The channel ends when nothing of the command is left.
The supervisor reads ``signal NUMBER`` and ``end`` as lines; the end of the channel means that cpuwheels is gone, and
counts as ``end``. What is written after it is read and thrown away: a command that is told to stop must not die of
SIGPIPE while it cleans up.

The end of a channel is seen whatever thread or process of cpuwheels died, and in which order. A signal at the death of
a parent (PR_SET_PDEATHSIG) is not enough: it follows the thread that made the child. On Linux a supervisor inherits
the orphans among its descendants (PR_SET_CHILD_SUBREAPER), so those that left the process group are found, too.
"""

from __future__ import annotations

import contextlib
import ctypes
import marshal
import os
import resource
import select
import signal
import socket
import sys
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection

_LINUX = sys.platform == "linux"
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36  # <sys/prctl.h>
_LIBC = ctypes.CDLL(None) if _LINUX else None
_OWN_SIGNALS = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGCHLD)
_BLOCK = 1 << 16
_MOST_CLOSED = 4096
STRAYS = b"!"
"""Sent when a supervisor was killed, with its process id in 4 bytes: what it left is to be killed, too."""
_FEWEST, _MOST = 4, 8  # descriptors of a command
_LENGTH_BYTES, _PROCESS_BYTES = 8, 4

KILL_SECONDS = 30.0
"""How long processes are killed again and again; then they are in the kernel's hands."""
_ROUND_SECONDS = 0.005


def serve(control: socket.socket) -> None:
    """Fork a supervisor for each command until nobody can send one any more."""
    supervisors: set[int] = set()
    signal.signal(signal.SIGCHLD, lambda *_: _reap(supervisors))
    _inherit_orphans()
    while True:
        word, descriptors, _, _ = socket.recv_fds(control, 1, _MOST)
        if not word:
            return
        if word == STRAYS:
            _kill_strays(supervisors, int.from_bytes(_read_exactly(control, _PROCESS_BYTES), "big"))
            continue
        if len(descriptors) < _FEWEST:
            continue
        channel, *others = descriptors
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})  # it may end before it is in the set
        try:
            process = os.fork()
        except OSError as error:
            os.write(channel, b"failed %d\n" % (error.errno or 0))
            process = -1
        if process == 0:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
            with contextlib.suppress(OSError):
                control.close()
                Supervisor(socket.socket(fileno=channel), others[:3], others[3:]).run()
            os._exit(0)
        supervisors.add(process)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
        for descriptor in descriptors:
            os.close(descriptor)


def _reap(supervisors: set[int]) -> None:
    """Wait for what has ended, so that whoever waits for this process gets the CPU time (getrusage(2)) of it all."""
    with contextlib.suppress(ChildProcessError):
        while ended := os.waitpid(-1, os.WNOHANG)[0]:
            supervisors.discard(ended)


def _kill_strays(supervisors: set[int], killed: int) -> None:
    """Kill what supervisors that were killed themselves have left.

    The channel of a process that dies is closed before its children are handed on. So it is waited for first.
    """
    end = time.monotonic() + KILL_SECONDS
    while killed in supervisors and time.monotonic() < end:  # _reap takes it out
        time.sleep(_ROUND_SECONDS)
    while (strays := _descendants(supervisors)) and time.monotonic() < end:
        for process, _ in strays:
            with contextlib.suppress(OSError):
                os.kill(process, signal.SIGKILL)
        time.sleep(_ROUND_SECONDS)


def _inherit_orphans() -> None:
    if _LIBC:
        _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


class Supervisor:
    """Watches over one command.

    Args:
        channel: To cpuwheels.
        standard: What the command gets as stdin, stdout and stderr.
        outputs: The other ends of its pipes.
    """

    def __init__(self, channel: socket.socket, standard: list[int], outputs: list[int]) -> None:
        self._channel = channel
        self._standard = standard
        self._outputs = outputs
        self._request: dict[str, Any] = {}
        self._leader = 0
        self._status: int | None = None
        self._inbox = b""
        self._asked_to_end = False
        self._wake = -1

    def run(self) -> None:
        """Start the command and return when nothing of it is left, or what is left cannot be ended."""
        _inherit_orphans()
        self._request = _read_request(self._channel)
        self._install_handlers()
        self._start()
        if not self._leader:
            return
        self._wait(None, until_leader=True)
        if self._status is not None and not self._asked_to_end:
            # What still runs in the background may end by itself first.
            self._wait(None if self._request["stays"] else self._request["rest"])
        if not self._is_over():
            self._signal_all(signal.SIGTERM)
            self._wait(self._request["grace"], asked=True)
        if not self._is_over():
            self._kill_all()
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        self._tell(b"used %.6f\n" % (usage.ru_utime + usage.ru_stime))

    def _install_handlers(self) -> None:
        """Have the end of a child, and being told to stop, wake up `select`."""
        self._before = {number: signal.getsignal(number) for number in _OWN_SIGNALS}
        self._wake, write = os.pipe()
        os.set_blocking(self._wake, False)
        os.set_blocking(write, False)
        signal.set_wakeup_fd(write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, self._asked)

    def _asked(self, *_: object) -> None:
        self._asked_to_end = True

    def _start(self) -> None:
        (go, begin), (read, write) = os.pipe(), os.pipe()
        try:
            process = os.fork()
        except OSError as error:
            self._tell(b"failed %d\n" % (error.errno or 0))
            return
        if process == 0:
            os.close(begin)
            if not os.read(go, 1):  # the supervisor is dead, and nobody knows of this process
                os._exit(127)
            self._become_command(write)
        # Before the command does anything: it may kill this process.
        self._tell(b"forked %d %d\n" % (process, os.getpid()))
        os.write(begin, b"+")
        for descriptor in (go, begin, write):
            os.close(descriptor)
        for descriptor in self._standard:
            os.close(descriptor)
        reason = os.read(read, _BLOCK)
        os.close(read)
        if reason:
            os.waitpid(process, 0)
            self._tell(b"failed " + reason + b"\n")
            return
        self._leader = process
        del self._request["argv"], self._request["env"]  # whoever may trace this process would find them here
        self._tell(b"started\n")

    def _become_command(self, answer: int) -> None:
        request = self._request
        try:
            os.setsid()
            if _LIBC:
                _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)  # this process has one thread
            for number, descriptor in enumerate(self._standard):
                os.dup2(descriptor, number)
            os.dup2(answer, 3, inheritable=False)
            _close_from(4)
            answer = 3
            signal.set_wakeup_fd(-1)
            for number, before in self._before.items():
                ignored = number != signal.SIGCHLD and before == signal.SIG_IGN  # as nohup leaves it
                signal.signal(number, signal.SIG_IGN if ignored else signal.SIG_DFL)
            for number in (signal.SIGPIPE, signal.SIGXFSZ):
                signal.signal(number, signal.SIG_DFL)
            for kind, soft, hard in request["limits"]:
                with contextlib.suppress(ValueError):
                    resource.setrlimit(kind, (soft, hard))
            os.umask(request["umask"])
            os.chdir(request["cwd"])
            os.execvpe(request["argv"][0], request["argv"], request["env"])  # noqa: S606  (no shell)
        except OSError as error:
            os.write(answer, b"%d" % (error.errno or 0))
        finally:
            os._exit(127)

    def _wait(self, seconds: float | None, *, until_leader: bool = False, asked: bool = False) -> None:
        """Wait until nothing is left, the leader has ended, the time is over, or there is a wish to end it.

        Args:
            seconds: At most; None for no limit.
            until_leader: Whether the end of the leader is enough.
            asked: Whether the wish to end it is known.
        """
        end = None if seconds is None else time.monotonic() + seconds
        while True:
            over = self._is_over()
            if over or (until_leader and self._status is not None) or (self._asked_to_end and not asked):
                return
            left = None if end is None else end - time.monotonic()
            if left is not None and left <= 0:
                return
            channel = [] if self._channel.fileno() < 0 else [self._channel.fileno()]
            outputs = [] if channel else self._outputs  # cpuwheels reads them as long as it is there
            if not _LINUX and self._status is not None:
                left = min(left or 0.1, 0.1)  # the end of another's child is told to nobody
            ready, _, _ = select.select([self._wake, *channel, *outputs], [], [], left)
            if self._wake in ready:
                with contextlib.suppress(BlockingIOError):
                    os.read(self._wake, _BLOCK)
            if channel and channel[0] in ready:
                self._listen()
            for output in set(outputs) & set(ready):
                if not os.read(output, _BLOCK):
                    self._outputs.remove(output)

    def _listen(self) -> None:
        try:
            block = self._channel.recv(_BLOCK)
        except OSError:
            block = b""
        if not block:
            self._channel.close()
            self._asked_to_end = True
        *lines, self._inbox = (self._inbox + block).split(b"\n")
        for line in lines:
            word, _, number = line.partition(b" ")
            if word == b"end":
                self._asked_to_end = True
            elif word == b"signal" and self._status is None:
                with contextlib.suppress(OSError):
                    os.kill(self._leader, int(number))

    def _is_over(self) -> bool:
        """Take note of the children that have ended, and return whether nothing of the command is left."""
        try:
            while True:
                process, status = os.waitpid(-1, os.WNOHANG)
                if process == 0:
                    return False
                if process == self._leader:
                    self._status = os.waitstatus_to_exitcode(status)
                    self._tell(b"ended %d\n" % self._status)
        except ChildProcessError:
            return _LINUX or not self._group_lives()

    def _group_lives(self) -> bool:
        try:
            os.killpg(self._leader, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            pass
        return True

    def _signal_all(self, number: int) -> None:
        """Send a signal to the process group, and on Linux to every other descendant."""
        found = _descendants()
        # The number of a group of which nobody is left may be another's by now.
        if not _LINUX or any(group == self._leader for _, group in found):
            with contextlib.suppress(OSError):
                os.killpg(self._leader, number)
        for process, group in found:
            if group != self._leader:
                with contextlib.suppress(OSError):
                    os.kill(process, number)

    def _kill_all(self) -> None:
        """Kill what is left, again and again: processes may fork while they are looked for."""
        self._tell(b"killed\n")
        end = time.monotonic() + KILL_SECONDS
        while not self._is_over() and time.monotonic() < end:
            self._signal_all(signal.SIGKILL)
            time.sleep(_ROUND_SECONDS)

    def _tell(self, line: bytes) -> None:
        with contextlib.suppress(OSError):  # nobody listens any more
            self._channel.sendall(line)


def _close_from(first: int) -> None:
    """Close all descriptors from a number on: those that are open, as a system may allow a billion."""
    try:
        names = os.listdir("/proc/self/fd")  # noqa: PTH208
    except OSError:
        os.closerange(first, _MOST_CLOSED)
        return
    for descriptor in map(int, names):
        if descriptor >= first:
            with contextlib.suppress(OSError):  # the listing's own
                os.close(descriptor)


def _read_request(channel: socket.socket) -> dict[str, Any]:
    length = int.from_bytes(_read_exactly(channel, _LENGTH_BYTES), "big")
    request: dict[str, Any] = marshal.loads(_read_exactly(channel, length))  # noqa: S302  (from cpuwheels itself)
    return request


def _read_exactly(channel: socket.socket, length: int) -> bytes:
    parts = []
    while length:
        part = channel.recv(min(length, _BLOCK))
        if not part:
            os._exit(0)
        parts.append(part)
        length -= len(part)
    return b"".join(parts)


def _descendants(but: Collection[int] = ()) -> list[tuple[int, int]]:
    """Return the descendants of this process that have not ended, each with its process group; none but on Linux.

    Those below the processes in `but` are left out, and these themselves.

    All of /proc is read: /proc/PID/task/TID/children is not there in every kernel (CONFIG_PROC_CHILDREN).
    """
    if not _LINUX:
        return []
    children: dict[int, list[int]] = {}
    groups: dict[int, int] = {}
    for name in os.listdir("/proc"):  # noqa: PTH208  (thousands of names in a row)
        if name.isdigit():
            with contextlib.suppress(OSError, ValueError):
                with open(f"/proc/{name}/stat", "rb") as stream:  # noqa: PTH123
                    # proc_pid_stat(5): the name in brackets may have any characters.
                    state, parent, group = stream.read().rpartition(b")")[2].split()[:3]
                children.setdefault(int(parent), []).append(int(name))
                if state not in {b"Z", b"X"}:
                    groups[int(name)] = int(group)
    found, ahead = [], [os.getpid()]
    while ahead:
        below = [process for process in children.get(ahead.pop(), []) if process not in but]
        found += [(process, groups[process]) for process in below if process in groups]
        ahead += below
    return found


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
