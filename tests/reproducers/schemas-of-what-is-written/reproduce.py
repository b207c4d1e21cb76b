import importlib.util
import os
from pathlib import Path

import torch

vllm = Path(importlib.util.find_spec("vllm").origin).parent
torch.ops.load_library(next(vllm.glob(os.environ.get("LIBRARY", "_C") + ".*")))
ops = torch.ops._C

written = {
    "causal_conv1d_fwd_cpu": ["conv_states"],
    "chunk_gated_delta_rule_cpu": ["initial_state"],
    "decode_attention_cpu": ["attn_logits", "k_buffer", "v_buffer"],
}
missing = []
for name, arguments in written.items():
    if not hasattr(ops, name):
        continue  # in this version or library
    schema = getattr(ops, name).default._schema
    marked = [one.name for one in schema.arguments if one.alias_info is not None and one.alias_info.is_write]
    missing += [f"{name}: {argument}" for argument in arguments if argument not in marked]
print("not marked as written:", "; ".join(missing) or "none")
raise SystemExit(bool(missing))
