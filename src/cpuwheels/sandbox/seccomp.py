"""The system calls that a step is refused, as a program for the kernel's filter (seccomp(2), BPF)."""

from __future__ import annotations

import errno
import platform
import struct
import sys

_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}  # <linux/audit.h>: AUDIT_ARCH_*
_X32 = 0x40000000  # <asm/unistd.h>: calls of x86-64's 32-bit ABI

# Name → number on x86-64, and on aarch64 (<asm/unistd.h>); None where there is no such call.
_REFUSED: dict[str, tuple[int, int | None]] = {
    # Other processes.
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "process_madvise": (440, 440),
    "kcmp": (312, 272),
    "pidfd_getfd": (438, 438),
    "migrate_pages": (256, 238),
    "move_pages": (279, 239),
    # Keys, which no namespace separates.
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    # Mounts and namespaces.
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "setns": (308, 268),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    # Large parts of the kernel that no build needs, and calls that reach around this filter.
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "fanotify_init": (300, 262),
    "lookup_dcookie": (212, 18),
    # The machine as a whole.
    "acct": (163, 89),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "reboot": (169, 142),
    "syslog": (103, 116),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "clock_adjtime": (305, 266),
    "adjtimex": (159, 171),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "iopl": (172, None),
    "ioperm": (173, None),
}
_CLONE, _UNSHARE, _CLONE3 = (56, 220), (272, 97), (435, 435)
_SOCKET, _PRLIMIT, _IOCTL = (41, 198), (302, 261), (16, 29)
_NAMESPACES = 0x7E020080  # <linux/sched.h>: CLONE_NEW* of clone and unshare
_PUT_INTO_TERMINAL = (0x5412, 0x541C)  # <asm/ioctls.h>: TIOCSTI, TIOCLINUX
_WITH_A_NAMESPACE = (1, 2, 10, 16)  # <bits/socket.h>: AF_UNIX, AF_INET, AF_INET6, AF_NETLINK

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06  # <linux/bpf_common.h>
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050000  # <linux/seccomp.h>: SECCOMP_RET_ALLOW, SECCOMP_RET_ERRNO
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16  # struct seccomp_data


def is_known(machine: str | None = None) -> bool:
    """Return whether there is a filter for a machine; this one if not given."""
    return (machine or platform.machine()) in _ARCHITECTURES and sys.byteorder == "little"


def syscall_filter(*, sockets: bool, machine: str | None = None) -> bytes:
    """Return the filter as an array of ``struct sock_filter``.

    Args:
        sockets: Whether sockets may be made, of those families that a network namespace separates. Without such a
            namespace there must be none: a socket is all that a network, another program's service or the metadata of
            a cloud machine is reached by. Pairs of connected sockets can always be made.
        machine: As the kernel names it; this one if not given.

    Raises:
        ValueError: There is none for it; see `is_known`.
    """
    machine = machine or platform.machine()
    column = list(_ARCHITECTURES).index(machine)
    refuse = _REFUSE | errno.EPERM
    code = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_EQUAL, 1, 0, _ARCHITECTURES[machine]),
        (_RETURN, 0, 0, refuse),
        (_LOAD, 0, 0, _NUMBER),
    ]
    if machine == "x86_64":
        code += [(_AT_LEAST, 0, 1, _X32), (_RETURN, 0, 0, refuse)]
    for numbers in _REFUSED.values():
        if (number := numbers[column]) is not None:
            code += _if_called(number, [(_RETURN, 0, 0, refuse)])
    # The flags of clone3 lie in memory, where a filter cannot look; libraries then use clone.
    code += _if_called(_CLONE3[column], [(_RETURN, 0, 0, _REFUSE | errno.ENOSYS)])
    for call in (_CLONE, _UNSHARE):
        code += _if_called(
            call[column], [_argument(0), (_ANY_BIT, 0, 1, _NAMESPACES), (_RETURN, 0, 0, refuse), _allow()]
        )
    families = _WITH_A_NAMESPACE if sockets else ()
    known = [(_EQUAL, len(families) - place, 0, family) for place, family in enumerate(families)]
    code += _if_called(_SOCKET[column], [_argument(0), *known, (_RETURN, 0, 0, _REFUSE | errno.EAFNOSUPPORT), _allow()])
    # The limits of another process.
    code += _if_called(_PRLIMIT[column], [_argument(0), (_EQUAL, 1, 0, 0), (_RETURN, 0, 0, refuse), _allow()])
    first, second = _PUT_INTO_TERMINAL
    code += _if_called(
        _IOCTL[column], [_argument(1), (_EQUAL, 1, 0, first), (_EQUAL, 0, 1, second), (_RETURN, 0, 0, refuse), _allow()]
    )
    code.append(_allow())
    return b"".join(struct.pack("=HBBI", *one) for one in code)


def _if_called(number: int, then: list[tuple[int, int, int, int]]) -> list[tuple[int, int, int, int]]:
    return [(_EQUAL, 0, len(then), number), *then]


def _argument(place: int) -> tuple[int, int, int, int]:
    """Load the lower half of an argument."""
    return (_LOAD, 0, 0, _ARGUMENTS + 8 * place)


def _allow() -> tuple[int, int, int, int]:
    return (_RETURN, 0, 0, _ALLOW)
