"""``--index``: the same places in every command, and one refusal where a command cannot use one."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from commit_wheels import wheel
from cpuwheels.cli import main
from cpuwheels.cli.index_place import index_folder, web_address
from cpuwheels.cli.main import cli
from cpuwheels.config.matrix import load_matrix
from cpuwheels.core.console import Reporter
from cpuwheels.core.errors import PublishError, UsageError
from cpuwheels.rebuild.published import get_published
from cpuwheels.rebuild.site.newest import newest_wheels

BUCKET, WEB = "s3://bucket/prefix", "https://wheels.example.org"
ENDS = ["--good", "a", "--bad", "b", "--run", "true"]

WRITERS = [["publish", "a.whl"], ["check-index"], ["check-index", "--repair"], ["nightly"], ["nightly", "--publish"]]
READERS = [["rebuild", "0.32.0"], ["rebuild", "--newest", "1"], ["mirror", "m", "0.32.0"], ["bisect", *ENDS]]


def code_of(*words: str) -> object:
    with pytest.raises(SystemExit) as raised:
        main.main(list(words))
    return raised.value.code


@pytest.fixture
def index(tmp_path: Path, project_root: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """An index with a wheel."""
    place = tmp_path / "wheels"
    words = ["publish", str(wheel(tmp_path)), "--nightly", "--no-locked", "--index", str(place)]
    assert code_of("--root", str(project_root), *words) == 0
    assert capsys.readouterr().out
    return place


def test_every_command_calls_it_a_place() -> None:
    found = {
        name: (one.metavar, (one.help or "").partition(":")[0])
        for name, command in cli.commands.items()
        for one in command.params
        if "--index" in one.opts and one.expose_value
    }
    assert set(found) >= {"bisect", "rebuild", "mirror", "nightly", "publish", "check-index", "serve-index"}
    assert set(found.values()) == {("PLACE", "Index")}


@pytest.mark.parametrize("words", WRITERS, ids=" ".join)
def test_what_writes_takes_no_web_address(tmp_path: Path, monkeypatch, capsys, words: list[str]) -> None:
    monkeypatch.chdir(tmp_path)
    assert code_of(*words, "--index", WEB) == UsageError.exit_code
    told = capsys.readouterr().err
    assert f"an index cannot be kept at {WEB}\n  where: --index\n" in told


@pytest.mark.parametrize("words", [*READERS, ["nightly", "--build"], ["serve-index"]], ids=" ".join)
def test_what_reads_takes_no_bucket(tmp_path: Path, monkeypatch, capsys, words: list[str]) -> None:
    monkeypatch.chdir(tmp_path)
    assert code_of(*words, "--index", BUCKET) == UsageError.exit_code
    assert "\n  where: --index\n" in capsys.readouterr().err


@pytest.mark.parametrize("words", READERS, ids=" ".join)
def test_a_folder_without_an_index(tmp_path: Path, monkeypatch, capsys, words: list[str]) -> None:
    monkeypatch.chdir(tmp_path)
    assert code_of(*words, "--index", "nothere") == PublishError.exit_code
    assert f"there is no index: index.json is missing\n  where: {tmp_path / 'nothere'}\n" in capsys.readouterr().err
    assert not (tmp_path / "nothere").exists()


@pytest.mark.parametrize("words", [["check-index"], ["check-index", "--repair"], ["collect-rebuilds"]], ids=" ".join)
def test_what_checks_makes_no_folder(tmp_path: Path, monkeypatch, capsys, words: list[str]) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rebuilders.yaml").write_text("rebuilders: []\n")
    more = ["--rebuilders", "rebuilders.yaml"] if words[0] == "collect-rebuilds" else []
    for place, given in ((tmp_path / "dist" / "index", []), (tmp_path / "nothere", ["--index", "nothere"])):
        assert code_of(*words, *more, *given) == PublishError.exit_code
        assert f"there is no index: index.json is missing\n  where: {place}\n" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["rebuilders.yaml"]


@pytest.mark.parametrize("proxy", [False, True])
def test_a_folder_is_read_at_an_address_meanwhile(
    index: Path, tmp_path: Path, project_root: Path, reporter: Reporter, monkeypatch: pytest.MonkeyPatch, *, proxy: bool
) -> None:
    if proxy:
        monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    target = load_matrix(project_root).target("x86")
    copy = tmp_path / "copy"
    copy.mkdir()
    with web_address(str(index)) as address:
        (new,) = newest_wheels(address, 5, None)
        assert new.url.startswith(f"{address}/files/")
        found = get_published(new.source, address, target, copy, reporter, called=(address, str(index)))
    assert found.sha256 == new.sha256
    assert found.origin == str(index / new.url.removeprefix(f"{address}/"))
    assert found.wheel.read_bytes() == Path(found.origin.replace("%2B", "+")).read_bytes()
    with pytest.raises(httpx.ConnectError):
        httpx.get(address, trust_env=False)


def test_a_web_address_is_taken_as_it_is() -> None:
    with web_address(f"{WEB}/") as address:
        assert address == WEB


def test_the_folder_of_a_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert index_folder("a/../b") == tmp_path / "b"
    assert index_folder(f"file://{tmp_path}/b") == tmp_path / "b"
