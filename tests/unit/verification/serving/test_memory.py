from __future__ import annotations

from pathlib import Path

import pytest

from cpuwheels.kernels.memory.limits import MemoryLimit
from cpuwheels.verification.serving import memory
from cpuwheels.verification.serving.memory import memory_share

GIB = 1 << 30


@pytest.mark.parametrize(
    ("nodes", "group", "machine", "free", "share"),
    [
        ([24], "max", 24, 20, 3 / 24),
        ([8], None, 8, 2, 1.6 / 8),
        ([3], None, 3, 3, 2.4 / 3),
        ([], None, 24, 20, 3 / 24),
        ([32, 32], None, 64, 60, 3 / 32),
        ([32, 32], str(4 * GIB), 4, 4, 3 / 4),
        ([64], None, 8, 8, 3 / 64),
        ([2], None, 2, 8, 0.9),
    ],
    ids=[
        "a machine",
        "little is free",
        "a small machine",
        "no nodes",
        "two nodes",
        "a container on two nodes",
        "a group below the root's",
        "more free than a node has",
    ],
)
def test_the_share_comes_to_3_gib_of_what_vllm_counts_or_most_of_what_is_free(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    nodes: list[int],
    group: str | None,
    machine: int,
    free: int,
    share: float,
) -> None:
    monkeypatch.setattr(memory, "available_memory", lambda: MemoryLimit(machine * GIB, "somewhere", free * GIB))
    for number, size in enumerate(nodes):
        folder = tmp_path / f"devices/system/node/node{number}"
        folder.mkdir(parents=True)
        (folder / "meminfo").write_text(f"Node {number} MemTotal:       {size * GIB >> 10} kB\nNode 0 MemFree: 1 kB\n")
    if group:
        (tmp_path / "fs/cgroup").mkdir(parents=True)
        (tmp_path / "fs/cgroup/memory.max").write_text(f"{group}\n")
    assert memory_share(tmp_path) == pytest.approx(share)
