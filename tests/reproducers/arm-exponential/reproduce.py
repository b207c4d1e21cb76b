import importlib.util
import os
from pathlib import Path

import torch

vllm = Path(importlib.util.find_spec("vllm").origin).parent
torch.ops.load_library(next(vllm.glob(os.environ.get("LIBRARY", "_C") + ".*")))
ops = torch.ops._C

gate, up = torch.linspace(-20, 20, 4096)[None], torch.ones(1, 4096)
out = torch.empty(1, 4096)
ops.silu_and_mul(out, torch.cat([gate, up], 1))
expected = gate.double() / (1 + (-gate.double()).exp())
error = ((out - expected) / expected).nan_to_num().abs().max().item()
print(f"largest relative error: {error:.1e}")
raise SystemExit(error > 1e-5)
