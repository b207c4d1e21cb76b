"""How much memory a server may take."""

from __future__ import annotations

import re
from pathlib import Path

from cpuwheels.kernels.memory.limits import available_memory

WANTED = 3 << 30
"""Bytes: the server's code, and the cache of keys and values."""

SYSTEM = Path("/sys")


def memory_share(system: Path = SYSTEM) -> float:
    """Return ``--gpu-memory-utilization``: on a CPU the share of the memory that the server may take.

    vLLM takes it of what one memory node has, or of the root control group's limit if that is less, and refuses to
    start if not as much is free (``get_memory_node_info`` in vllm/utils/cpu_resource_utils.py).

    Args:
        system: The sys file system.
    """
    limit = available_memory()
    return min(0.9, min(WANTED, 0.8 * limit.available) / _whole(system, limit.bytes))


def _whole(system: Path, machine: int) -> int:
    """Return the bytes that vLLM takes a share of; the machine's memory if Linux reports no nodes."""
    texts = [path.read_text() for path in (system / "devices/system/node").glob("node[0-9]*/meminfo")]
    nodes = [int(found[1]) << 10 for text in texts if (found := re.search(r"MemTotal:\s+(\d+) kB", text))]
    group = system / "fs/cgroup/memory.max"
    text = group.read_text().strip() if group.is_file() else ""
    return min([*nodes, *([int(text)] if text.isdigit() else [])], default=machine)
