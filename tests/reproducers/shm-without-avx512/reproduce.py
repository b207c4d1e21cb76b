import importlib.util
import multiprocessing
import os
from pathlib import Path

import torch

vllm, name = Path(importlib.util.find_spec("vllm").origin).parent, f"reproduce-{os.getpid()}"
torch.ops.load_library(next(vllm.glob(os.environ.get("LIBRARY", "_C") + ".*")))
ops = torch.ops._C
if not hasattr(ops, "shm_allreduce"):
    print("shm_allreduce is not in this library")
    raise SystemExit(1)


def rank(number, barrier, found):
    handle = ops.init_shm_manager(name, 2, number, 1)
    barrier.wait()
    ops.join_shm_manager(handle, name)
    barrier.wait()
    data = torch.full((100,), number + 1.0)
    ops.shm_allreduce(handle, data)
    found[number] = data.mean().item()


fork = multiprocessing.get_context("fork")
barrier, found = fork.Barrier(2), fork.Array("d", 2)
ranks = [fork.Process(target=rank, args=(number, barrier, found)) for number in (0, 1)]
[one.start() for one in ranks], [one.join(5) for one in ranks], [one.kill() for one in ranks]
print("found by ranks 0 and 1:", found[:])
raise SystemExit(found[:] != [3, 3])
