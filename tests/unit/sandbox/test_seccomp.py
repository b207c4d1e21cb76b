"""The filter's program, run here by a small machine of its own."""

from __future__ import annotations

import errno
import platform
import struct

import pytest

from cpuwheels.sandbox.seccomp import is_known, syscall_filter

ALLOW, ERRNO = 0x7FFF0000, 0x00050000
ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
NEW_USER, NEW_NET = 0x10000000, 0x40000000
SIGCHLD = 17


def judge(machine: str, number: int, *arguments: int, sockets: bool = True, architecture: int | None = None) -> int:
    """Run the filter for a system call: 0 if it is allowed, else the error number."""
    code = syscall_filter(sockets=sockets, machine=machine)
    data = struct.pack("<IIQ6Q", number, architecture or ARCHITECTURES[machine], 0, *[*arguments, 0, 0, 0, 0, 0, 0][:6])
    steps = list(struct.iter_unpack("<HBBI", code))
    assert len(steps) < 4096, "BPF_MAXINSNS"
    word = at = 0
    while True:
        what, yes, no, value = steps[at]
        at += 1
        if what == 0x20:
            word = int.from_bytes(data[value : value + 4], "little")
        elif what == 0x06:
            return 0 if value == ALLOW else value - ERRNO
        else:
            holds = {0x15: word == value, 0x35: word >= value, 0x45: bool(word & value)}[what]
            at += yes if holds else no


@pytest.mark.parametrize("machine", ARCHITECTURES)
@pytest.mark.parametrize("sockets", [True, False])
def test_what_every_program_does_is_allowed(machine: str, sockets: bool) -> None:
    read, openat, socketpair, clone = {"x86_64": (0, 257, 53, 56), "aarch64": (63, 56, 199, 220)}[machine]
    for number in (read, openat, socketpair):
        assert judge(machine, number, sockets=sockets) == 0
    assert judge(machine, clone, SIGCHLD, sockets=sockets) == 0
    prlimit, ioctl = {"x86_64": (302, 16), "aarch64": (261, 29)}[machine]
    assert judge(machine, prlimit, 0) == 0
    assert judge(machine, ioctl, 1, 0x5401) == 0


@pytest.mark.parametrize(
    ("name", "x86_64", "aarch64"),
    [
        ("ptrace", 101, 117),
        ("process_vm_readv", 310, 270),
        ("process_vm_writev", 311, 271),
        ("keyctl", 250, 219),
        ("mount", 165, 40),
        ("setns", 308, 268),
        ("bpf", 321, 280),
        ("perf_event_open", 298, 241),
        ("userfaultfd", 323, 282),
        ("io_uring_setup", 425, 425),
        ("open_by_handle_at", 304, 265),
        ("pidfd_getfd", 438, 438),
    ],
)
def test_what_reaches_other_processes_or_the_kernel_is_refused(name: str, x86_64: int, aarch64: int) -> None:
    assert name
    assert judge("x86_64", x86_64) == errno.EPERM
    assert judge("aarch64", aarch64) == errno.EPERM


@pytest.mark.parametrize(("machine", "clone", "unshare"), [("x86_64", 56, 272), ("aarch64", 220, 97)])
def test_there_are_no_namespaces_of_its_own(machine: str, clone: int, unshare: int) -> None:
    for call in (clone, unshare):
        assert judge(machine, call, NEW_USER | SIGCHLD) == errno.EPERM
        assert judge(machine, call, NEW_NET) == errno.EPERM
    assert judge(machine, 435) == errno.ENOSYS


@pytest.mark.parametrize(("machine", "socket"), [("x86_64", 41), ("aarch64", 198)])
def test_sockets(machine: str, socket: int) -> None:
    unix, internet, vsock, packet = 1, 2, 40, 17
    assert [judge(machine, socket, each) for each in (unix, internet)] == [0, 0]
    assert [judge(machine, socket, each) for each in (vsock, packet)] == [errno.EAFNOSUPPORT] * 2
    without = [judge(machine, socket, each, sockets=False) for each in (unix, internet, vsock, packet)]
    assert without == [errno.EAFNOSUPPORT] * 4


@pytest.mark.parametrize(("machine", "prlimit", "ioctl"), [("x86_64", 302, 16), ("aarch64", 261, 29)])
def test_limits_of_others_and_the_terminals_input_are_refused(machine: str, prlimit: int, ioctl: int) -> None:
    assert judge(machine, prlimit, 4711) == errno.EPERM
    assert [judge(machine, ioctl, 0, request) for request in (0x5412, 0x541C)] == [errno.EPERM] * 2


def test_calls_of_other_abis_are_refused() -> None:
    assert judge("x86_64", 0x40000000) == errno.EPERM
    assert judge("x86_64", 0, architecture=0x40000003) == errno.EPERM


def test_machines_without_a_filter() -> None:
    assert not is_known("s390x")
    assert is_known("aarch64")
    if platform.machine() in ARCHITECTURES:
        assert syscall_filter(sockets=True) == syscall_filter(sockets=True, machine=platform.machine())
    with pytest.raises(ValueError, match="s390x"):
        syscall_filter(sockets=True, machine="s390x")
