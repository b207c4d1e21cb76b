"""Ask Hugging Face transformers, for a server to be compared with. Runs in the environment that serves the wheel.

    python reference.py MODEL DTYPE CANDIDATES LEAST OUTPUT

Random texts are continued greedily, as completions and as chats, CANDIDATES of each length. Where two tokens are nearly
as likely, rounding decides between them, and another program may round otherwise. So those texts are taken whose
answers are the clearest: at each token the best score is ahead of the next by LEAST standard deviations of the scores.
OUTPUT becomes a JSON list of them, with prompt and answer in tokens and the least lead.
"""

from __future__ import annotations

import json
import random
import string
import sys
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

ANSWER = 16
"""Tokens."""
LENGTHS = (6, 40, 170)
"""Characters of the texts: the longest fill more than one block of the KV cache, which has 128 tokens on a CPU."""
TAKEN = 2
"""Texts of each length and kind."""
SEED = 20261124


def texts(length: int, count: int) -> list[str]:
    """Return random texts of one length."""
    chance = random.Random(SEED + length)  # noqa: S311  (no secret)
    return ["".join(chance.choices(string.ascii_letters + " .,?", k=length)).strip() or "x" for _ in range(count)]


def prompt(tokenizer: Any, kind: str, text: str) -> list[int]:
    """Return the tokens that a server makes of a question."""
    if kind == "completion":
        return list(tokenizer(text)["input_ids"])
    messages = [{"role": "user", "content": text}]
    chat = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    return list(tokenizer(chat, add_special_tokens=False)["input_ids"])


def continue_greedily(model: Any, prompts: list[list[int]]) -> tuple[list[list[int]], list[float]]:
    """Return the answers to prompts of one length, in tokens, and the least lead of each."""
    inputs = torch.tensor(prompts)
    done = model.generate(
        inputs,
        attention_mask=torch.ones_like(inputs),
        max_new_tokens=ANSWER,
        min_new_tokens=ANSWER,
        do_sample=False,
        output_logits=True,
        return_dict_in_generate=True,
    )
    leads = []
    for scores in done.logits:
        best = scores.float().topk(2).values
        leads.append((best[:, 0] - best[:, 1]) / scores.float().std(dim=1))
    return done.sequences[:, inputs.shape[1] :].tolist(), torch.stack(leads).min(dim=0).values.tolist()


def clearest(model: Any, tokenizer: Any, kind: str, asked: list[str], least: float) -> list[dict[str, Any]]:
    """Return the questions with the clearest answers, at most `TAKEN`."""
    by_length: dict[int, list[tuple[str, list[int]]]] = {}
    for text in asked:
        tokens = prompt(tokenizer, kind, text)
        by_length.setdefault(len(tokens), []).append((text, tokens))
    found: list[dict[str, Any]] = []
    for group in by_length.values():
        answers, leads = continue_greedily(model, [tokens for _, tokens in group])
        for (text, tokens), answer, lead in zip(group, answers, leads, strict=True):
            found.append({"kind": kind, "text": text, "prompt": tokens, "answer": answer, "lead": round(lead, 4)})
    found.sort(key=lambda question: -question["lead"])
    return [question for question in found[:TAKEN] if question["lead"] >= least]


def main(folder: str, dtype: str, candidates: int, least: float, output: Path) -> None:
    """Write the questions of a model."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=getattr(torch, dtype))
    model.generation_config.eos_token_id = None
    kinds = ["completion", *(["chat"] if tokenizer.chat_template else [])]
    asked = []
    for kind in kinds:
        found = [clearest(model, tokenizer, kind, texts(length, candidates), least) for length in LENGTHS]
        if not any(found):
            sys.exit(f"no {kind} has a clear answer: rounding would decide which token comes next")
        asked += [question for questions in found for question in questions]
    output.write_text(json.dumps(asked), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4]), Path(sys.argv[5]))
