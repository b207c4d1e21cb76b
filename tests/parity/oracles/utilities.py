"""Where tokens go in a paged cache, and what this machine is."""

from __future__ import annotations

import ctypes
import mmap
import platform
from collections.abc import Sequence
from pathlib import Path

import torch

# mov eax, edi; mov ecx, esi; push rbx; cpuid; pop rbx; ret: the calling convention of System V for two integers.
_CPUID = bytes.fromhex("89f8 89f1 53 0fa2 5b c3")
_GET_MEMPOLICY = {"x86_64": 239, "aarch64": 236, "s390x": 269}


def slots(positions: torch.Tensor, starts: torch.Tensor, block_table: torch.Tensor, block_size: int) -> torch.Tensor:
    """Return block * block size + place in the block for each token (Kwon et al. 2023, arXiv:2309.06180, section 4.2).

    Args:
        positions: Of each token in its request.
        starts: Where each request's tokens begin; then where the last one's end.
        block_table: (requests, blocks): the blocks of each request.
        block_size: Tokens in a block.
    """
    request = torch.repeat_interleave(torch.arange(len(starts) - 1), starts.long().diff())
    positions = positions[: len(request)]
    return block_table[request, positions // block_size].long() * block_size + positions % block_size


def has_amx_fp8() -> bool:
    """Return CPUID leaf 1EH, subleaf 1, EAX bit 4 (Intel Architecture Instruction Set Extensions, 319433, AMX-FP8)."""
    if platform.machine() != "x86_64":
        return False
    with mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC) as memory:
        memory.write(_CPUID)
        start = ctypes.c_char.from_buffer(memory)
        cpuid = ctypes.CFUNCTYPE(ctypes.c_uint32, ctypes.c_uint32, ctypes.c_uint32)(ctypes.addressof(start))
        answer = cpuid(0, 0) >= 0x1E and bool(cpuid(0x1E, 1) >> 4 & 1)
        del cpuid, start
    return answer


def can_bind_memory() -> bool:
    """Return whether this process may choose its memory's nodes: containers often forbid it (man 2 get_mempolicy)."""
    number = _GET_MEMPOLICY.get(platform.machine())
    if number is None or not Path("/proc/self/numa_maps").exists():
        return False
    return ctypes.CDLL(None, use_errno=True).syscall(number, None, None, 0, None, 0) == 0


def policy(nodes: Sequence[int]) -> str:
    """Return what the kernel calls memory that comes only from these nodes (man 7 numa, /proc/<pid>/numa_maps)."""
    return f"bind:{nodes[0]}" if len(nodes) == 1 else "interleave:" + ",".join(map(str, nodes))
