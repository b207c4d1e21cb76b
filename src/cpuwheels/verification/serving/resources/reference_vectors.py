"""Ask Hugging Face transformers for embeddings. Runs in the environment that serves the wheel.

    python reference_vectors.py MODEL DTYPE OUTPUT LENGTHS TAKEN

OUTPUT becomes a JSON list of random texts, TAKEN of each of LENGTHS (characters, with commas), with their tokens, the
vector in a wider data type than DTYPE, and how far from it a server's vector may be: `MARGIN` times as far as the
farthest of transformers' own in DTYPE. Both have length 1. The vector is the mean of the last layer's vectors, as the
model's sentence-transformers files ask for.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch
from reference import texts
from transformers import AutoModel, AutoTokenizer

MARGIN = 3
"""Two programs that round in another order are each about as far from the exact vector, in directions of their own."""


def vector(model: Any, tokens: list[int]) -> torch.Tensor:
    """Return the vector of a text, of length 1."""
    with torch.no_grad():
        last = model(torch.tensor([tokens])).last_hidden_state[0]
    return torch.nn.functional.normalize(last.double().mean(dim=0), dim=0)


def main(folder: str, dtype: str, output: Path, lengths: list[int], taken: int) -> None:
    """Write the questions of a model."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    narrow, wide = (
        AutoModel.from_pretrained(folder, dtype=each, add_pooling_layer=False)
        for each in (getattr(torch, dtype), torch.float64 if dtype == "float32" else torch.float32)
    )
    asked, errors = [], []
    for text in (text for length in lengths for text in texts(length, taken)):
        tokens = list(tokenizer(text)["input_ids"])
        exact = vector(wide, tokens)
        errors.append(float((vector(narrow, tokens) - exact).norm()))
        asked.append({"kind": "embedding", "text": text, "tokens": len(tokens), "vector": exact.tolist()})
    limit = MARGIN * max(errors)
    output.write_text(json.dumps([{**question, "limit": limit} for question in asked]), encoding="utf-8")


if __name__ == "__main__":
    folder, dtype, output, lengths, taken = sys.argv[1:]
    main(folder, dtype, Path(output), [int(length) for length in lengths.split(",")], int(taken))
