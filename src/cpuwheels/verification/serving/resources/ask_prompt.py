"""Ask a server to go on with a text, with OpenAI's client. Runs in the environment that serves the wheel.

    CPUWHEELS_PROMPT=TEXT python ask_prompt.py

The server and the model are named by OPENAI_BASE_URL and CPUWHEELS_MODEL. The last line that is printed is a JSON
object with the ``text`` of the answer and its ``tokens``, the most likely one at each place.
"""

from __future__ import annotations

import json
import os

from openai import OpenAI

TOKENS = 64
"""Of an answer at most."""


def main() -> None:
    """Print the answer."""
    client = OpenAI(max_retries=0, timeout=600)
    answer = client.completions.create(
        model=os.environ["CPUWHEELS_MODEL"],
        prompt=os.environ["CPUWHEELS_PROMPT"],
        max_tokens=TOKENS,
        temperature=0.0,
        extra_body={"return_token_ids": True},
    )
    choice = answer.choices[0]
    print(json.dumps({"text": choice.text, "tokens": choice.token_ids}))


if __name__ == "__main__":
    main()
