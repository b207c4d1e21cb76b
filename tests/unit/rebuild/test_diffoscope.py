"""diffoscope where it is there: its text, within limits, and nothing that depends on it."""

from __future__ import annotations

from pathlib import Path

import pytest

from cpuwheels.rebuild import diffoscope as module
from cpuwheels.rebuild.diffoscope import diffoscope


def program(folder: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.mkdir()
    (folder / "diffoscope").write_text(f"#!/bin/sh\n{text}\n")
    (folder / "diffoscope").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


def test_without_it_nothing_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert diffoscope(tmp_path / "a", tmp_path / "b", tmp_path) == ("", "diffoscope is not on PATH")


def test_its_text_is_returned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path / "bin", 'echo "$@" > "$2"; exit 1', monkeypatch)
    text, why = diffoscope(tmp_path / "-a.whl", tmp_path / "b.whl", tmp_path)
    assert why == ""
    assert text.split()[-3:] == ["--", str(tmp_path / "-a.whl"), str(tmp_path / "b.whl")]
    assert "--timeout" in text


def test_what_fails_and_what_writes_nothing_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path / "1", "echo broken >&2; exit 2", monkeypatch)
    assert diffoscope(tmp_path / "a", tmp_path / "b", tmp_path) == ("", "diffoscope failed: broken")
    program(tmp_path / "2", "exit 1", monkeypatch)
    assert diffoscope(tmp_path / "a", tmp_path / "b", tmp_path)[1].startswith("diffoscope left no text")
    program(tmp_path / "3", 'head -c 5000000 /dev/zero > "$2"; exit 1', monkeypatch)
    assert "more than" in diffoscope(tmp_path / "a", tmp_path / "b", tmp_path)[1]


def test_one_without_end_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_SECONDS", -58.0)
    program(tmp_path / "bin", "sleep 60", monkeypatch)
    assert "no answer" in diffoscope(tmp_path / "a", tmp_path / "b", tmp_path)[1]
