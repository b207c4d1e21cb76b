"""vLLM's benchmark, with a program that stands for it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cpuwheels.verification.serving.figures import measure
from cpuwheels.verification.serving.models import Task
from cpuwheels.verification.serving.server import ServerError
from serving_settings import serving_setting

BENCH = """import json, pathlib, sys
words = sys.argv[1:]
print(*words)
folder, name = (words[words.index(option) + 1] for option in ("--result-dir", "--result-filename"))
found = {found!r}
if found is None:
    sys.exit("no server there")
(pathlib.Path(folder) / name).write_text(json.dumps(found))
"""
FOUND = {"completed": 32, "output_throughput": 101.26, "total_token_throughput": 303.0, "median_ttft_ms": 12.345}


def measured(folder: Path, found: object, task: Task = "text") -> tuple[object, str]:
    setting = serving_setting(folder)
    (folder / "bin" / "vllm").write_text(BENCH.replace("{found!r}", repr(found)))
    log = folder / "bench.log"
    return measure(setting, "http://127.0.0.1:1/v1", folder / "model", task, log), log.read_text()


def test_answers_are_measured(tmp_path: Path) -> None:
    figures, log = measured(tmp_path, FOUND)
    assert json.loads(figures.model_dump_json()) == {  # type: ignore[attr-defined]
        "source": "vllm bench serve",
        "requests": 32,
        "together": 8,
        "tokens_per_second": 101.3,
        "first_token_ms": 12.35,
    }
    assert "bench serve" in log
    assert "--base-url http://127.0.0.1:1 --endpoint /v1/completions" in log


def test_of_embeddings_the_prompts_are_counted(tmp_path: Path) -> None:
    figures, log = measured(tmp_path, FOUND, "embedding")
    assert (figures.tokens_per_second, figures.first_token_ms) == (303.0, None)  # type: ignore[attr-defined]
    assert "--backend openai-embeddings" in log


@pytest.mark.parametrize(
    ("found", "words"), [(None, "failed: no server there"), (FOUND | {"completed": 31}, "31 of 32 requests succeeded")]
)
def test_a_failure_is_told(tmp_path: Path, found: object, words: str) -> None:
    with pytest.raises(ServerError, match=words):
        measured(tmp_path, found)
