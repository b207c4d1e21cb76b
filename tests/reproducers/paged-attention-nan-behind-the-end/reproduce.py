import importlib.util
import os
from pathlib import Path

import torch

vllm = Path(importlib.util.find_spec("vllm").origin).parent
torch.ops.load_library(next(vllm.glob(os.environ.get("LIBRARY", "_C") + ".*")))
ops = torch.ops._C
if not hasattr(ops, "cpu_attention_with_kv_cache"):
    print("not in this version or library: cpu_attention_with_kv_cache")
    raise SystemExit(77)

keys, values = torch.zeros(64, 1, 32), torch.ones(64, 1, 32)
values[5:] = float("nan")  # what another request has left
caches = torch.zeros(1, 1, 64, 32), torch.zeros(1, 1, 64, 32)
ops.cpu_attn_reshape_and_cache(keys, values, *caches, torch.arange(64), "vec")
lengths, starts, table = (torch.tensor(each, dtype=torch.int32) for each in ([5], [0, 1], [[0]]))
plan = ops.get_scheduler_metadata(1, 1, 1, 32, lengths, torch.float32, starts, True, -1, "vec", False, None)
query, out = torch.ones(1, 1, 32), torch.zeros(1, 1, 32)
rest = starts, lengths, 1.0, True, None, -1, table, 0.0, plan, None, None
ops.cpu_attention_with_kv_cache(query, *caches, out, *rest)
print(f"{out[0, 0, 0].item():.3f}")
raise SystemExit(not bool(((out - 1).abs() < 0.01).all()))
