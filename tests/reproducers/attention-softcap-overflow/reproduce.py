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

keys, values = (torch.stack([torch.full((1, 32), one), torch.zeros(1, 32)]) for one in (10.0, 1.0))
key_cache, value_cache = torch.zeros(1, 1, 64, 32).chunk(2, 2)
lengths, starts = torch.tensor([2], dtype=torch.int32), torch.tensor([0, 1], dtype=torch.int32)
query, out, table = torch.ones(1, 1, 32), torch.zeros(1, 1, 32), torch.tensor([[0]], dtype=torch.int32)
ops.cpu_attn_reshape_and_cache(keys, values, key_cache, value_cache, torch.arange(2), "vec")
plan = ops.get_scheduler_metadata(1, 1, 1, 32, lengths, torch.float32, starts, True, -1, "vec", False, None)
options = 1.0, True, None, -1, table, 1.0, plan, None, None  # scores are 320 and 0, the cap is 1
ops.cpu_attention_with_kv_cache(query, key_cache, value_cache, out, starts, lengths, *options)
print(f"{out[0, 0, 0].item():.3f}")
raise SystemExit(not bool(((out - 0.731).abs() < 0.001).all()))
