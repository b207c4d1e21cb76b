"""Which settings of a repository are taken back."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from cpuwheels.core.capture import capture
from cpuwheels.core.errors import SourceError
from cpuwheels.core.git_settings import executed_settings, git_command, git_environment
from sample_source import git

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("plain_git")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An empty repository."""
    (tmp_path / "repository").mkdir()
    git(tmp_path / "repository", "init", "--quiet")
    return tmp_path / "repository"


def taken_back(folder: Path) -> set[str]:
    return set((executed_settings(folder, git_environment()) or ())[1::2])


def test_a_repository_without_any(folder: Path) -> None:
    assert taken_back(folder) == set()


def test_what_is_no_repository_has_none(tmp_path: Path) -> None:
    assert executed_settings(tmp_path / "gone", git_environment()) is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("filter.Lfs x.smudge", "filter.Lfs x.smudge="),
        ("filter.a.b.required", "filter.a.b.required=false"),
        ("http.https://a.b/.saveCookies", "http.https://a.b/.savecookies=false"),
        ("http.https://a.b/.cookieFile", "http.https://a.b/.cookiefile="),
        ("core.sshCommand", "core.sshcommand=ssh"),
        ("core.alternateRefsCommand", "core.alternaterefscommand=true"),
        ("credential.https://a.b.helper", "credential.helper="),
    ],
)
def test_what_is_taken_back(name: str, value: str, folder: Path) -> None:
    git(folder, "config", name, "program")
    assert taken_back(folder) == {value}
    options = executed_settings(folder, git_environment())
    asked = capture(
        git_command("config", "--get", value.partition("=")[0], folder=folder, taken_back=options or ()),
        env=git_environment(),
    )
    assert asked.output == f"{value.partition('=')[2]}\n"


def test_the_users_own_commands_are_kept_and_their_filters_are_not(folder: Path, tmp_path: Path) -> None:
    text = '[core]\n sshCommand = mine\n[credential]\n helper = mine\n[filter "lfs"]\n clean = git-lfs\n'
    (tmp_path / ".gitconfig").write_text(text)
    assert taken_back(folder) == {"filter.lfs.clean="}


@pytest.mark.parametrize("name", ["remote.origin.uploadpack", "remote.x.vcs", "core.gitProxy", "filter.a=b.clean"])
def test_what_cannot_be_taken_back_is_refused(name: str, folder: Path) -> None:
    git(folder, "config", name, "program")
    with pytest.raises(SourceError, match="git cannot be told to leave out") as raised:
        executed_settings(folder, git_environment())
    assert raised.value.where == str(folder)


def test_a_name_with_an_equals_sign_that_is_never_executed_is_left_alone(folder: Path) -> None:
    git(folder, "config", "url.https://a.b/?c=d.insteadOf", "x")
    assert taken_back(folder) == set()


def test_every_setting_is_one_that_git_takes(folder: Path) -> None:
    assert shutil.which("git")
    assert capture(git_command("status", "--porcelain", folder=folder), env=git_environment()).returncode == 0
