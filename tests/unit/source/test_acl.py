from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from cpuwheels.config.matrix import load_matrix
from cpuwheels.config.options import BuildOptions
from cpuwheels.config.pins import AclPin
from cpuwheels.core.errors import LockedError
from cpuwheels.source.acl import REPOSITORY_VARIABLE, choose_acl, get_acl
from sample_source import commit, git

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from cpuwheels.config.context import BuildContext
    from cpuwheels.core.console import Reporter
    from cpuwheels.source.acl import Acl

    Get = Callable[..., Acl]

pytestmark = pytest.mark.usefixtures("plain_git")

TAG = "v52.6.0"
OPTIONS = {"ARM_COMPUTE_ARCH": "armv8.2-a"}


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    folder = tmp_path / "acl"
    folder.mkdir()
    (folder / "a.cpp").write_text("one\n")
    commit(folder)
    git(folder, "tag", TAG)
    return folder


@pytest.fixture
def get(context: BuildContext) -> Get:
    def ask(pin: AclPin, *, locked: bool = False, environ: dict[str, str] | None = None) -> Acl:
        return get_acl(replace(context, options=BuildOptions(locked=locked)), TAG, pin, environ=environ or {})

    return ask


def pin(clone: Path, *, known: bool) -> AclPin:
    return AclPin(
        commit=git(clone, "rev-parse", "HEAD") if known else None,
        repositories=(str(clone),),
        machines=("aarch64",),
        options=OPTIONS,
    )


def test_a_pinned_commit_is_taken_in_silence(get: Get, clone: Path, reporter: Reporter) -> None:
    found = get(pin(clone, known=True), locked=True)
    assert found.folder is not None
    assert (found.folder / "a.cpp").read_text() == "one\n"
    assert (found.kind, found.tag, found.commit, found.options) == (
        "pinned",
        TAG,
        git(clone, "rev-parse", "HEAD"),
        OPTIONS,
    )
    assert reporter.announcements == []


def test_a_tag_alone_is_believed_and_its_commit_said(get: Get, clone: Path, reporter: Reporter) -> None:
    found = get(pin(clone, known=False))
    wanted = git(clone, "rev-parse", "HEAD")
    assert (found.kind, found.commit) == ("tag", wanted)
    (said,) = reporter.announcements
    assert wanted in said
    assert "matrix.yaml" in said


def test_a_tag_alone_is_refused_if_locked(get: Get, clone: Path) -> None:
    with pytest.raises(LockedError, match="pinned by its tag alone") as raised:
        get(pin(clone, known=False), locked=True)
    assert f"git rev-parse '{TAG}^{{commit}}'" in raised.value.next_step


@pytest.mark.parametrize("known", [True, False])
def test_out_of_reach_the_build_goes_without_and_says_so(
    get: Get, clone: Path, reporter: Reporter, known: bool
) -> None:
    wanted = pin(clone, known=known)
    clone.rename(clone.with_name("gone"))
    found = get(wanted)
    assert (found.kind, found.folder, found.commit) == ("absent", None, None)
    (said,) = reporter.announcements
    assert f"Arm Compute Library {TAG} cannot be reached; building without it" in said
    assert REPOSITORY_VARIABLE in said


def test_out_of_reach_is_refused_if_locked(get: Get, clone: Path, reporter: Reporter) -> None:
    wanted = pin(clone, known=True)
    clone.rename(clone.with_name("gone"))
    with pytest.raises(LockedError, match="cannot be reached") as raised:
        get(wanted, locked=True)
    assert str(clone) in raised.value.output
    assert REPOSITORY_VARIABLE in raised.value.next_step
    assert reporter.announcements == []


def test_the_users_own_clone_is_enough(get: Get, clone: Path, tmp_path: Path) -> None:
    elsewhere = pin(clone, known=True).model_copy(update={"repositories": (str(tmp_path / "gone"),)})
    assert get(elsewhere, environ={REPOSITORY_VARIABLE: str(clone)}).kind == "pinned"


@pytest.mark.parametrize(
    ("machine", "asked", "found"),
    [("aarch64", (TAG,), TAG), ("aarch64", ("v1", TAG), TAG), ("aarch64", (), None), ("x86_64", (TAG,), None)],
)
def test_only_some_machines_have_a_use_for_it(
    project_root: Path, machine: str, asked: tuple[str, ...], found: str | None
) -> None:
    pins = load_matrix(project_root).acl
    assert choose_acl(asked, pins, machine) == (None if found is None else (found, pins[found]))


def test_a_version_that_is_not_pinned_is_taken_like_the_newest_but_by_its_tag(project_root: Path) -> None:
    pins = load_matrix(project_root).acl
    newest = next(reversed(pins.values()))
    assert choose_acl(("v99.0.0",), pins, "aarch64") == ("v99.0.0", newest.model_copy(update={"commit": None}))


def test_the_commit_of_another_version_is_not_taken() -> None:
    pins = {"v52.6.0": AclPin(commit="c" * 40, repositories=("https://acl.invalid",), machines=("aarch64",))}
    found = choose_acl(("v99.0.0",), pins, "aarch64")
    assert found is not None
    assert (found[0], found[1].commit) == ("v99.0.0", None)
