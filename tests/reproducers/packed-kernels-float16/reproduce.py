import importlib.util
import os
from pathlib import Path

import torch

vllm = Path(importlib.util.find_spec("vllm").origin).parent
torch.ops.load_library(next(vllm.glob(os.environ.get("LIBRARY", "_C") + ".*")))
ops = torch.ops._C
if not hasattr(ops, "fused_experts_cpu"):
    print("not in this version or library: fused_experts_cpu")
    raise SystemExit(77)
if torch.cpu.get_capabilities().get("avx512_fp16"):
    print("not on this CPU: it has AVX512-FP16, with which these weights are computed")
    raise SystemExit(77)

x = torch.ones(4, 32, dtype=torch.float16)  # 4 tokens, 1 expert, hidden and inner size 32
w13, w2 = (ops.convert_weight_packed(torch.zeros(1, rows, 32, dtype=torch.float16)) for rows in (64, 32))
share, expert, out = torch.ones(4, 1), torch.zeros(4, 1, dtype=torch.int32), torch.ones_like(x)
given = {"hidden_states": x, "w1": w13, "w2": w2, "topk_weights": share, "topk_ids": expert, "is_vnni": True}
given |= {"out": out, "inplace": False, "moe_comp_method": 0, "act_method": 0}
names = [one.name for one in ops.fused_experts_cpu.default._schema.arguments]  # they differ between versions
try:
    result = ops.fused_experts_cpu(**{name: given.get(name) for name in names})
    print("computed, right:", right := bool(((out if result is None else result) == 0).all()))
except RuntimeError as error:
    print("refused:", right := str(error).splitlines()[0])
raise SystemExit(not right)
