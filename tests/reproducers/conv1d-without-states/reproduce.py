import importlib.util
import os
from pathlib import Path

import torch

vllm = Path(importlib.util.find_spec("vllm").origin).parent
torch.ops.load_library(next(vllm.glob(os.environ.get("LIBRARY", "_C") + ".*")))
ops = torch.ops._C
if not hasattr(ops, "causal_conv1d_fwd_cpu"):
    print("not in this version or library: causal_conv1d_fwd_cpu")
    raise SystemExit(77)

x = torch.ones(6, 32, dtype=torch.bfloat16).T  # 32 channels, 6 tokens
weight, ends = torch.ones(32, 4, dtype=torch.bfloat16), torch.tensor([0, 6], dtype=torch.int32)
out = ops.causal_conv1d_fwd_cpu(x, weight, None, None, ends, None, None, False, -1, False)
print(out[0].tolist())
raise SystemExit(out[0].tolist() != [1, 2, 3, 4, 4, 4])
