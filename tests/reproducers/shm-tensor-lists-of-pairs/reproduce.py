import importlib.util
import multiprocessing
import os
import time
from pathlib import Path

import torch

vllm = Path(importlib.util.find_spec("vllm").origin).parent
torch.ops.load_library(next(vllm.glob(os.environ.get("LIBRARY", "_C") + ".*")))
ops = torch.ops._C


def rank(number, barrier, received):
    name = f"reproduce-{os.getppid()}"
    handle = ops.init_shm_manager(name, 3, number, 1)
    barrier.wait()
    ops.join_shm_manager(handle, name)
    time.sleep(0.2 * (number == 1))  # rank 1 is late
    if number == 0:
        [ops.shm_send_tensor_list(handle, [torch.full((16,), float(to))], to) for to in (1, 2)]
    else:
        received[number] = ops.shm_recv_tensor_list(handle, 0)[0][0].item()


fork = multiprocessing.get_context("fork")
barrier, received = fork.Barrier(3), fork.Array("d", 3)
ranks = [fork.Process(target=rank, args=(number, barrier, received)) for number in range(3)]
[one.start() for one in ranks], [one.join(3) for one in ranks], [one.kill() for one in ranks]
print("received by ranks 1 and 2:", received[1:])
raise SystemExit(received[1:] != [1, 2])
