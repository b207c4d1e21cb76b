import importlib.util
import multiprocessing
import os
import time
from pathlib import Path

import torch

vllm, name = Path(importlib.util.find_spec("vllm").origin).parent, f"reproduce-{os.getpid()}"
torch.ops.load_library(next(vllm.glob(os.environ.get("LIBRARY", "_C") + ".*")))
ops = torch.ops._C
if not hasattr(ops, "shm_recv_tensor_list"):
    print("not in this version or library: shm_recv_tensor_list")
    raise SystemExit(77)


def rank(number, barrier):
    handle = ops.init_shm_manager(name, 3, number, 1)
    barrier.wait()
    ops.join_shm_manager(handle, name)
    time.sleep(2 * (number == 1))  # rank 1 is late
    if number > 0:
        raise SystemExit(int(ops.shm_recv_tensor_list(handle, 0)[0][0].item()))
    [ops.shm_send_tensor_list(handle, [torch.full((16,), float(to))], to) for to in (1, 2)]


fork = multiprocessing.get_context("fork")
ranks = [fork.Process(target=rank, args=(number, barrier)) for barrier in [fork.Barrier(3)] for number in range(3)]
[one.start() for one in ranks], [one.join(10) for one in ranks], [one.kill() for one in ranks]
print("received by ranks 1 and 2:", received := [one.exitcode for one in ranks[1:]])
raise SystemExit(received != [1, 2])
