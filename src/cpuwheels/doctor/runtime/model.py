"""The model that is to be served, as its ``config.json`` describes it: how many heads, which attention, how large."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from cpuwheels.core.errors import UsageError, reason
from cpuwheels.core.models import Strict, parse_as
from cpuwheels.core.parse import parse_json

if TYPE_CHECKING:
    from pathlib import Path

DType = Literal["bfloat16", "float16", "float32"]
BYTES: dict[str, int] = {"bfloat16": 2, "float16": 2, "float32": 4}

CONFIG = "config.json"
_INDEX = "model.safetensors.index.json"
_HEADS = ("num_attention_heads", "n_head", "n_heads")
_KV_HEADS = ("n_head_kv", "num_kv_heads", "num_key_value_heads", "multi_query_group_num", "num_attention_groups")
"""In vLLM's order (``get_total_num_kv_heads`` in vllm/transformers_utils/model_arch_config_convertor.py)."""
_LAYERS = ("num_hidden_layers", "n_layer", "num_layers", "n_layers")
_LENGTHS = ("max_position_embeddings", "n_positions", "max_sequence_length", "seq_length", "max_seq_len")
_EXPERTS = ("num_local_experts", "n_routed_experts", "num_experts")
_NOT_MLA = ("minicpm3",)
"""Models whose configuration has a compressed rank, but whose cache vLLM keeps uncompressed."""


class Model(Strict):
    """What a server has to know of a model to be planned."""

    name: str
    model_type: str
    layers: int
    heads: int
    kv_heads: int
    head_size: int
    """Numbers in a head; of latent attention (MLA) those of the latent vector and the rotary part."""
    mla: bool
    """Whether keys and values are kept as one compressed vector (multi-head latent attention)."""
    value_size: int
    """Of latent attention: numbers in a decoded value, ``kv_lora_rank``; otherwise the size of a head."""
    sparse: bool
    """Whether its attention picks positions (DeepSeek V3.2's indexer)."""
    window: int | None
    """Positions that layers with a sliding window see; None without such layers."""
    window_layers: int
    """Layers with a sliding window."""
    state_layers: int
    """Layers that keep a state of fixed size, such as Mamba's, in place of keys and values."""
    length: int | None
    """Longest sequence that it was trained for."""
    dtype: DType | None
    """Of its weights; None if the configuration does not tell."""
    quantisation: str
    """Method, such as ``awq``, ``gptq``, ``fp8``; empty if there is none."""
    weight_bytes: int
    """Bytes of its weights in its own data type."""
    weights_measured: bool
    """Whether the weights were there to be measured; else their size follows from the configuration."""

    @property
    def full_layers(self) -> int:
        """Layers that keep keys and values of the whole sequence."""
        return self.layers - self.window_layers - self.state_layers

    def bytes_as(self, dtype: DType) -> int:
        """Return the bytes of the weights once they are loaded in a data type; quantised ones stay as they are."""
        if self.quantisation or self.dtype is None:
            return self.weight_bytes
        return self.weight_bytes * BYTES[dtype] // BYTES[self.dtype]


def read_model(place: Path) -> Model:
    """Read a model.

    Args:
        place: Its folder, or its ``config.json``.

    Raises:
        UsageError: There is no configuration, or it is not one of a model with attention.
    """
    path = place / CONFIG if place.is_dir() else place
    step = "name a model's folder, or its config.json"
    try:
        whole = parse_json(path.read_bytes(), path)
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} cannot be read: {reason(error)}", where="--model", next_step=step) from error
    config = {**whole, **(whole.get("text_config") or {})} if isinstance(whole, dict) else {}
    try:
        return _model(path, config)
    except (KeyError, TypeError, ValueError, ZeroDivisionError) as error:
        raise UsageError(
            f"{path.name} does not describe a model with attention: {error}", where=path, next_step=step
        ) from error


def _model(path: Path, config: dict[str, Any]) -> Model:
    layers, heads = _first(config, _LAYERS), _first(config, _HEADS)
    if not layers or not heads:
        raise ValueError("it has no number of layers or heads")
    rank, rope = int(config.get("kv_lora_rank") or 0), int(config.get("qk_rope_head_dim") or 0)
    mla = bool(rank and rope and config.get("model_type") not in _NOT_MLA)
    head_size = int(config.get("head_dim") or int(config["hidden_size"]) // heads)
    window, window_layers, state_layers = _kinds(config, layers)
    measured = _measure(path.parent)
    dtype = config.get("dtype") or config.get("torch_dtype")
    quantisation = config.get("quantization_config") or {}
    return Model(
        name=config.get("_name_or_path") or path.absolute().parent.name,
        model_type=config.get("model_type", ""),
        layers=layers,
        heads=heads,
        kv_heads=1 if mla else _first(config, _KV_HEADS) or heads,
        head_size=rank + rope if mla else head_size,
        mla=mla,
        value_size=rank if mla else head_size,
        sparse=config.get("index_topk") is not None,
        window=window,
        window_layers=window_layers,
        state_layers=state_layers,
        length=_first(config, _LENGTHS),
        dtype=dtype if dtype in BYTES else None,
        quantisation=str(quantisation.get("quant_method", "")).lower(),
        weight_bytes=measured or _estimate(config, layers, heads, head_size, mla=mla),
        weights_measured=measured is not None,
    )


def _first(config: dict[str, Any], names: tuple[str, ...]) -> int | None:
    return next((int(config[name]) for name in names if config.get(name)), None)


def _kinds(config: dict[str, Any], layers: int) -> tuple[int | None, int, int]:
    """Return the window, and how many layers have it, and how many keep a state."""
    kinds = config.get("layer_types") or []
    state = sum(kind in {"linear_attention", "mamba", "conv", "recurrent"} for kind in kinds)
    window = config.get("sliding_window") or None
    if window is None or config.get("use_sliding_window") is False:
        return None, 0, state
    if kinds:
        count = sum(kind == "sliding_attention" for kind in kinds)
    elif pattern := config.get("sliding_window_pattern"):
        count = layers - layers // int(pattern)
    else:
        count = layers
    return (int(window), count, state) if count else (None, 0, state)


def _measure(folder: Path) -> int | None:
    """Return the bytes of the weights next to a configuration."""
    index = folder / _INDEX
    if index.is_file():
        found = parse_as(dict[str, Any], index.read_bytes(), index).get("metadata")
        total = found.get("total_size") if isinstance(found, dict) else None
        if isinstance(total, int) and total > 0:
            return total
    return sum(path.stat().st_size for path in folder.glob("*.safetensors")) or None


def _estimate(config: dict[str, Any], layers: int, heads: int, head_size: int, *, mla: bool) -> int:
    """Return about how many bytes the weights have: embeddings, attention, and the layers between."""
    hidden = int(config["hidden_size"])
    tied = config.get("tie_word_embeddings", False)
    embeddings = int(config.get("vocab_size", 0)) * hidden * (1 if tied else 2)
    attention = _latent(config, hidden, heads) if mla else _plain(config, hidden, heads, head_size)
    own = BYTES.get(config.get("dtype") or config.get("torch_dtype") or "", 2)
    inner = layers * attention + _between(config, hidden, layers)
    return embeddings * own + int(inner * _bits(config, own) / 8)


def _plain(config: dict[str, Any], hidden: int, heads: int, head_size: int) -> int:
    kv_heads = _first(config, _KV_HEADS) or heads
    return 2 * hidden * heads * head_size + 2 * hidden * kv_heads * head_size


def _latent(config: dict[str, Any], hidden: int, heads: int) -> int:
    rank, rope, nope = (int(config[name]) for name in ("kv_lora_rank", "qk_rope_head_dim", "qk_nope_head_dim"))
    value, query = int(config.get("v_head_dim") or nope), int(config.get("q_lora_rank") or 0)
    queries = (hidden + heads * (nope + rope)) * query if query else hidden * heads * (nope + rope)
    return queries + hidden * (rank + rope) + rank * heads * (nope + value) + heads * value * hidden


def _between(config: dict[str, Any], hidden: int, layers: int) -> int:
    """Return the weights of the feed-forward parts, experts included."""
    inner = int(config.get("intermediate_size") or config.get("ffn_dim") or config.get("n_inner") or 4 * hidden)
    matrices = 2 if config.get("ffn_dim") or config.get("n_embd") else 3
    dense = matrices * hidden * inner
    experts = _first(config, _EXPERTS)
    if not experts:
        return layers * dense
    first = int(config.get("first_k_dense_replace") or 0)
    each = 3 * hidden * int(config.get("moe_intermediate_size") or inner)
    shared = int(config.get("n_shared_experts") or 0)
    return first * dense + (layers - first) * ((experts + shared) * each + experts * hidden)


def _bits(config: dict[str, Any], own: int) -> float:
    """Return the bits of a weight."""
    found = config.get("quantization_config") or {}
    if bits := found.get("bits"):
        return float(bits) + 0.5  # scales and zero points, one of each for 32 to 128 weights
    groups = (found.get("config_groups") or {}).values()
    widths = [group["weights"]["num_bits"] for group in groups if group.get("weights")]
    if widths:
        return float(max(widths))
    return 8.0 if found.get("quant_method") == "fp8" else 8.0 * own
