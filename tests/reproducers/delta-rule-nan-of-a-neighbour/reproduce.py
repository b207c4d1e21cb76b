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
torch.set_num_threads(1)  # one thread works on both sequences
query, key, value = (torch.randn(1, 69, 1, 64).bfloat16() for _ in range(3))
value[0, 10] = float("nan")  # in the first sequence, of 64 tokens; the second one has 5
decay, beta, states = -torch.rand(1, 69, 1), torch.rand(1, 69, 1).bfloat16(), torch.zeros(2, 1, 64, 64)
ends, slots = torch.tensor([0, 64, 69], dtype=torch.int32), torch.tensor([0, 1], dtype=torch.int32)
out, _ = ops.chunk_gated_delta_rule_cpu(query, key, value, decay, beta, states, True, ends, False, True, slots)
print("NaN in the second sequence:", int(out[0, 64:].isnan().sum()), "of", out[0, 64:].numel())
raise SystemExit(bool(out[0, 64:].isnan().any()))
