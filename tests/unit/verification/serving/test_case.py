"""A case with a server of a few lines, and scripts that stand for those of the wheel's environment."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from cpuwheels.core.errors import ServeError
from cpuwheels.verification.serving import case as cases
from cpuwheels.verification.serving import server as servers
from cpuwheels.verification.serving.case import Setting, Wanted, first_error, questions_for, serve_case
from cpuwheels.verification.serving.environment import ServingEnvironment
from layout import HELPERS

QUESTION = {"kind": "completion", "text": "x", "prompt": [5, 6], "answer": [1, 2], "lead": 0.2}
RIGHT = {"prompt": [5, 6], "answer": [1, 2], "text": "?"}
ASK = """import pathlib, sys; pathlib.Path(sys.argv[4]).write_text({answers!r}); sys.exit({status})"""


@pytest.fixture
def setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Setting:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").symlink_to(sys.executable)
    (tmp_path / "bin" / "vllm").write_text((HELPERS / "fake_vllm.py").read_text())
    (tmp_path / "resources").mkdir()
    monkeypatch.setattr(cases, "_RESOURCES", tmp_path / "resources")
    environment = ServingEnvironment(
        python=tmp_path / "bin" / "python",
        site=tmp_path,
        version="3.11",
        torch="2.13.0+cpu",
        lock="",
        lock_sha256="",
        lacks=(),
        moved=(),
    )
    env = {"PATH": os.environ["PATH"], "CHILD": str(tmp_path / "child")}
    return Setting(environment, tmp_path, tmp_path / "logs", 0.2, env)


def script(setting: Setting, name: str, text: str) -> None:
    (setting.work / "resources" / name).write_text(text)


def served(
    setting: Setting,
    monkeypatch: pytest.MonkeyPatch,
    *,
    answers: object = (RIGHT,),
    status: int = 0,
    model: str = "good",
    library: str = "",
    loaded: str = "_C_AVX2",
    runtimes: str = "libgomp.so.1 libtcmalloc_minimal.so",
) -> cases.Case:
    script(setting, "ask.py", ASK.format(answers=json.dumps(answers), status=status))
    (setting.work / "questions").write_text(json.dumps([QUESTION]))
    names = [*(f"vllm/{each}.abi3.so" for each in loaded.split()), *(f"torch/lib/{each}" for each in runtimes.split())]
    monkeypatch.setattr(servers, "_mapped", lambda _: "".join(f"7f0 /x/{name}\n" for name in names))
    wanted = Wanted(
        model, setting.work / model, "float32", library, "_C", allocator=True, env={"ONEDNN_MAX_CPU_ISA": "AVX2"}
    )
    return serve_case(setting, wanted, setting.work / "questions")


def test_right_answers(setting: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    case = served(setting, monkeypatch, library="_C_AVX2", loaded="_C _C_AVX2")
    assert (case.verdict, case.problems, case.library) == ("right", [], "_C_AVX2")
    assert case.onednn_limit == "AVX2"
    assert case.runtimes == ("libgomp.so.1", "libtcmalloc_minimal.so")
    assert case.started is not None


@pytest.mark.parametrize(
    ("how", "verdict", "words"),
    [
        ({"answers": [RIGHT | {"answer": [1, 9]}]}, "wrong", "token 2 of 2 differs"),
        ({"answers": [RIGHT | {"answer": None}]}, "failed", "the server's answers have no tokens"),
        ({"status": 1}, "failed", "a request failed"),
        ({"library": "_C_AVX512"}, "failed", "the server loaded _C_AVX2, and not _C_AVX512"),
        ({"loaded": ""}, "failed", "the server loaded no kernel library, and not one library"),
        ({"loaded": "_C_AVX2 _C_AVX512"}, "failed", "loaded _C_AVX2 and _C_AVX512, and not one library"),
        ({"runtimes": "libgomp.so.1"}, "failed", "loaded no allocator, and not the wheel's"),
        ({"model": "dies"}, "failed", "the server did not start: its process ended with status 3"),
        ({"model": "ends badly"}, "failed", "the server ended with status 7"),
    ],
)
def test_everything_else_is_told(
    setting: Setting, monkeypatch: pytest.MonkeyPatch, how: dict[str, object], verdict: str, words: str
) -> None:
    case = served(setting, monkeypatch, **how)  # type: ignore[arg-type]
    assert case.verdict == verdict
    assert words in " ".join(case.problems)


def test_a_model_that_is_made_is_asked_everything(setting: Setting) -> None:
    script(setting, "reference.py", "import pathlib, sys; pathlib.Path(sys.argv[5]).write_text('[1, 2]')")
    with pytest.raises(ServeError, match="only 2 of 12 questions have a clear answer"):
        questions_for(setting, "opt", setting.work, "float32")
    assert questions_for(setting, "llama", setting.work, "float32").is_file()


def test_a_model_that_transformers_cannot_run_is_told(setting: Setting) -> None:
    script(setting, "reference.py", "import sys; sys.exit('no such architecture')")
    with pytest.raises(ServeError, match=r"reference\.py failed: no such architecture"):
        questions_for(setting, "llama", setting.work, "float32")


def test_the_first_error_of_a_servers_log_is_told(tmp_path: Path) -> None:
    log = tmp_path / "log"
    assert first_error(log) == ""
    log.write_text(
        "(APIServer pid=1) WARNING 11-24 [a.py:1] this can cause errors like `OSError: too many`\n"
        "(Worker pid=2) ERROR 11-24 [b.py:2] RuntimeError: Boolean value of Tensor\n"
        "(APIServer pid=1) ERROR 11-24 [c.py:3] vllm.EngineDeadError: see above\n"
    )
    assert first_error(log) == ": RuntimeError: Boolean value of Tensor"
    log.write_text("Traceback\n(APIServer pid=1) ValueError: no such model\n")
    assert first_error(log) == ": ValueError: no such model"
