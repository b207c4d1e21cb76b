import importlib.util
import os
from pathlib import Path

import torch

vllm = Path(importlib.util.find_spec("vllm").origin).parent
torch.ops.load_library(next(vllm.glob(os.environ.get("LIBRARY", "_C") + ".*")))
ops = torch.ops._C
if not hasattr(ops, "cpu_gemm_wna16"):
    print("cpu_gemm_wna16 is not in this library")
    raise SystemExit(1)

words = torch.tensor([0x76543210, -0x01234568], dtype=torch.int32)  # 0 to 15: a value for each of 16 outputs
x, scales, out = torch.ones(1, 32).bfloat16(), torch.ones(1, 32).bfloat16(), torch.zeros(1, 32).bfloat16()
ops.cpu_gemm_wna16(x, words.repeat(2, 32), out, scales, None, None, 8, "vec")
wanted = 32 * (torch.arange(32) % 16 - 8)
print("outputs:", out[0, :16].int().tolist())
raise SystemExit(not torch.equal(out[0].long(), wanted))
