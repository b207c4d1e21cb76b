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
    handle = torch.ops._C.init_shm_manager(name, 3, rank, 1)
    barrier.wait()
    torch.ops._C.join_shm_manager(handle, name)
    barrier.wait()
    time.sleep(0.2 if rank == 1 else 0)
    if rank == 0:
        for to in (1, 2):
            data = [torch.full((16,), float(to))]
            torch.ops._C.shm_send_tensor_list(handle, data, to)
    else:
        received = torch.ops._C.shm_recv_tensor_list(handle, 0)
        assert received[0][0].item() == rank


def test_tensor_lists_to_two_ranks() -> None:
    context = multiprocessing.get_context("fork")
    barrier, name = context.Barrier(3), f"test-lists-{os.getpid()}"
    ranks = [context.Process(target=_rank, args=(rank, name, barrier)) for rank in range(3)]
    for rank in ranks:
        rank.start()
    for rank in ranks:
        rank.join(10)
        rank.kill()
    assert [rank.exitcode for rank in ranks] == [0, 0, 0]
