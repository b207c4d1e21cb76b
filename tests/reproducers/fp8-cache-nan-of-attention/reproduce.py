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

caches = [torch.zeros(1, 1, 64, 32, dtype=torch.uint8) for _ in range(2)]
caches[1][0, 0, 2, 7] = 0x7F  # NaN in a component of the third of five values, which are zero
lengths, starts, table = (torch.tensor(each, dtype=torch.int32) for each in ([5], [0, 1], [[0]]))
what = 1, 1, 1, 32, lengths, torch.float32, starts, True, -1, "vec", False, None
plan = ops.get_scheduler_metadata(*what, "fp8_e4m3")
query, out = torch.ones(1, 1, 32), torch.zeros(1, 1, 32)
rest = starts, lengths, 1.0, True, None, -1, table, 0.0, plan, None, None
ops.cpu_attention_with_kv_cache(query, *caches, out, *rest, 1.0, 1.0, "fp8_e4m3")
print("the component with NaN:", f"{out[0, 0, 7].item():.1f}, its neighbour: {out[0, 0, 8].item():.1f}")
raise SystemExit(not bool(out[0, 0, 7].isnan()))
