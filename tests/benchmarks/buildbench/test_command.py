"""The command line: what is refused before anything is built, and where results go."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest
from buildbench import command
from buildbench.results import Results, Sizes, write_results

from bench_results import whole
from cpuwheels.core.errors import UsageError

if TYPE_CHECKING:
    from buildbench.setting import Setting

    from cpuwheels.core.console import Reporter


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["warm"], "'warm' is not a mode; there are cold, edit"),
        (["caps", "--memory", "4G,much"], "'much' is not a size"),
        (["--repeat", "0"], "'0' is not a whole number above zero"),
    ],
)
def test_what_makes_no_sense_is_refused(arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        command.main(arguments)
    assert ended.value.code == 2
    assert words in capsys.readouterr().err


def options(*arguments: str) -> object:
    return command._parser().parse_args(arguments)


def test_caps_are_tried_from_the_smallest() -> None:
    assert options("--memory", "8G, 512M,4G").memory == ["512M", "4G", "8G"]
    assert options().memory == ["3G", "4G", "6G", "8G"]


def test_results_go_where_they_are_asked_for(tmp_path: Path) -> None:
    assert command._results_path(options("--json", str(tmp_path / "a.json"))) == tmp_path / "a.json"
    path = command._results_path(options("--root", str(tmp_path), "--target", "arm"))
    assert path.parent == tmp_path / "dist/bench"
    assert path.name.startswith("arm-2")


def test_the_latest_results_are_gone_on_with(tmp_path: Path) -> None:
    arguments = ("--root", str(tmp_path), "--resume")
    with pytest.raises(UsageError, match="no earlier results"):
        command._results_path(options(*arguments))
    for name in ("x86-20261121T120000", "x86-20261122T080000", "arm-20261123T080000"):
        (tmp_path / "dist/bench").mkdir(parents=True, exist_ok=True)
        (tmp_path / f"dist/bench/{name}.json").touch()
    assert command._results_path(options(*arguments)).name == "x86-20261122T080000.json"


@pytest.mark.parametrize(
    ("require", "python", "code"), [(False, 4.0, 0), (True, 4.0, 0), (False, 4.1, 0), (True, 4.1, 1)]
)
def test_only_require_makes_a_missed_target_fail(
    require: bool, python: float, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found: Results = whole()
    runs = found.runs | {"python/ours": [found.runs["python/ours"][0].model_copy(update={"wall": python})]}
    found = found.model_copy(update={"runs": runs})
    monkeypatch.setattr(command, "_run", lambda *_: (found, [Path("x86.json")]))
    with pytest.raises(SystemExit) as ended:
        command.main(["--require"] if require else [])
    assert ended.value.code == code
    assert "written: x86.json" in capsys.readouterr().out


def gone_on_with(tmp_path: Path, reporter: Reporter, **subject: str) -> Results:
    """Return what is left of earlier results when other things are to be measured."""
    write_results(tmp_path / "x86.json", whole())
    now = SimpleNamespace(machine=whole().machine, subject=whole().subject.model_copy(update=subject))
    return command._resumed(tmp_path / "x86.json", cast("Setting", now), reporter)


def test_what_was_measured_of_the_same_things_is_kept(tmp_path: Path, reporter: Reporter) -> None:
    assert gone_on_with(tmp_path, reporter) == whole()


def test_with_another_steering_only_upstreams_side_is_kept(tmp_path: Path, reporter: Reporter) -> None:
    found = gone_on_with(tmp_path, reporter, beside_source="another")
    assert found.runs == {key: whole().runs[key] for key in ("cold/unsteered", "edit/unsteered")}
    assert found.subject.beside_source == "another"
    assert found.sizes == Sizes(unsteered=whole().sizes.unsteered, stripped=whole().sizes.stripped)


@pytest.mark.parametrize("field", ["built", "source", "compiler", "version"])
def test_results_of_other_things_are_refused(tmp_path: Path, reporter: Reporter, field: str) -> None:
    with pytest.raises(UsageError, match=f"{field}: .*, now another"):
        gone_on_with(tmp_path, reporter, **{field: "another"})
