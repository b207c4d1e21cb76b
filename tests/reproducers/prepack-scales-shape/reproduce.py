import importlib.util
import os
from pathlib import Path

import torch

vllm = Path(importlib.util.find_spec("vllm").origin).parent
torch.ops.load_library(next(vllm.glob(os.environ.get("LIBRARY", "_C") + ".*")))
ops = torch.ops._C
if not hasattr(ops, "float8_linear_prepack_cpu"):
    print("not in this version or library: float8_linear_prepack_cpu")
    raise SystemExit(77)

weight, scales = torch.zeros(32, 32).to(torch.float8_e4m3fn), torch.ones(32)
ops.float8_linear_prepack_cpu(weight, scales)
print("shape after the call:", tuple(scales.shape))
raise SystemExit(scales.shape != (32,))
