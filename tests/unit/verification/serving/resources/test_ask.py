"""The script that asks a server, with a client that answers by itself."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from layout import ROOT

SCRIPT = ROOT / "src/cpuwheels/verification/serving/resources/ask.py"
CLIENT = """
import json, pathlib
from types import SimpleNamespace as Made

class OpenAI:
    def __init__(self, **settings):
        self.settings = settings
        self.completions = Made(create=self.complete)
        self.embeddings = Made(create=self.embed)
        self.chat = Made(completions=Made(create=self.chat_))

    def note(self, kind, asked):
        with (pathlib.Path(__file__).parent / "asked").open("a") as stream:
            stream.write(json.dumps([kind, self.settings["base_url"], asked]) + "\\n")

    def complete(self, **asked):
        self.note("completion", asked)
        if asked.get("stream"):
            parts = [Made(usage=None, choices=[Made(token_ids=[n], text=t)]) for n, t in ((3, "th"), (4, "ree"))]
            return [*parts, Made(usage=Made(prompt_tokens=2, completion_tokens=2), choices=[])]
        return Made(choices=[Made(prompt_token_ids=[1, 2], token_ids=[3], text="three")])

    def chat_(self, **asked):
        self.note("chat", asked)
        if asked.get("stream"):
            first = Made(usage=None, choices=[Made(delta=Made(content=""))])  # the role: no tokens
            return [first, Made(usage=None, choices=[Made(token_ids=[5, 6], delta=Made(content="five six"))])]
        return Made(prompt_token_ids=[4], choices=[Made(token_ids=[5, 6], message=Made(content="five six"))])

    def embed(self, **asked):
        self.note("embedding", asked)
        return Made(usage=Made(prompt_tokens=7), data=[Made(embedding=[0.6, 0.8])])
"""


def asked_of(folder: Path, *questions: dict[str, Any]) -> tuple[list[Any], list[Any]]:
    """Return the answers that the script writes, and what the client was asked."""
    (folder / "openai.py").write_text(CLIENT)
    (folder / "questions.json").write_text(json.dumps(questions))
    command = [sys.executable, SCRIPT, "http://server/v1", "model", folder / "questions.json", folder / "answers.json"]
    subprocess.run(command, env={"PYTHONPATH": str(folder)}, check=True)
    asked = [json.loads(line) for line in (folder / "asked").read_text().splitlines()]
    return json.loads((folder / "answers.json").read_text()), asked


COMPLETION = {"kind": "completion", "text": "one two", "answer": [9]}
CHAT = {"kind": "chat", "text": "four", "answer": [9, 9]}
COMMON = {"model": "model", "temperature": 0.0, "extra_body": {"return_token_ids": True, "ignore_eos": True}}


def test_questions_are_asked_and_their_tokens_written_down(tmp_path: Path) -> None:
    answers, asked = asked_of(tmp_path, COMPLETION, CHAT)
    assert [each["alone"] for each in answers] == [
        {"prompt": [1, 2], "answer": [3], "text": "three"},
        {"prompt": [4], "answer": [5, 6], "text": "five six"},
    ]
    assert asked[0] == ["completion", "http://server/v1", {"prompt": "one two", "max_tokens": 1, **COMMON}]
    messages = [{"role": "user", "content": "four"}]
    assert asked[1] == ["chat", "http://server/v1", {"messages": messages, "max_tokens": 2, **COMMON}]


def test_parts_of_a_stream_are_put_together(tmp_path: Path) -> None:
    answers, asked = asked_of(tmp_path, COMPLETION, CHAT)
    first, second = (each["stream"] for each in answers)
    assert first.pop("first") > 0
    assert first == {"answer": [3, 4], "text": "three", "parts": 2, "usage": [2, 2]}
    assert second | {"first": 0} == {"answer": [5, 6], "text": "five six", "parts": 1, "usage": None, "first": 0}
    streams = [how for _, _, how in asked if "stream" in how]
    assert [how["stream_options"] for how in streams] == [{"include_usage": True}] * 2


def test_sixteen_are_asked_at_once_or_all_if_there_are_more(tmp_path: Path) -> None:
    answers, asked = asked_of(tmp_path, COMPLETION, CHAT, COMPLETION)
    assert [len(each["together"]) for each in answers] == [6, 5, 5]
    assert len(asked) == 3 + 3 + 16
    (tmp_path / "asked").unlink()
    answers, asked = asked_of(tmp_path, *[COMPLETION] * 20)
    assert [len(each["together"]) for each in answers] == [1] * 20


def test_vectors_are_asked_for_without_a_stream(tmp_path: Path) -> None:
    answers, asked = asked_of(tmp_path, {"kind": "embedding", "text": "x"})
    found = {"tokens": 7, "vector": [0.6, 0.8]}
    assert answers == [{"alone": found, "stream": None, "together": [found] * 16}]
    assert asked[0][2] == {"model": "model", "input": "x", "encoding_format": "float"}
