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

target = torch.tensor([[0.5, 0.5], [0.1, 0.9]])  # two drafts of one request; a vocabulary of 2
drafts, uniform, recovered = torch.tensor([0, -1]), torch.tensor([0.1, 0.1]), torch.tensor([3, 4])
out, ends, bonus = torch.full((1, 3), -1), torch.tensor([2]), torch.tensor([[7]])
ops.rejection_random_sample_kernel_impl(out, ends, drafts, None, target, bonus, recovered, uniform, None, 2, 2, True)
print(out.tolist())
raise SystemExit(out.tolist() != [[0, 4, -1]])
