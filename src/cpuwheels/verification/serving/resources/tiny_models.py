"""Make small models of random weights, with a tokenizer. Runs in the environment that serves the wheel.

    python tiny_models.py FOLDER NAME…

Each model is written to FOLDER/NAME as transformers' ``save_pretrained`` does. Where transformers cannot read what a
server reads, FOLDER/NAME/reference has the same model with the same weights in a form that it can.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from quantised import REFERENCE, write_awq, write_int8
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import (
    BertConfig,
    BertModel,
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    OPTConfig,
    OPTForCausalLM,
    PreTrainedTokenizerFast,
    Qwen3Config,
    Qwen3ForCausalLM,
    Qwen3MoeConfig,
    Qwen3MoeForCausalLM,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from transformers import PreTrainedModel

SEED = 20261124
SPECIAL = ("<pad>", "<s>", "</s>")
VOCABULARY = 256 + len(SPECIAL)  # a word for each byte
POSITIONS = 512
WINDOW = 64
"""Tokens that a layer with a sliding window sees."""
EXPERTS = 8
SPREAD = 0.1
"""Standard deviation of the weights. With transformers' 0.02 all scores are nearly the same; with 0.4 rounding in the
first layer is large in the last."""
CHAT = "{% for message in messages %}<s>{{ message.role }}: {{ message.content }}</s>{% endfor %}<s>assistant:"
COMMON: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": POSITIONS,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "tie_word_embeddings": False,
}
ROTARY: dict[str, Any] = {
    **COMMON,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "intermediate_size": 256,
    "initializer_range": SPREAD,
}


def tokenizer() -> PreTrainedTokenizerFast:
    """Return a tokenizer whose words are the bytes."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    words = {word: number for number, word in enumerate([*SPECIAL, *letters])}
    model = Tokenizer(models.BPE(vocab=words, merges=[]))
    model.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    model.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(
        tokenizer_object=model, pad_token=SPECIAL[0], bos_token=SPECIAL[1], eos_token=SPECIAL[2]
    )


def opt() -> PreTrainedModel:
    """Return an OPT of two layers: learned positions, layer norm, ReLU."""
    return OPTForCausalLM(OPTConfig(**COMMON, ffn_dim=256, word_embed_proj_dim=128, init_std=SPREAD, dropout=0.0))


def qwen3() -> PreTrainedModel:
    """Return a Qwen3 of two layers: rotary positions, RMS norm, SiLU, two queries to each key."""
    return Qwen3ForCausalLM(Qwen3Config(**ROTARY))


def moe() -> PreTrainedModel:
    """Return a Qwen3 whose tokens each go to two of eight experts, which do not hang on rounding.

    The first numbers of a token's vector, one for each expert, name its two experts. No layer changes them, and the
    gates see nothing else. With random gates the second and the third expert of some token are always nearly as good.
    """
    model = Qwen3MoeForCausalLM(
        Qwen3MoeConfig(
            **ROTARY, moe_intermediate_size=128, num_experts=EXPERTS, num_experts_per_tok=2, norm_topk_prob=True
        )
    )
    words = torch.arange(VOCABULARY)
    first = words % EXPERTS
    second = (first + 1 + words // EXPERTS % (EXPERTS - 1)) % EXPERTS
    with torch.no_grad():
        vectors = model.model.embed_tokens.weight
        vectors[:, :EXPERTS] = 0
        vectors[words, first], vectors[words, second] = 1.0, 0.5
        for layer in model.model.layers:
            layer.self_attn.o_proj.weight[:EXPERTS] = 0
            for name, weight in layer.mlp.experts.named_parameters():
                if "down_proj" in name:
                    weight[..., :EXPERTS, :] = 0
            layer.mlp.gate.weight.zero_()
            layer.mlp.gate.weight.fill_diagonal_(1)
    return model


def gemma3() -> PreTrainedModel:
    """Return a Gemma 3 of four layers, of which three see only the last `WINDOW` tokens."""
    kinds = ["sliding_attention"] * 3 + ["full_attention"]
    return Gemma3ForCausalLM(
        Gemma3TextConfig(
            **{**ROTARY, "num_hidden_layers": 4}, sliding_window=WINDOW, layer_types=kinds, query_pre_attn_scalar=64
        )
    )


def bert() -> PreTrainedModel:
    """Return a BERT of two layers, which sees the whole text at once."""
    config = {**COMMON, "intermediate_size": 256, "initializer_range": SPREAD}
    return BertModel(BertConfig(**config), add_pooling_layer=False)


def write_plain(model: PreTrainedModel, folder: Path) -> None:
    """Write a model as it is."""
    model.save_pretrained(folder)


def write_embedding(model: PreTrainedModel, folder: Path) -> None:
    """Write a model as sentence-transformers does: its vector is the mean of the tokens' vectors, with length 1."""
    model.save_pretrained(folder)
    parts = ("Transformer", "Pooling", "Normalize")
    modules = [
        {
            "idx": number,
            "name": str(number),
            "path": f"{number}_{part}" if number else "",
            "type": f"sentence_transformers.models.{part}",
        }
        for number, part in enumerate(parts)
    ]
    pooling = {"word_embedding_dimension": model.config.hidden_size, "pooling_mode_mean_tokens": True}
    (folder / "1_Pooling").mkdir()
    (folder / "2_Normalize").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": POSITIONS}))


MODELS: dict[str, tuple[Callable[[], PreTrainedModel], Callable[[PreTrainedModel, Path], None]]] = {
    "opt": (opt, write_plain),
    "qwen3": (qwen3, write_plain),
    "moe": (moe, write_plain),
    "int8": (qwen3, write_int8),
    "awq": (qwen3, write_awq),
    "gemma3": (gemma3, write_plain),
    "bert": (bert, write_embedding),
}


def main(folder: Path, names: list[str]) -> None:
    """Write models."""
    for name in names:
        torch.manual_seed(SEED)
        make, write = MODELS[name]
        place, words = folder / name, tokenizer()
        shutil.rmtree(place, ignore_errors=True)
        if write is not write_embedding:
            words.chat_template = CHAT
        write(make(), place)
        for each in (place, place / REFERENCE):
            if each.is_dir():
                words.save_pretrained(each)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
