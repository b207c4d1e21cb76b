"""The small models that resources/tiny_models.py makes, and what is to be known of each before it is served."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from cpuwheels.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

Task = Literal["text", "embedding"]

CHUNK = 128
"""Tokens of a prompt that are computed in one step; the longest question takes four."""

_ALL = ("float32", "bfloat16", "float16")


@dataclass(frozen=True)
class Model:
    """What a model can do, and what it needs.

    Attributes:
        task: What it makes of a text.
        dtypes: Data types that vLLM serves it in.
        operators: Those of a kernel library without which vLLM cannot serve it.
        env: Variables of the server.
        tokens: Of an answer, at most.
    """

    task: Task = "text"
    dtypes: tuple[str, ...] = _ALL
    operators: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    tokens: int = 16

    @property
    def arguments(self) -> tuple[str, ...]:
        """Those of the server: prompts come in several chunks, but BERT sees its text at once."""
        return ("--max-num-batched-tokens", str(CHUNK)) if self.task == "text" else ()

    def lacks(self, operators: Collection[str]) -> tuple[str, ...]:
        """Return the operators that a library would need as well."""
        return tuple(name for name in self.operators if name not in operators)


MADE = {
    "opt": Model(),
    "qwen3": Model(),
    "moe": Model(operators=("_C::cpu_fused_moe", "_C::prepack_moe_weight")),
    "int8": Model(operators=("_C::onednn_scaled_mm", "_C::dynamic_scaled_int8_quant"), tokens=4),
    "awq": Model(dtypes=("bfloat16", "float16"), operators=("_C::cpu_gemm_wna16",), env={"VLLM_CPU_INT4_W4A8": "0"}),
    "gemma3": Model(dtypes=("float32", "bfloat16")),
    "bert": Model("embedding"),
}
"""By name. AWQ's data types are AutoAWQConfig's (vllm/model_executor/layers/quantization/auto_awq.py), and vLLM refuses
Gemma 3 in float16 (vllm/config/model.py). On AMX vLLM would round the inputs of AWQ's projections to 8 bits; with the
variable they keep the data type's precision. int8's inputs are
rounded twice in bfloat16, to it and to 8 bits; scores are off by 0.04 standard deviations, so that of 120 answers of 16
tokens hardly one is clear, but enough of short ones are."""


def chosen_models(wanted: Iterable[str], made: Collection[str]) -> dict[str, Path | None]:
    """Return the models by name, each with its folder, or None if it is made on the spot.

    Args:
        wanted: Names, or folders of models.
        made: Names of the models that are made on the spot.

    Raises:
        UsageError: A folder holds no model, or two models have one name.
    """
    models: dict[str, Path | None] = {}
    for text in wanted:
        folder = None if text in made else Path(text).resolve()
        if folder and not (folder / "config.json").is_file():
            raise UsageError(
                f"{text} is not the folder of a model: it has no config.json",
                where="--model",
                next_step=f"give {', '.join(made)}, or a folder that transformers' save_pretrained has written",
            )
        name = folder.name if folder else text
        if name in models:
            raise UsageError(f"two models are called {name}", where="--model", next_step="rename a folder")
        models[name] = folder
    return models
