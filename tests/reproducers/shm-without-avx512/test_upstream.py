# tests/distributed/test_cpu_shm.py
import multiprocessing
import os

import pytest
import torch
from vllm.platforms import current_platform

if not current_platform.is_cpu():
    pytest.skip("skipping CPU-only tests", allow_module_level=True)

current_platform.import_kernels()


def _rank(rank: int, name: str, barrier, dtype: torch.dtype, size: int) -> None:
    handle = torch.ops._C.init_shm_manager(name, 2, rank, 1)
    barrier.wait()
    torch.ops._C.join_shm_manager(handle, name)
    barrier.wait()
    data = torch.full((size,), rank + 1.0, dtype=dtype)
    torch.ops._C.shm_allreduce(handle, data)
    assert (data == 3).all()
    gathered = torch.zeros(2, size, dtype=dtype)
    torch.ops._C.shm_all_gather(handle, data * (rank + 1), gathered)
    assert (gathered == torch.tensor([[3], [6]])).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("size", [64, 1000])
def test_sums_and_gathers(dtype: torch.dtype, size: int) -> None:
    context = multiprocessing.get_context("fork")
    barrier, name = context.Barrier(2), f"test-shm-{os.getpid()}-{size}-{dtype}"
    ranks = [context.Process(target=_rank, args=(rank, name, barrier, dtype, size)) for rank in range(2)]
    for rank in ranks:
        rank.start()
    for rank in ranks:
        rank.join(10)
        rank.kill()
    assert [rank.exitcode for rank in ranks] == [0, 0]
