"""A case with a server of a few lines, and scripts that stand for those of the wheel's environment."""

from __future__ import annotations

import json
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

import pytest

from cpuwheels.config.serving_options import ServeMode
from cpuwheels.verification.serving import case as cases
from cpuwheels.verification.serving import server as servers
from cpuwheels.verification.serving import setting as settings
from cpuwheels.verification.serving.case import Wanted, first_error, serve_case
from cpuwheels.verification.serving.models import Model
from cpuwheels.verification.serving.result import Case, Figures
from cpuwheels.verification.serving.server import ServerRequest
from cpuwheels.verification.serving.setting import Setting
from cpuwheels.wheel.kernel_wheel import Preloads
from serving_settings import serving_setting

QUESTION = {"kind": "completion", "text": "x", "prompt": [5, 6], "answer": [1, 2], "lead": 0.2}
ALONE = {"prompt": [5, 6], "answer": [1, 2], "text": "?"}
STREAM = {"answer": [1, 2], "text": "?", "parts": 2, "first": 0.1, "usage": [2, 2]}
RIGHT = {"alone": ALONE, "stream": STREAM, "together": [ALONE]}
VECTOR_ASKED = {"kind": "embedding", "text": "x", "tokens": 2, "vector": [1.0, 0.0], "limit": 0.1}
ASK = """import pathlib, sys; pathlib.Path(sys.argv[4]).write_text({answers!r}); sys.exit({status})"""


@pytest.fixture
def setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Setting:
    (tmp_path / "resources").mkdir()
    monkeypatch.setattr(settings, "RESOURCES", tmp_path / "resources")
    return serving_setting(tmp_path)


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
    question: object = QUESTION,
    mode: ServeMode = "eager",
) -> Case:
    script(setting, "ask.py", ASK.format(answers=json.dumps(answers), status=status))
    (setting.work / "questions").write_text(json.dumps([question]))
    names = [*(f"vllm/{each}.abi3.so" for each in loaded.split()), *(f"torch/lib/{each}" for each in runtimes.split())]
    shown = {"maps": "".join(f"7f0 /x/{name}\n" for name in names), "environ": ""}
    monkeypatch.setattr(servers, "_read", lambda _, name: shown[name])
    wanted = Wanted(
        model,
        setting.work / model,
        "float32",
        library,
        "_C",
        preloads=Preloads(allocator=True),
        env={"ONEDNN_MAX_CPU_ISA": "AVX2"},
        mode=mode,
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
        ({"answers": [RIGHT | {"alone": ALONE | {"answer": [1, 9]}}]}, "wrong", "token 2 of 2 differs"),
        ({"answers": [RIGHT | {"alone": ALONE | {"answer": None}}]}, "failed", "the server's answers have no tokens"),
        ({"answers": [RIGHT | {"stream": STREAM | {"usage": None}}]}, "wrong", "the stream's usage is None"),
        ({"answers": [RIGHT | {"together": [ALONE | {"answer": [9, 2]}]}]}, "wrong", "together with others, token 1"),
        ({"status": 1}, "failed", "a request failed"),
        ({"library": "_C_AVX512"}, "failed", "the server loaded _C_AVX2, and not _C_AVX512"),
        ({"loaded": ""}, "failed", "the server loaded no kernel library, and not one library"),
        ({"loaded": "_C_AVX2 _C_AVX512"}, "failed", "loaded _C_AVX2 and _C_AVX512, and not one library"),
        ({"runtimes": "libgomp.so.1"}, "failed", "uses no allocator, and not the wheel's"),
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


def test_a_vector_is_compared(setting: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    near, far = {"tokens": 2, "vector": [0.999, 0.04]}, {"tokens": 2, "vector": [0.0, 1.0]}
    answer = {"alone": near, "stream": None, "together": [near]}
    assert served(setting, monkeypatch, question=VECTOR_ASKED, answers=[answer]).verdict == "right"
    case = served(setting, monkeypatch, question=VECTOR_ASKED, answers=[answer | {"together": [near, far]}])
    assert case.verdict == "wrong"
    assert "together with others, its vector is off by 1.4" in case.problems[0]


def test_the_compiler_is_told_of_and_used_where_code_is_made(setting: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    setting = replace(setting, compiler="GNU 14")
    case = served(setting, monkeypatch, mode="compile")
    assert (case.mode, case.compiler, case.verdict) == ("compile", "GNU 14", "right")
    assert "--enforce-eager" not in (setting.logs / "serve-good-float32-compile.log").read_text()
    case = served(setting, monkeypatch)
    assert (case.mode, case.compiler) == ("eager", "")
    log = (setting.logs / "serve-good-float32.log").read_text()
    assert "--enforce-eager" in log
    assert "--max-num-batched-tokens 128" in log


def test_a_models_variables_are_the_servers(setting: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(cases.MADE, "dies", Model(env={"A": "of the model", "ONEDNN_MAX_CPU_ISA": "of the model"}))
    asked: list[ServerRequest] = []

    def note(request: ServerRequest) -> AbstractContextManager[servers.Server]:
        asked.append(request)
        return servers.serving(request)

    monkeypatch.setattr(cases, "serving", note)
    served(setting, monkeypatch, model="dies")
    (request,) = asked
    assert (request.env["A"], request.env["ONEDNN_MAX_CPU_ISA"]) == ("of the model", "AVX2")
    assert "PATH" in request.env


def test_figures_are_measured_while_the_server_runs_if_wanted(
    setting: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    fast = Figures(source="x", requests=1, together=1, tokens_per_second=9.0, first_token_ms=1.0)
    monkeypatch.setattr(cases, "measure", lambda *_: fast)
    assert served(setting, monkeypatch).figures is None
    assert served(replace(setting, figures=True), monkeypatch).figures == fast


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


def test_an_emulated_cpus_server_has_its_interpreter_and_more_time(
    setting: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests: list[ServerRequest] = []

    def refuse(request: ServerRequest) -> AbstractContextManager[object]:
        requests.append(request)
        raise servers.ServerError("not started")

    monkeypatch.setattr(cases, "serving", refuse)
    wanted = Wanted("opt", setting.work, "float32", "_C_NEON", "_C", Preloads(allocator=True), env={})
    other = replace(wanted, python=setting.work / "bin" / "python-1", cpu="neoverse-n1")
    found = [
        serve_case(setting, wanted, setting.work),
        serve_case(replace(setting, emulated=True), other, setting.work),
    ]
    assert [case.cpu for case in found] == ["", "neoverse-n1"]
    own, emulated = requests
    assert (own.python, emulated.python) == (setting.environment.python, other.python)
    assert (emulated.patience, emulated.ending) == (8 * own.patience, 8 * own.ending)
