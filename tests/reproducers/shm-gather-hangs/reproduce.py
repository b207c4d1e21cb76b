import importlib.util
import multiprocessing
import os
import time
from pathlib import Path

import torch

vllm, name = Path(importlib.util.find_spec("vllm").origin).parent, f"reproduce-{os.getpid()}"
torch.ops.load_library(next(vllm.glob(os.environ.get("LIBRARY", "_C") + ".*")))
ops = torch.ops._C
if not hasattr(ops, "shm_gather"):
    print("not in this version or library: shm_gather")
    raise SystemExit(77)


def rank(number, barrier):
    handle = ops.init_shm_manager(name, 2, number, 1)
    barrier.wait()
    ops.join_shm_manager(handle, name)
    time.sleep(2 * (number == 0))  # the receiver is late
    for _ in range(4):
        ops.shm_gather(handle, torch.ones(16), [torch.zeros(16)] * 2 if number == 0 else None, 0)


fork = multiprocessing.get_context("fork")
ranks = [fork.Process(target=rank, args=(number, barrier)) for barrier in [fork.Barrier(2)] for number in (0, 1)]
[one.start() for one in ranks], [one.join(10) for one in ranks]
print("ranks that have not returned after 10 seconds:", sum(one.is_alive() for one in ranks))
[one.kill() for one in ranks], [one.unlink() for one in Path("/dev/shm").glob(name + "_*")]
raise SystemExit(any(one.exitcode != 0 for one in ranks))
