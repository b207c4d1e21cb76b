"""Ask Hugging Face transformers, for a server to be compared with. Runs in the environment that serves the wheel.

    python reference.py MODEL DTYPE CANDIDATES LEAST OUTPUT TOKENS LENGTHS TAKEN

Random texts are continued greedily, as completions and as chats, CANDIDATES of each length. Where two tokens are nearly
as likely, rounding decides between them, and another program may round otherwise. So those texts are taken whose
answers are the clearest: at each token the best score is ahead of the next by LEAST standard deviations of the scores,
and by `MARGIN` times the answer's rounding errors, if they can be told. They are told for a small model: by how much
its scores differ (root mean square) from those in a wider data type, which also have to give the same answer.

OUTPUT becomes a JSON list of the questions, with prompt and answer in tokens, the least lead, and the lead that was
required. An answer has TOKENS. LENGTHS are those of the texts in characters, with commas; TAKEN texts of each length
and kind are asked.
"""

from __future__ import annotations

import json
import random
import string
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from quantised import REFERENCE, round_inputs
from transformers import AutoModelForCausalLM, AutoTokenizer

if TYPE_CHECKING:
    from collections.abc import Sequence

LOOKED_AT = 8
"""Texts of each length and kind whose answers are looked at in a wider data type, the clearest first."""
MARGIN = 5
SMALL = 64 << 20
"""Bytes of weights."""
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


def load(folder: Path, dtype: torch.dtype) -> Any:
    """Return a model; of one that transformers cannot read, the form with plain weights."""
    plain = folder / REFERENCE
    if not plain.is_dir():
        # Of the ways that transformers has for experts, "grouped_mm", its own choice, does without float64.
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, experts_implementation="eager")
    else:
        model = AutoModelForCausalLM.from_pretrained(plain, dtype=torch.float32)
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        round_inputs(model, config["quantization_config"], dtype)
        model.to(dtype)
    model.generation_config.eos_token_id = None
    return model


def continue_greedily(model: Any, prompts: list[list[int]], count: int) -> tuple[list[list[int]], list[float]]:
    """Return the answers to prompts of one length, in tokens, and the least lead of each."""
    inputs = torch.tensor(prompts)
    done = model.generate(
        inputs,
        attention_mask=torch.ones_like(inputs),
        max_new_tokens=count,
        min_new_tokens=count,
        do_sample=False,
        output_logits=True,
        return_dict_in_generate=True,
    )
    leads = []
    for scores in done.logits:
        best = scores.float().topk(2).values
        leads.append((best[:, 0] - best[:, 1]) / scores.float().std(dim=1))
    return done.sequences[:, inputs.shape[1] :].tolist(), torch.stack(leads).min(dim=0).values.tolist()


def clearest(model: Any, tokenizer: Any, kind: str, asked: list[str], least: float, count: int) -> list[dict[str, Any]]:
    """Return the questions with the clearest answers, at most `LOOKED_AT`."""
    by_length: dict[int, list[tuple[str, list[int]]]] = {}
    for text in asked:
        tokens = prompt(tokenizer, kind, text)
        by_length.setdefault(len(tokens), []).append((text, tokens))
    found: list[dict[str, Any]] = []
    for group in by_length.values():
        answers, leads = continue_greedily(model, [tokens for _, tokens in group], count)
        for (text, tokens), answer, lead in zip(group, answers, leads, strict=True):
            leads_of = {"lead": round(lead, 4), "least": least}
            found.append({"kind": kind, "text": text, "prompt": tokens, "answer": answer, **leads_of})
    found.sort(key=lambda question: -question["lead"])
    return found[:LOOKED_AT]


def scores_of(model: Any, question: dict[str, Any]) -> torch.Tensor:
    """Return the scores (tokens, vocabulary) from which the tokens of an answer are chosen."""
    tokens = torch.tensor([[*question["prompt"], *question["answer"][:-1]]])
    with torch.no_grad():
        return model(tokens).logits[0, -len(question["answer"]) :].double()


def stable(model: Any, wide: Any, questions: list[dict[str, Any]], least: float) -> list[dict[str, Any]]:
    """Return the questions that a wider data type answers alike, each with the lead that its rounding errors require.

    A mixture of experts may send a token to another expert, if two are nearly as good; that is an error as well.
    """
    same = []
    for question in questions:
        narrow, exact = scores_of(model, question), scores_of(wide, question)
        error = float(((narrow - exact) / exact.std(dim=1, keepdim=True)).square().mean().sqrt())
        if exact.argmax(dim=1).tolist() == question["answer"]:
            same.append({**question, "least": round(max(least, MARGIN * error), 6)})
    return same


def main(folder: Path, dtype: str, candidates: int, least: float, output: Path, extent: Sequence[str]) -> None:
    """Write the questions of a model."""
    count, lengths, taken = int(extent[0]), [int(length) for length in extent[1].split(",")], int(extent[2])
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = load(folder, getattr(torch, dtype))
    kinds = ["completion", *(["chat"] if tokenizer.chat_template else [])]
    groups = [
        [clearest(model, tokenizer, kind, texts(length, candidates), least, count) for length in lengths]
        for kind in kinds
    ]
    if sum(path.stat().st_size for path in folder.glob("*.safetensors")) <= SMALL:
        wide = load(folder, torch.float64 if dtype == "float32" else torch.float32)
        groups = [[stable(model, wide, found, least) for found in kind] for kind in groups]
    asked = []
    for kind, found in zip(kinds, groups, strict=True):
        clear = [[question for question in each if question["lead"] >= question["least"]][:taken] for each in found]
        if not any(clear):
            sys.exit(f"no {kind} has a clear answer: rounding would decide which token comes next")
        asked += [question for each in clear for question in each]
    output.write_text(json.dumps(asked), encoding="utf-8")


if __name__ == "__main__":
    folder, dtype, candidates, least, output, *extent = sys.argv[1:]
    main(Path(folder), dtype, int(candidates), float(least), Path(output), extent)
