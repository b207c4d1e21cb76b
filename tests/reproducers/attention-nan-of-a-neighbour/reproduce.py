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

torch.manual_seed(0)
torch.set_num_threads(1)  # one thread works on both sequences
query, keys, values = (torch.randn(37, 1, 32).bfloat16() for _ in range(3))
values[20] = float("nan")  # in the first sequence, of 32 tokens; the second one has 5
out, table = torch.zeros_like(query), torch.zeros(2, 32, dtype=torch.int64)
lengths, starts = torch.tensor([32, 5]), torch.tensor([0, 32])  # all tokens are new
sizes = torch.arange(2), lengths, lengths, starts, 32
ops.extend_attention_cpu(query, keys, values, out, keys, values, table, *sizes, 1.0, 0.0, False, 0, None, None)
print("NaN in the second sequence:", int(out[32:].isnan().sum()), "of", out[32:].numel())
raise SystemExit(bool(out[32:].isnan().any()))
