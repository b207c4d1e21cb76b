import importlib.util
import os
from pathlib import Path

import torch

vllm = Path(importlib.util.find_spec("vllm").origin).parent
torch.ops.load_library(next(vllm.glob(os.environ.get("LIBRARY", "_C") + ".*")))
ops = torch.ops._C
if not hasattr(ops, "rejection_random_sample_kernel_impl"):
    print("not in this version or library: rejection_random_sample_kernel_impl")
    raise SystemExit(77)

draft, target = torch.tensor([[0.0, 1.0]]), torch.tensor([[0.5, 0.5]])
out, one, zero = torch.full((1, 2), -1), torch.tensor([1]), torch.tensor([0])
recovered, bonus, uniform = torch.tensor([3]), torch.tensor([[7]]), torch.tensor([0.0])
ops.rejection_random_sample_kernel_impl(out, one, zero, draft, target, bonus, recovered, uniform, None, 1, 2, False)
print(out.tolist())
raise SystemExit(out.tolist() != [[3, -1]])
