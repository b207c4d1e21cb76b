import importlib.util
import os
from pathlib import Path

import torch

vllm = Path(importlib.util.find_spec("vllm").origin).parent
torch.ops.load_library(next(vllm.glob(os.environ.get("LIBRARY", "_C") + ".*")))
ops = torch.ops._C

weight = torch.randn(2, 64, 32).bfloat16()  # 2 experts
packed = torch.empty_like(weight)
try:
    ops.prepack_moe_weight(weight, packed, "neon")
    print("packed")
except RuntimeError as error:
    print("refused:", str(error).splitlines()[0])
    raise SystemExit(1) from None
