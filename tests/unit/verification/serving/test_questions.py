"""What transformers is asked, with scripts that stand for it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from cpuwheels.core.errors import ServeError
from cpuwheels.verification.serving import questions as asking
from cpuwheels.verification.serving import setting as settings
from cpuwheels.verification.serving.questions import make_models, questions_for
from cpuwheels.verification.serving.setting import Setting
from serving_settings import serving_setting


@pytest.fixture
def setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Setting:
    (tmp_path / "resources").mkdir()
    monkeypatch.setattr(settings, "RESOURCES", tmp_path / "resources")
    return serving_setting(tmp_path)


def script(setting: Setting, name: str, text: str) -> None:
    (setting.work / "resources" / name).write_text(text)


def test_a_model_that_is_made_is_asked_everything(setting: Setting) -> None:
    script(setting, "reference.py", "import pathlib, sys; pathlib.Path(sys.argv[5]).write_text('[1, 2]')")
    with pytest.raises(ServeError, match="only 2 of 12 questions have a clear answer"):
        questions_for(setting, "opt", setting.work, "float32")
    assert questions_for(setting, "llama", setting.work, "float32").is_file()


def test_a_model_that_transformers_cannot_run_is_told(setting: Setting) -> None:
    script(setting, "reference.py", "import sys; sys.exit('no such architecture')")
    with pytest.raises(ServeError, match=r"reference\.py failed: no such architecture"):
        questions_for(setting, "llama", setting.work, "float32")


def test_an_embedding_has_its_own_questions(setting: Setting) -> None:
    script(setting, "reference_vectors.py", "import pathlib, sys; pathlib.Path(sys.argv[3]).write_text(str([0] * 8))")
    assert questions_for(setting, "bert", setting.work, "float32").is_file()


def test_a_small_model_is_asked_more(setting: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    script(setting, "reference.py", "import pathlib, sys; pathlib.Path(sys.argv[5]).write_text(sys.argv[3])")
    monkeypatch.setattr(asking, "parse_as", lambda *_: [])
    folder = setting.work / "llama"
    folder.mkdir()
    (folder / "model.safetensors").write_bytes(b"x")
    assert questions_for(setting, "llama", folder, "float32").read_text() == "120"
    with (folder / "model.safetensors").open("r+b") as stream:
        stream.truncate((64 << 20) + 1)
    assert questions_for(setting, "llama", folder, "float32").read_text() == "8"


def test_models_are_made_in_one_go(setting: Setting) -> None:
    script(setting, "tiny_models.py", "import sys; open(sys.argv[1], 'w').write(' '.join(sys.argv[2:]))")
    found = make_models(setting, ["opt", "moe"])
    assert found == {name: setting.work / "models" / name for name in ("opt", "moe")}
    assert (setting.work / "models").read_text() == "opt moe"
    assert make_models(setting, []) == {}


def test_less_is_asked_where_everything_is_emulated(setting: Setting) -> None:
    text = "import json, pathlib, sys; pathlib.Path(sys.argv[5]).write_text(json.dumps(sys.argv[1:] + [0] * 8))"
    script(setting, "reference.py", text)
    folder = setting.work / "opt"
    folder.mkdir()
    (folder / "model.safetensors").write_bytes(b"x")
    few = questions_for(replace(setting, emulated=True), "opt", folder, "float32")
    _, _, candidates, _, _, *extent = json.loads(few.read_text())
    assert (candidates, extent) == ("24", ["8", "6,170", "1", *[0] * 8])
    (setting.work / "int8").mkdir()
    (setting.work / "int8" / "model.safetensors").write_bytes(b"x")
    for emulated, texts in ((True, ["6,170", "1"]), (False, ["6,40,170,450", "2"])):
        asked = questions_for(replace(setting, emulated=emulated), "int8", setting.work / "int8", "float32")
        assert json.loads(asked.read_text())[5:] == ["4", *texts, *[0] * 8]
    script(setting, "reference.py", text.replace("sys.argv[1:] + [0] * 8", "[1, 2]"))
    with pytest.raises(ServeError, match="only 2 of 3 questions have a clear answer"):
        questions_for(replace(setting, emulated=True), "opt", folder, "float32")
