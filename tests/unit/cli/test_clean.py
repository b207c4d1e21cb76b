"""`cpuwheels clean`: its options, what it prints, and that other commands keep it away."""

from __future__ import annotations

import os
import time
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from cpuwheels.cli import main
from cpuwheels.cli.clean import clean
from cpuwheels.cli.folders import Folders, pass_paths
from cpuwheels.config.paths import Paths
from cpuwheels.core.cleaning import DAYS
from cpuwheels.core.sealed_entry import MANIFEST
from cpuwheels.core.store import Store

KEY = "a" * 24


def run(store: Store, *words: str) -> object:
    with pytest.raises(SystemExit) as raised:
        main.main(["clean", "--cache", str(store.root), *words])
    return raised.value.code


@pytest.fixture
def old(store: Store) -> Path:
    entry = store.get("sources", KEY, lambda folder: (folder / "file").write_bytes(b"\1" * 8000) and None)
    before = time.time() - (DAYS + 1) * 24 * 3600
    os.utime(entry / MANIFEST, (before, before))
    return entry


def test_a_dry_run_says_what_would_go(store: Store, old: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(store, "--dry-run") == 0
    printed = capsys.readouterr().out
    assert f"stores: {store.root}" in printed
    assert "would go" in printed
    assert "would be freed" in printed
    assert old.is_dir()


def test_it_removes(store: Store, old: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(store) == 0
    assert "12 KiB of 12 KiB freed" in capsys.readouterr().out
    assert not old.exists()
    assert run(store) == 0
    assert capsys.readouterr().out.endswith("0 B of 0 B freed\n")


def test_the_help_says_the_default() -> None:
    days = next(option for option in clean.params if option.name == "days")
    assert days.default == DAYS


def test_fewer_days(store: Store, old: Path) -> None:
    assert run(store, "--older-than", str(DAYS + 2)) == 0
    assert old.is_dir()
    assert run(store, "--older-than", str(DAYS - 2)) == 0
    assert not old.exists()


def test_down_to(store: Store, old: Path) -> None:
    assert run(store, "--older-than", "100", "--down-to", "1G") == 0
    assert old.is_dir()
    assert run(store, "--older-than", "100", "--down-to", "1K") == 0
    assert not old.exists()


@pytest.mark.parametrize(
    "words", [("--down-to", "much"), ("--down-to", "0"), ("--older-than", "-1"), ("--older-than", "nan"), ("sources",)]
)
def test_bad_options(store: Store, old: Path, words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(store, *words) == 2
    assert "error: " in capsys.readouterr().err
    assert old.is_dir()


def test_a_command_that_runs_keeps_it_away(store: Store, old: Path) -> None:
    @click.command()
    @pass_paths
    def build(_paths: Paths) -> None:
        assert run(store) == 24

    result = CliRunner().invoke(build, obj=Folders(cache=store.root), catch_exceptions=False)
    assert result.exit_code == 0
    assert "the stores are in use" in result.stderr
    assert old.is_dir()
    assert run(store) == 0
    assert not old.exists()
