import importlib.util
import os
from pathlib import Path

import torch

vllm = Path(importlib.util.find_spec("vllm").origin).parent
torch.ops.load_library(next(vllm.glob(os.environ.get("LIBRARY", "_C") + ".*")))
ops = torch.ops._C
if not hasattr(ops, "chunk_gated_delta_rule_cpu"):
    print("not in this version or library: chunk_gated_delta_rule_cpu")
    raise SystemExit(77)

torch.manual_seed(0)
query, key, value = (torch.randn(1, 5, 2, 64).bfloat16() for _ in range(3))
decay, beta = -torch.rand(1, 5, 2), torch.rand(1, 5, 2).bfloat16()
ends, slots = torch.tensor([0, 5], dtype=torch.int32), torch.tensor([0], dtype=torch.int32)
found = []
for q, k in [(query, key), [one.transpose(1, 2).contiguous().transpose(1, 2) for one in (query, key)]]:
    states = torch.zeros(1, 2, 64, 64)
    found += ops.chunk_gated_delta_rule_cpu(q, k, value, decay, beta, states, True, ends, False, True, slots)[:1]
print("the same:", torch.equal(*found))
raise SystemExit(not torch.equal(*found))
