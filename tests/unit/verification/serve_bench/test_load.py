"""A load by a few lines in place of ``vllm bench serve``."""

from __future__ import annotations

import itertools
import json
import os
import sys
from pathlib import Path

import pytest

from cpuwheels.core.errors import ServeError
from cpuwheels.verification.serve_bench.load import ANSWER_TOKENS, Load, Sample, measure, requests_of

VLLM = """import json, pathlib, sys
folder = pathlib.Path(sys.argv[sys.argv.index("--result-dir") + 1])
(folder.parent / "arguments.json").write_text(json.dumps(sys.argv[1:]))
result = {result!r}
if result:
    (folder / sys.argv[sys.argv.index("--result-filename") + 1]).write_text(result)
sys.exit({status})
"""


@pytest.fixture
def load(tmp_path: Path) -> Load:
    (tmp_path / "bin").mkdir()
    (tmp_path / "work").mkdir()
    (tmp_path / "bin" / "python").symlink_to(sys.executable)
    return Load(tmp_path / "bin" / "python", {"PATH": os.environ["PATH"]}, tmp_path / "work", tmp_path / "log")


def result(completed: int = 4, tokens: int = ANSWER_TOKENS) -> str:
    return json.dumps(
        {
            "completed": completed,
            "output_throughput": 50.0,
            "output_lens": [ANSWER_TOKENS] * 3 + [tokens],
            "ttfts": [0.4, 0.1, 0.2, 0.3],
            "errors": [],
        }
    )


def loaded(load: Load, text: str, status: int = 0) -> Sample:
    (load.python.parent / "vllm").write_text(VLLM.format(result=text, status=status))
    return measure(load, "http://127.0.0.1:1/v1", Path("/models/m"), 1)


def test_tokens_and_the_median_first_token(load: Load) -> None:
    assert loaded(load, result()) == Sample(50.0, pytest.approx(0.25))
    given = json.loads((load.work.parent / "arguments.json").read_text())
    options = dict(itertools.pairwise(given))
    assert given[:2] == ["bench", "serve"]
    assert options["--base-url"] == "http://127.0.0.1:1"
    assert (options["--max-concurrency"], options["--num-warmups"], options["--seed"]) == ("1", "1", "1")
    assert (options["--num-prompts"], options["--random-output-len"]) == ("4", str(ANSWER_TOKENS))
    assert {"--ignore-eos", "--save-detailed"} <= set(given)


def test_each_place_gets_several_requests() -> None:
    assert [requests_of(at_once) for at_once in (1, 2, 16)] == [4, 4, 32]


@pytest.mark.parametrize(
    ("text", "status", "message"),
    [
        (result(completed=3), 0, "3 of 4 requests were answered"),
        (result(tokens=1), 0, f"with {3 * ANSWER_TOKENS + 1} tokens in place of {4 * ANSWER_TOKENS}"),
        ("", 0, "wrote no result"),
        ("{}", 0, "wrote no result"),
        (result(), 3, "vllm bench serve failed with 1 requests at once"),
    ],
)
def test_a_load_that_is_not_answered_in_full_is_no_sample(load: Load, text: str, status: int, message: str) -> None:
    with pytest.raises(ServeError, match=message):
        loaded(load, text, status)


def test_the_result_of_another_load_is_not_read(load: Load) -> None:
    loaded(load, result())
    with pytest.raises(ServeError, match="wrote no result"):
        loaded(load, "")
