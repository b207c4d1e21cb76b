"""Locks of Python packages: what is pinned, and that nothing goes back to an older version."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from cpuwheels.core.errors import BuildEnvironmentError, CommandError
from cpuwheels.fetch.locks import python_locks
from cpuwheels.fetch.locks.python_locks import LOCKS, WITH_FILES, Rules, pins, resolve, went_back, without_constraints

DAY = datetime(2026, 11, 1, tzinfo=UTC)


def test_every_lock_of_the_project_is_renewed(project_root: Path) -> None:
    assert {path.stem for path in (project_root / "locks").glob("*.txt")} == LOCKS.keys()
    assert {f"pylock.{name}.toml" for name in WITH_FILES} == {
        path.name for path in (project_root / "locks").glob("*.toml")
    }
    for sources in LOCKS.values():
        assert (project_root / sources[0]).is_file()


def test_pins_are_read_with_several_versions() -> None:
    text = "Net_X==3.6 ; python_version < '3.12' \\\n    --hash=sha256:00\nnet-x==3.7\na==1\\\n# b==2\n"
    assert pins(text) == {"net-x": {"3.6", "3.7"}, "a": {"1"}}


def test_what_went_back_is_found() -> None:
    assert went_back("a==1.10\nb==2\nc==1\n", "a==1.9\nb==3\n") == {"a": "1.10"}
    assert went_back("a==1\na==2\n", "a==2\n") == {}


def test_a_lock_does_not_name_the_files_of_a_run() -> None:
    kept = "    #   -c /x/y/dev-kept.txt\n"
    text = (
        f"a==1\n    # via\n{kept}    #   b\nc==1\n    # via\n{kept}    #   d\n    #   e\n"
        "f==1\n    # via\n    #   g\n    #   h\n"
    )
    cleaned = "a==1\n    # via b\nc==1\n    # via\n    #   d\n    #   e\nf==1\n    # via\n    #   g\n    #   h\n"
    assert without_constraints(text) == cleaned
    assert without_constraints(cleaned) == cleaned


class Uv:
    """Stands for uv: notes how it is called, and writes what it is told to, as long as nothing is kept."""

    def __init__(self, *answers: str) -> None:
        self.answers, self.called = list(answers), list[list[str]]()

    def __call__(self, command: list[Any], *, cwd: Path, **_: object) -> None:
        words = [str(word) for word in command[1:]]
        self.called.append(words)
        output = cwd / words[words.index("-o") + 1]
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        output.write_text("lock-version = '1.0'\n" if output.suffix == ".toml" else answer)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "locks").mkdir()
    (tmp_path / "locks" / "zig.txt").write_text("a==2\nb==1\n")
    return tmp_path


def test_young_packages_are_left_out_and_nothing_goes_back(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    uv = Uv("a==1\nb==1.5\n", "a==2\nb==1.5\n")
    monkeypatch.setattr(python_locks, "run", uv)
    resolve(project, "zig", Rules(True, DAY, frozenset({"b"})), project / "zig.log")
    first, second, files = uv.called
    assert "--upgrade" in first
    assert first[first.index("--exclude-newer") + 1] == "2026-11-01T00:00:00Z"
    allowed = "--exclude-newer-package"
    assert [word for word in first if word.startswith("b=")] == ["b=9999-01-01T00:00:00Z"]
    # What was locked is younger than the limit: it stays.
    assert [word for word in second if word.startswith("a=")] == ["a=9999-01-01T00:00:00Z"]
    assert second.count(allowed) == 2
    constraint = Path(second[second.index("--constraint") + 1])
    assert constraint.read_text() == "a==2\n"
    assert (project / "locks" / "zig.txt").read_text() == "a==2\nb==1.5\n"
    # The lock with the files' names is of the same versions and of no later files.
    assert files[-1] == "locks/pylock.zig.toml"
    assert files[files.index("-c") + 1] == "locks/zig.txt"
    assert "--exclude-newer" in files
    assert "--upgrade" not in files


def test_without_an_update_nothing_newer_is_taken(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    uv = Uv("a==1\n")
    monkeypatch.setattr(python_locks, "run", uv)
    resolve(project, "zig", Rules(), project / "zig.log")
    assert len(uv.called) == 2
    assert not [word for words in uv.called for word in words if word in {"--upgrade", "--exclude-newer"}]


def test_what_cannot_be_resolved_is_one_message(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise CommandError("uv failed", output="No solution found")

    monkeypatch.setattr(python_locks, "run", fail)
    with pytest.raises(BuildEnvironmentError, match=r"locks/zig\.txt cannot be resolved") as caught:
        resolve(project, "zig", Rules(True, DAY), project / "zig.log")
    assert "--allow NAME" in caught.value.next_step
    assert caught.value.output == "No solution found"
