"""Ask a server with OpenAI's client. Runs in the environment that serves the wheel.

    python ask.py URL MODEL QUESTIONS OUTPUT

QUESTIONS is a file that reference.py or reference_vectors.py wrote. Each question is asked alone; then a completion or
chat once more with its answer as a stream; then `TOGETHER` at once, the same ones again if there are fewer. OUTPUT
becomes a JSON list: for each question what came ``alone``, as a ``stream`` (None for an embedding), and ``together``
(a list).
"""

from __future__ import annotations

import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from openai import OpenAI

TOGETHER = 16
"""Requests at once."""


def ask(client: OpenAI, model: str, question: dict[str, Any]) -> dict[str, Any]:
    """Return the tokens of a question and of its answer, or the vector."""
    if question["kind"] == "embedding":
        answer = client.embeddings.create(model=model, input=question["text"], encoding_format="float")
        return {"tokens": answer.usage.prompt_tokens, "vector": answer.data[0].embedding}
    if question["kind"] == "completion":
        choice = client.completions.create(prompt=question["text"], **greedy(model, question)).choices[0]
        return {"prompt": choice.prompt_token_ids, "answer": choice.token_ids, "text": choice.text}
    answer = client.chat.completions.create(messages=messages(question), **greedy(model, question))
    choice = answer.choices[0]
    return {"prompt": answer.prompt_token_ids, "answer": choice.token_ids, "text": choice.message.content}


def ask_for_stream(client: OpenAI, model: str, question: dict[str, Any]) -> dict[str, Any] | None:
    """Return what an answer that comes in parts amounts to; None for an embedding, which has none."""
    if question["kind"] == "embedding":
        return None
    how = {**greedy(model, question), "stream": True, "stream_options": {"include_usage": True}}
    began, first = time.monotonic(), 0.0
    if question["kind"] == "completion":
        stream = client.completions.create(prompt=question["text"], **how)
    else:
        stream = client.chat.completions.create(messages=messages(question), **how)
    text, parts, usage = "", 0, None
    tokens: list[int] = []
    for part in stream:
        usage = part.usage or usage
        for choice in part.choices:
            said = (choice.text if question["kind"] == "completion" else choice.delta.content) or ""
            fresh = getattr(choice, "token_ids", None) or []
            if fresh:
                first = first or time.monotonic() - began
                parts += 1
            text, tokens = text + said, [*tokens, *fresh]
    return {
        "answer": tokens,
        "text": text,
        "parts": parts,
        "first": round(first, 6),
        "usage": [usage.prompt_tokens, usage.completion_tokens] if usage else None,
    }


def greedy(model: str, question: dict[str, Any]) -> dict[str, Any]:
    """Return the options of a request."""
    return {
        "model": model,
        "max_tokens": len(question["answer"]),
        "temperature": 0.0,
        "extra_body": {"return_token_ids": True, "ignore_eos": True},
    }


def messages(question: dict[str, Any]) -> list[Any]:
    """Return a question as a chat."""
    return [{"role": "user", "content": question["text"]}]


def main(url: str, model: str, questions: Path, output: Path) -> None:
    """Write the answers to all questions."""
    client = OpenAI(base_url=url, api_key="none", max_retries=0, timeout=300)
    asked = json.loads(questions.read_text(encoding="utf-8"))
    alone = [ask(client, model, each) for each in asked]
    streams = [ask_for_stream(client, model, each) for each in asked]
    together: list[list[Any]] = [[] for _ in asked]
    numbers = [number % len(asked) for number in range(max(TOGETHER, len(asked)))]
    with ThreadPoolExecutor(TOGETHER) as pool:
        answers = pool.map(lambda number: ask(client, model, asked[number]), numbers)
        for number, answer in zip(numbers, answers, strict=True):
            together[number].append(answer)
    found = [
        {"alone": one, "stream": stream, "together": others}
        for one, stream, others in zip(alone, streams, together, strict=True)
    ]
    output.write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), Path(sys.argv[4]))
