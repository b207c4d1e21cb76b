from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cpuwheels.config.matrix import load_matrix
from cpuwheels.core.errors import LockedError, SourceError
from cpuwheels.core.trust import Trust
from cpuwheels.source.commit import CommitRequest
from cpuwheels.source.request import request_source
from cpuwheels.source.sdist import SdistRequest, check_sha256
from cpuwheels.source.worktree import TreeRequest
from sample_source import commit, write_tree

if TYPE_CHECKING:
    from pathlib import Path

    from cpuwheels.config.matrix import Matrix

A = "a" * 64


@pytest.fixture
def matrix(project_root: Path) -> Matrix:
    return load_matrix(project_root)


@pytest.mark.parametrize(
    ("text", "version"),
    [(None, "0.33.0"), ("0.31.0", "0.31.0"), ("v0.31.0", "0.31.0"), ("0.31", "0.31.0"), (" 0.30.0 ", "0.30.0")],
)
def test_a_pinned_version(matrix: Matrix, text: str | None, version: str) -> None:
    request = request_source(text, None, matrix)
    release = matrix.release(version)
    assert release is not None
    assert isinstance(request, SdistRequest)
    assert request.trust is Trust.RELEASE
    assert (request.sha256, request.size, request.urls) == (
        release.sdist.sha256,
        release.sdist.size,
        release.sdist.urls,
    )


def test_the_pinned_digest_may_be_repeated(matrix: Matrix) -> None:
    pinned = next(release for release in matrix.releases if release.version == "0.32.0").sdist.sha256
    assert request_source("0.32.0", f"sha256:{pinned.upper()}", matrix) == request_source("0.32.0", None, matrix)


@pytest.mark.parametrize("text", ["0.27.1", "0.33.0rc1", "1!0.1.post2"])
def test_another_version_needs_a_digest(matrix: Matrix, text: str) -> None:
    with pytest.raises(SourceError, match="is not pinned") as raised:
        request_source(text, None, matrix)
    assert "--sha256" in raised.value.next_step
    assert f"v{text}" in raised.value.next_step
    assert "0.32.0" in raised.value.next_step
    request = request_source(text, A, matrix)
    assert isinstance(request, SdistRequest)
    assert (request.version, request.sha256, request.urls) == (text, A, ())
    assert request.trust is Trust.LOCAL  # nobody but the user vouches for it


@pytest.mark.parametrize(
    "text", ["main", "v0.27.1", "1234567", "4bd2a2f", "a" * 40, "releases/v0.32.0", "pr-12345", "0-oops"]
)
def test_anything_else_is_a_commit(matrix: Matrix, text: str) -> None:
    assert request_source(text, None, matrix, environ={}) == CommitRequest(text, None, matrix.repositories)
    named = {"CPUWHEELS_VLLM_REPO": "/a/clone"}
    request = request_source(text, None, matrix, environ=named)
    assert request == CommitRequest(text, None, ("/a/clone", *matrix.repositories))
    assert request.trust is Trust.COMMIT


def test_a_clone_is_asked_for_whatever_is_named(matrix: Matrix, tmp_path: Path) -> None:
    commit(write_tree(tmp_path / "vllm"))
    assert request_source(None, None, matrix, clone=tmp_path / "vllm") == CommitRequest("HEAD", tmp_path / "vllm", ())
    request = request_source("0.32.0", None, matrix, clone=tmp_path / "vllm")
    assert request == CommitRequest("0.32.0", tmp_path / "vllm", ())


def test_a_name_that_may_move_is_refused_if_locked(matrix: Matrix) -> None:
    assert request_source("a" * 40, None, matrix, locked=True)
    for text in ("main", "v0.27.1", "a" * 39):
        with pytest.raises(LockedError, match="may mean another commit tomorrow"):
            request_source(text, None, matrix, locked=True)


@pytest.mark.parametrize("folder", ["gone", "empty"])
def test_a_clone_that_is_none(matrix: Matrix, tmp_path: Path, folder: str) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(SourceError, match="is not a git repository") as raised:
        request_source("main", None, matrix, clone=tmp_path / folder)
    assert raised.value.where == "--repo"


@pytest.mark.parametrize(
    ("text", "sha256", "message"),
    [
        ("0.32.", None, "neither a version nor a folder"),
        ("v0.32.0-oops", None, "neither a version nor a folder"),
        ("0.32.0+cpu", None, "has a local part"),
        ("0.32.0", A, "is not what matrix.yaml pins for vLLM 0.32.0"),
        ("0.33.0", "abc", "'abc' is not a sha256: 64 hex digits are needed, got 3 characters"),
        ("0.33.0", "g" * 64, "is not a sha256"),
        ("0.33.0", "", "is not a sha256"),
        ("main", A, "a commit has no sha256"),
        ("./gone", None, "no folder"),
        ("~/gone", None, "no folder"),
        ("/nowhere/at/all", None, "no folder"),
    ],
)
def test_what_cannot_be_meant(matrix: Matrix, text: str, sha256: str | None, message: str) -> None:
    with pytest.raises(SourceError, match=message) as raised:
        request_source(text, sha256, matrix)
    assert raised.value.where in {"--source", "--sha256"}
    assert raised.value.next_step


def test_a_digest_is_taken_in_any_case_and_with_its_name() -> None:
    assert check_sha256(f" SHA256:{'AB' * 32}\n") == "ab" * 32


def test_a_path_is_a_tree(matrix: Matrix, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_tree(tmp_path / "vllm")
    assert request_source(str(folder), None, matrix) == TreeRequest(folder)
    monkeypatch.chdir(folder)
    assert request_source(".", None, matrix) == TreeRequest(folder)
    assert request_source(".", None, matrix).trust is Trust.LOCAL
    assert request_source("../vllm", None, matrix) == TreeRequest(folder)
    monkeypatch.chdir(tmp_path)
    assert request_source("vllm", None, matrix) == TreeRequest(folder)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert request_source("~/vllm", None, matrix) == TreeRequest(folder)


def test_a_tree_has_no_digest(matrix: Matrix, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="no sha256 to check"):
        request_source(str(write_tree(tmp_path)), A, matrix)
