"""Ask a server with OpenAI's client. Runs in the environment that serves the wheel.

    python ask.py URL MODEL QUESTIONS OUTPUT

QUESTIONS is a file that reference.py wrote. OUTPUT becomes a JSON list with the tokens that the server made of each
question and those it answered.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from openai import OpenAI


def ask(client: OpenAI, model: str, question: dict[str, Any]) -> dict[str, Any]:
    """Return the tokens of a question and of its answer."""
    greedy = {
        "model": model,
        "max_tokens": len(question["answer"]),
        "temperature": 0.0,
        "extra_body": {"return_token_ids": True, "ignore_eos": True},
    }
    if question["kind"] == "completion":
        choice = client.completions.create(prompt=question["text"], **greedy).choices[0]
        return {"prompt": choice.prompt_token_ids, "answer": choice.token_ids, "text": choice.text}
    answer = client.chat.completions.create(messages=[{"role": "user", "content": question["text"]}], **greedy)
    choice = answer.choices[0]
    return {"prompt": answer.prompt_token_ids, "answer": choice.token_ids, "text": choice.message.content}


def main(url: str, model: str, questions: Path, output: Path) -> None:
    """Write the answers to all questions."""
    client = OpenAI(base_url=url, api_key="none", max_retries=0, timeout=120)
    asked = json.loads(questions.read_text(encoding="utf-8"))
    output.write_text(json.dumps([ask(client, model, question) for question in asked]), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), Path(sys.argv[4]))
