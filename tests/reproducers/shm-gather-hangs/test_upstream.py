# tests/distributed/test_cpu_shm.py
import multiprocessing
import os
import time

import pytest
import torch
from vllm.platforms import current_platform

if not current_platform.is_cpu():
    pytest.skip("skipping CPU-only tests", allow_module_level=True)

current_platform.import_kernels()
if not hasattr(torch.ops._C, "init_shm_manager"):
    pytest.skip("init_shm_manager is not in this build", allow_module_level=True)


def _rank(rank: int, name: str, barrier) -> None:
    handle = torch.ops._C.init_shm_manager(name, 2, rank, 1)
    barrier.wait()
    torch.ops._C.join_shm_manager(handle, name)
    barrier.wait()
    time.sleep(0.2 if rank == 0 else 0)  # the receiver is late
    for step in range(4):
        data = torch.full((16,), float(step + rank))
        out = [torch.zeros(16) for _ in range(2)] if rank == 0 else None
        torch.ops._C.shm_gather(handle, data, out, 0)
        assert rank or [each[0].item() for each in out] == [step, step + 1]


def test_gather_with_a_late_receiver() -> None:
    context = multiprocessing.get_context("fork")
    barrier, name = context.Barrier(2), f"test-gather-{os.getpid()}"
    ranks = [context.Process(target=_rank, args=(rank, name, barrier)) for rank in range(2)]
    for rank in ranks:
        rank.start()
    for rank in ranks:
        rank.join(10)
        rank.kill()
    assert [rank.exitcode for rank in ranks] == [0, 0]
