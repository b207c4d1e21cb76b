"""Make models of random weights to be timed, with a tokenizer. Runs in the environment that serves the wheel.

    python bench_models.py FOLDER NAME…

Each model is written to FOLDER/NAME as transformers' ``save_pretrained`` does, in bfloat16. All have one vocabulary, so
the smallest can draft for the others.
"""

from __future__ import annotations

import itertools
import sys
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

SEED = 20261124
SPECIAL = ("<pad>", "<s>", "</s>")
VOCABULARY = 32768
POSITIONS = 4096
SHAPES = {
    "qwen3-tiny": {"hidden_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 256},
    "qwen3-100m": {"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 2048},
}


def tokenizer() -> PreTrainedTokenizerFast:
    """Return a tokenizer whose words are one to three printable characters of ASCII, as many as the models know.

    Each word is text by itself. With words that are parts of characters a server would hold tokens back until a
    character is complete, and send several at once.
    """
    letters = [chr(code) for code in range(ord("!"), ord("~") + 1)]
    pairs = list(itertools.product(letters, letters))
    triples = ((left + right, last) for (left, right), last in itertools.product(pairs, letters))
    merges = [*pairs, *itertools.islice(triples, VOCABULARY - len(SPECIAL) - len(letters) - len(pairs))]
    words = {word: number for number, word in enumerate([*SPECIAL, *letters, *map("".join, merges)])}
    model = Tokenizer(models.BPE(vocab=words, merges=merges))
    model.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    model.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(
        tokenizer_object=model, pad_token=SPECIAL[0], bos_token=SPECIAL[1], eos_token=SPECIAL[2]
    )


def qwen3(name: str) -> Qwen3ForCausalLM:
    """Return a Qwen3: rotary positions, RMS norm, SiLU, heads of 64, and two queries to each key."""
    shape = SHAPES[name]
    config = Qwen3Config(
        vocab_size=VOCABULARY,
        num_key_value_heads=shape["num_attention_heads"] // 2,
        head_dim=64,
        max_position_embeddings=POSITIONS,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        tie_word_embeddings=True,
        **shape,
    )
    return Qwen3ForCausalLM(config).to(torch.bfloat16)


def main(folder: Path, names: list[str]) -> None:
    """Write models."""
    for name in names:
        torch.manual_seed(SEED)
        qwen3(name).save_pretrained(folder / name)
        tokenizer().save_pretrained(folder / name)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
