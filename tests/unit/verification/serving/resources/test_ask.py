"""The script that asks a server, with a client that answers by itself."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from layout import ROOT

SCRIPT = ROOT / "src/cpuwheels/verification/serving/resources/ask.py"
CLIENT = """
import json, pathlib
from types import SimpleNamespace as Made

class OpenAI:
    def __init__(self, **settings):
        self.settings = settings
        self.completions = Made(create=self.complete)
        self.chat = Made(completions=Made(create=self.chat_))

    def note(self, kind, asked):
        with (pathlib.Path(__file__).parent / "asked").open("a") as stream:
            stream.write(json.dumps([kind, self.settings["base_url"], asked]) + "\\n")

    def complete(self, **asked):
        self.note("completion", asked)
        return Made(choices=[Made(prompt_token_ids=[1, 2], token_ids=[3], text="three")])

    def chat_(self, **asked):
        self.note("chat", asked)
        return Made(prompt_token_ids=[4], choices=[Made(token_ids=[5, 6], message=Made(content="five six"))])
"""


def test_questions_are_asked_and_their_tokens_written_down(tmp_path: Path) -> None:
    (tmp_path / "openai.py").write_text(CLIENT)
    questions, answers = tmp_path / "questions.json", tmp_path / "answers.json"
    questions.write_text(
        json.dumps(
            [
                {"kind": "completion", "text": "one two", "answer": [9]},
                {"kind": "chat", "text": "four", "answer": [9, 9]},
            ]
        )
    )
    command = [sys.executable, SCRIPT, "http://server/v1", "model", questions, answers]
    subprocess.run(command, env={"PYTHONPATH": str(tmp_path)}, check=True)
    assert json.loads(answers.read_text()) == [
        {"prompt": [1, 2], "answer": [3], "text": "three"},
        {"prompt": [4], "answer": [5, 6], "text": "five six"},
    ]
    first, second = (json.loads(line) for line in (tmp_path / "asked").read_text().splitlines())
    more = {"return_token_ids": True, "ignore_eos": True}
    common = {"model": "model", "temperature": 0.0, "extra_body": more}
    assert first == ["completion", "http://server/v1", {"prompt": "one two", "max_tokens": 1, **common}]
    messages = [{"role": "user", "content": "four"}]
    assert second == ["chat", "http://server/v1", {"messages": messages, "max_tokens": 2, **common}]
