"""``--store``: which shared store the stores of a command ask, and that nothing it starts asks by itself."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cpuwheels.bisect import background_build
from cpuwheels.cli import main
from cpuwheels.config.options import BuildOptions
from cpuwheels.config.paths import Paths
from cpuwheels.core.elsewhere import KEY_VARIABLE, STORE_VARIABLE, elsewhere, taken_from
from cpuwheels.core.errors import UsageError
from cpuwheels.pipeline.built_wheel import BuiltWheel
from cpuwheels.shared.options import StoreChoice, open_shared
from fake_builds import PLACE, Builds
from recorded_wheel import write_build
from shared_stores import new_signer

if TYPE_CHECKING:
    from cpuwheels.core.elsewhere import Elsewhere


class Asked:
    """Commands whose builds note whom they ask."""

    def __init__(self, base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.base = base
        self.others: list[Elsewhere | None] = []
        self.variables: list[str] = []
        builds, wheel = Builds(), write_build(base / "built")
        builds.wheel = lambda *_: wheel

        def build(*arguments: object, **options: object) -> BuiltWheel:
            self.others.append(elsewhere())
            self.variables += [name for name in os.environ if name.startswith(STORE_VARIABLE)]
            return builds(*arguments, **options)  # type: ignore[arg-type]

        monkeypatch.setattr("platform.machine", lambda: "aarch64")
        monkeypatch.setattr("platform.system", lambda: "Linux")
        monkeypatch.setattr(PLACE, build)

    def run(self, *words: str) -> object:
        with pytest.raises(SystemExit) as raised:
            main.main(["--cache", str(self.base / "cache"), "--dist", str(self.base / "dist"), *words])
        return raised.value.code


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Asked:
    return Asked(tmp_path, monkeypatch)


def test_without_the_option_nobody_is_asked(asked: Asked) -> None:
    assert asked.run("build", "x86") == 0
    assert asked.others == [None]


def test_the_builds_ask_the_store(asked: Asked, tmp_path: Path) -> None:
    new_signer(tmp_path, "key")
    key = str(tmp_path / "key.pub")
    assert asked.run("build", "x86", "--store", "https://host/store", "--store-key", key) == 0
    (other,) = asked.others
    assert other
    assert other.arguments == ("--store", "https://host/store", "--store-key", key)
    assert elsewhere() is None


def test_variables_name_it_too_and_go_no_further(asked: Asked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    new_signer(tmp_path, "key")
    monkeypatch.setenv(STORE_VARIABLE, str(tmp_path / "shared"))
    monkeypatch.setenv(KEY_VARIABLE, str(tmp_path / "key.pub"))
    assert asked.run("build", "x86", "--locked") == 0
    (other,) = asked.others
    assert other
    assert other.arguments == ("--store", str(tmp_path / "shared"), "--store-key", str(tmp_path / "key.pub"))
    assert asked.variables == []


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--store", "ftp://host"], "a shared store cannot be at"),
        (["--store", "https://host"], "nothing says whose signatures count"),
        (["--store", "shared", "--locked"], "a locked run takes from a shared store only"),
        (["--unsigned-store"], "there is no shared store"),
        (["--store-key", "key.pub"], "there is no shared store"),
    ],
)
def test_bad_input(asked: Asked, options: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert asked.run("build", "x86", *options) == UsageError.exit_code
    assert said in capsys.readouterr().err
    assert asked.others == []


def test_a_build_in_the_background_asks_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commands: list[list[str]] = []
    monkeypatch.setattr(background_build, "run", lambda command, **_: commands.append(list(map(str, command))))
    paths = Paths(tmp_path, tmp_path, tmp_path)
    background_build.build_in_background(paths, "x86", BuildOptions())
    choice = StoreChoice(str(tmp_path / "shared"))
    with taken_from(open_shared(choice, pytest.fail, locked=False)):
        background_build.build_in_background(paths, "x86", BuildOptions())
    assert "--store" not in commands[0]
    assert commands[1] == [*commands[0], "--store", str(tmp_path / "shared")]
