import importlib.util
import os
from pathlib import Path

import torch

vllm = Path(importlib.util.find_spec("vllm").origin).parent
torch.ops.load_library(next(vllm.glob(os.environ.get("LIBRARY", "_C") + ".*")))
ops = torch.ops._C
if not hasattr(ops, "decode_attention_cpu"):
    print("not in this version or library: decode_attention_cpu")
    raise SystemExit(77)

query, keys = torch.zeros(1, 1, 32).bfloat16(), torch.zeros(6, 1, 32).bfloat16()
values = torch.arange(6.0)[:, None, None].repeat(1, 1, 32).bfloat16()  # 0 to 2 are the encoder's
out, scratch = torch.zeros(1, 1, 32).bfloat16(), torch.zeros(1, 1, 1, 33)
three, zero, table = torch.tensor([3]), torch.tensor([0]), torch.arange(6)[None]
options = 1.0, 0.0, False, 2, three, None  # a window of 2, an encoder of 3
ops.decode_attention_cpu(query, keys, values, out, None, None, None, scratch, table, zero, three, *options)
print(out[0, 0, 0].item())
raise SystemExit(bool((out != 4.5).any()))
