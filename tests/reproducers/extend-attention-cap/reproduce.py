import importlib.util
import os
from pathlib import Path

import torch

vllm = Path(importlib.util.find_spec("vllm").origin).parent
torch.ops.load_library(next(vllm.glob(os.environ.get("LIBRARY", "_C") + ".*")))
ops = torch.ops._C
if not hasattr(ops, "extend_attention_cpu"):
    print("not in this version or library: extend_attention_cpu")
    raise SystemExit(77)

query = torch.full((2, 1, 32), 4.0).bfloat16()  # 2 tokens, 1 head
keys, values = (torch.tensor(pair)[:, None, None].expand(2, 1, 32).bfloat16() for pair in ([1.0, -1.0], [1.0, 0.0]))
keys, values, out = keys.contiguous(), values.contiguous(), torch.zeros_like(query)
two, zero, cap = torch.tensor([2]), torch.tensor([0]), 1.0
lengths = two, two, zero, 2  # both tokens are new
options = 1.0, cap, False, 0, None, None
ops.extend_attention_cpu(query, keys, values, out, keys, values, torch.arange(2)[None], zero, *lengths, *options)
print(f"{out[1, 0, 0].item():.2f}")
raise SystemExit(not bool(((out[1] - 0.88).abs() < 0.01).all()))
