import importlib.util
import os
from pathlib import Path

import torch

vllm = Path(importlib.util.find_spec("vllm").origin).parent
torch.ops.load_library(next(vllm.glob(os.environ.get("LIBRARY", "_C") + ".*")))
ops = torch.ops._C
if not hasattr(ops, "rotary_embedding"):
    print("not in this version or library: rotary_embedding")
    raise SystemExit(77)

torch.manual_seed(0)
query = torch.randn(3, 2 * 96).bfloat16()  # 2 heads of 96, of which 24 components are rotated: GPT-NeoX-20B
before, positions, cache = query.clone(), torch.arange(3), torch.randn(8, 24).bfloat16()
ops.rotary_embedding(positions, query, None, 96, cache, True, 0, False)

cos, sin = cache[positions].float()[:, None].chunk(2, -1)
x, y = before.view(3, 2, 96)[..., :24].float().chunk(2, -1)
expected = torch.cat([x * cos - y * sin, y * cos + x * sin], -1)
right = torch.allclose(query.view(3, 2, 96)[..., :24].float(), expected, atol=0.05)
print("rotated, right:", right)
raise SystemExit(not right)
