"""The script that asks a server to go on with a text, with a client that answers by itself."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

from layout import ROOT

if TYPE_CHECKING:
    from pathlib import Path

SCRIPT = ROOT / "src/cpuwheels/verification/serving/resources/ask_prompt.py"
CLIENT = """
import json, pathlib
from types import SimpleNamespace as Made

class OpenAI:
    def __init__(self, **settings):
        self.completions = Made(create=self.complete)

    def complete(self, **asked):
        (pathlib.Path(__file__).parent / "asked").write_text(json.dumps(asked))
        print("something else")
        return Made(choices=[Made(token_ids=[3, 4], text="\\u00e9\\nb")])
"""


def test_the_last_line_has_the_answer_and_its_tokens(tmp_path: Path) -> None:
    (tmp_path / "openai.py").write_text(CLIENT)
    env = {"PYTHONPATH": str(tmp_path), "CPUWHEELS_MODEL": "tiny", "CPUWHEELS_PROMPT": "one\ntwo"}
    done = subprocess.run([sys.executable, SCRIPT], env=env, check=True, capture_output=True, text=True)
    last = done.stdout.splitlines()[-1]
    assert json.loads(last) == {"text": "\u00e9\nb", "tokens": [3, 4]}
    assert last.isascii(), "a log cannot break it"
    assert json.loads((tmp_path / "asked").read_text()) == {
        "model": "tiny",
        "prompt": "one\ntwo",
        "max_tokens": 64,
        "temperature": 0.0,
        "extra_body": {"return_token_ids": True},
    }
