"""Write a model with quantised weights, and the same weights in plain form for transformers.

int8 is what compressed-tensors calls W8A8: a scale for each row of weights, and one for each token's input, which is
found when it is there. AWQ has four bits, and a scale and a zero for each group of `GROUP` inputs. The plain form has
the weights that the quantised one stands for. AWQ's are exact in each data type: its scales have `BITS` significant
bits, so that their products with whole numbers up to 15 fit into the 8 bits of bfloat16.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import torch
from safetensors.torch import load_file, save_file

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from transformers import PreTrainedModel

REFERENCE = "reference"
"""Folder, in the model's, of the plain form."""
GROUP = 64
BITS = 4
WEIGHTS = "model.safetensors"
PLACES = (0, 2, 4, 6, 1, 3, 5, 7)
"""Which of eight columns each four bits of an AWQ word are, the lowest bits first."""

EIGHT_BITS: dict[str, Any] = {"num_bits": 8, "type": "int", "symmetric": True}
INT8: dict[str, Any] = {
    "quant_method": "compressed-tensors",
    "format": "int-quantized",
    "quantization_status": "compressed",
    "ignore": ["lm_head"],
    "config_groups": {
        "group_0": {
            "targets": ["Linear"],
            "weights": {"num_bits": 8, "type": "int", "strategy": "channel", "symmetric": True, "dynamic": False},
            "input_activations": {
                "num_bits": 8,
                "type": "int",
                "strategy": "token",
                "symmetric": True,
                "dynamic": True,
            },
        }
    },
}
AWQ: dict[str, Any] = {
    "quant_method": "awq",
    "bits": 4,
    "group_size": GROUP,
    "zero_point": True,
    "version": "gemm",
    "modules_to_not_convert": ["lm_head"],
}


def write_int8(model: PreTrainedModel, folder: Path) -> None:
    """Write a model with weights of 8 bits."""
    _write(model, folder, INT8, int8)


def write_awq(model: PreTrainedModel, folder: Path) -> None:
    """Write a model with weights of 4 bits."""
    _write(model, folder, AWQ, awq)


def int8(weight: torch.Tensor) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
    """Return the parts of a weight matrix (outputs, inputs), and the matrix that they stand for."""
    scale = weight.abs().amax(dim=1, keepdim=True) / 127
    whole = (weight / scale).round().clamp(-127, 127)
    return {"weight": whole.to(torch.int8), "weight_scale": scale}, whole * scale


def awq(weight: torch.Tensor) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
    """Return the parts of a weight matrix (outputs, inputs), and the matrix that they stand for."""
    outputs, inputs = weight.shape
    groups = weight.t().reshape(inputs // GROUP, GROUP, outputs)
    low, high = groups.amin(dim=1).clamp(max=0), groups.amax(dim=1).clamp(min=0)
    scale = few_bits((high - low) / 15)
    zero = (-low / scale).round().clamp(0, 15)
    whole = (groups / scale[:, None] + zero[:, None]).round().clamp(0, 15)
    plain = (whole - zero[:, None]) * scale[:, None]
    parts = {"qweight": packed(whole.reshape(inputs, outputs)), "qzeros": packed(zero), "scales": scale.half()}
    return parts, plain.reshape(inputs, outputs).t()


def rounded(weight: torch.Tensor, dtype: torch.dtype) -> Callable[[torch.Tensor], torch.Tensor]:
    """Return a projection that rounds each token's input to 8 bits as vLLM's kernel does: its largest becomes 127.

    compressed-tensors divides by 127.5 instead, which is another model.

    Args:
        weight: The matrix (outputs, inputs) that the whole numbers stand for.
        dtype: Of what comes out.
    """
    exact = weight.to(torch.promote_types(dtype, torch.float32))

    def project(inputs: torch.Tensor) -> torch.Tensor:
        scale = inputs.abs().amax(dim=-1, keepdim=True).float() / 127
        whole = (inputs.float() / scale).round()
        return ((whole * scale).to(exact.dtype) @ exact.t()).to(dtype)

    return project


def round_inputs(model: PreTrainedModel, config: dict[str, Any], dtype: torch.dtype) -> None:
    """Make a model with plain weights round the inputs of its projections, if the quantised one does."""
    groups = config.get("config_groups", {}).values()
    if any(group.get("input_activations") for group in groups):
        for name, module in model.named_modules():
            if name.endswith("_proj"):
                module.forward = rounded(module.weight.detach(), dtype)


def few_bits(numbers: torch.Tensor) -> torch.Tensor:
    """Return positive numbers rounded to `BITS` significant bits."""
    mantissa, exponent = torch.frexp(numbers)
    return torch.ldexp((mantissa * 2**BITS).round() / 2**BITS, exponent)


def packed(numbers: torch.Tensor) -> torch.Tensor:
    """Return rows of whole numbers up to 15 with eight of them in each word of 32 bits."""
    eights = numbers.to(torch.int64).reshape(numbers.shape[0], -1, 8)
    words = sum(eights[..., place] << (4 * number) for number, place in enumerate(PLACES))
    return (words - ((words >> 31) << 32)).to(torch.int32)


def _write(
    model: PreTrainedModel,
    folder: Path,
    config: dict[str, Any],
    quantise: Callable[[torch.Tensor], tuple[dict[str, torch.Tensor], torch.Tensor]],
) -> None:
    """Write both forms of a model; its projections are quantised, its embeddings and scores are not."""
    parts: dict[str, torch.Tensor] = {}
    for name, weight in model.state_dict().items():
        if name.endswith("_proj.weight"):
            found, plain = quantise(weight)
            parts |= {name.removesuffix("weight") + part: value.contiguous() for part, value in found.items()}
            weight.copy_(plain)
    model.save_pretrained(folder / REFERENCE)
    kept = load_file(folder / REFERENCE / WEIGHTS)
    rest = {name: value for name, value in kept.items() if not name.endswith("_proj.weight")}
    save_file({**rest, **parts}, folder / WEIGHTS, {"format": "pt"})
    described = json.loads((folder / REFERENCE / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**described, "quantization_config": config}))
