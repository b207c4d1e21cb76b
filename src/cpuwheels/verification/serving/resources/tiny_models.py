"""Make small models of random weights, with a tokenizer. Runs in the environment that serves the wheel.

    python tiny_models.py FOLDER NAME…

Each model is written to FOLDER/NAME as transformers' ``save_pretrained`` does.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import OPTConfig, OPTForCausalLM, PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

if TYPE_CHECKING:
    from transformers import PreTrainedModel

SEED = 20261124
SPECIAL = ("<pad>", "<s>", "</s>")
VOCABULARY = 256 + len(SPECIAL)  # a word for each byte
POSITIONS = 512
SPREAD = 0.1
"""Standard deviation of the weights. With transformers' 0.02 all scores are nearly the same; with 0.4 rounding in the
first layer is large in the last."""
CHAT = "{% for message in messages %}<s>{{ message.role }}: {{ message.content }}</s>{% endfor %}<s>assistant:"


def tokenizer() -> PreTrainedTokenizerFast:
    """Return a tokenizer whose words are the bytes."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    words = {word: number for number, word in enumerate([*SPECIAL, *letters])}
    model = Tokenizer(models.BPE(vocab=words, merges=[]))
    model.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    model.decoder = decoders.ByteLevel()
    made = PreTrainedTokenizerFast(
        tokenizer_object=model, pad_token=SPECIAL[0], bos_token=SPECIAL[1], eos_token=SPECIAL[2]
    )
    made.chat_template = CHAT
    return made


def opt() -> PreTrainedModel:
    """Return an OPT of two layers: learned positions, layer norm, ReLU."""
    return OPTForCausalLM(
        OPTConfig(
            vocab_size=VOCABULARY,
            hidden_size=128,
            num_hidden_layers=2,
            num_attention_heads=4,
            ffn_dim=256,
            max_position_embeddings=POSITIONS,
            word_embed_proj_dim=128,
            init_std=SPREAD,
            dropout=0.0,
            pad_token_id=0,
            bos_token_id=1,
            eos_token_id=2,
            tie_word_embeddings=False,
        )
    )


def qwen3() -> PreTrainedModel:
    """Return a Qwen3 of two layers: rotary positions, RMS norm, SiLU, two queries to each key."""
    return Qwen3ForCausalLM(
        Qwen3Config(
            vocab_size=VOCABULARY,
            hidden_size=128,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            head_dim=64,
            intermediate_size=256,
            max_position_embeddings=POSITIONS,
            initializer_range=SPREAD,
            pad_token_id=0,
            bos_token_id=1,
            eos_token_id=2,
            tie_word_embeddings=False,
        )
    )


MODELS = {"opt": opt, "qwen3": qwen3}


def main(folder: Path, names: list[str]) -> None:
    """Write models."""
    for name in names:
        torch.manual_seed(SEED)
        MODELS[name]().save_pretrained(folder / name)
        tokenizer().save_pretrained(folder / name)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
