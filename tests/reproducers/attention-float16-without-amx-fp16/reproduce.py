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

query, keys = torch.zeros(4, 1, 32).half(), torch.zeros(4, 1, 32).half()  # 4 tokens, 1 head
values, out = torch.arange(4.0)[:, None, None].repeat(1, 1, 32).half(), torch.zeros(4, 1, 32).half()
four, zero = torch.tensor([4]), torch.tensor([0])
lengths = four, four, zero, 4  # all tokens are new
options = 1.0, 0.0, False, 0, None, None
try:
    ops.extend_attention_cpu(query, keys, values, out, keys, values, torch.arange(4)[None], zero, *lengths, *options)
except RuntimeError as error:
    print("not on this CPU, which torch refuses:", str(error).splitlines()[0])
    raise SystemExit(77) from None
expected = torch.tensor([0, 0.5, 1, 1.5]).half()[:, None, None].expand(4, 1, 32)
right = bool(((out - expected).abs() < 0.01).all())
print(out[:, 0, 0].tolist())
raise SystemExit(not right)
