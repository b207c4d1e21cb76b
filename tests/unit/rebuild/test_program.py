"""Which cpuwheels is run for a rebuild: only one that a trusted repository publishes, with the code that was named."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from cpuwheels.core.console import Reporter
from cpuwheels.core.digests import file_digest, package_digest
from cpuwheels.core.errors import RebuildError
from cpuwheels.core.store import Store
from cpuwheels.pipeline.variation.circumstances import NotVariedError
from cpuwheels.rebuild import program as module
from cpuwheels.rebuild.plan import ProgramFacts
from cpuwheels.rebuild.program import get_program, matrix_of, trusted_repositories, with_python
from tiny_project import commit_all


@pytest.fixture
def upstream(tmp_path: Path) -> Path:
    """A repository that looks like cpuwheels."""
    folder = tmp_path / "upstream"
    (folder / "src/cpuwheels").mkdir(parents=True)
    (folder / "src/cpuwheels/__main__.py").write_text("print(1)\n")
    (folder / "matrix.yaml").write_text("a: 1\n")
    commit_all(folder, "first")
    return folder


def git(folder: Path, *arguments: str) -> str:
    command = ["git", "-C", str(folder), "-c", "user.name=t", "-c", "user.email=t@t", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def get(commit: str, tmp_path: Path, *repositories: object, store: Store, reporter: Reporter, code: str = "") -> object:
    facts = ProgramFacts(commit, code)
    names = [str(one) for one in repositories]
    return get_program(facts, names, tmp_path / "program", store=store, reporter=reporter)


def test_a_commit_of_a_branch_is_fetched_and_checked(
    upstream: Path, tmp_path: Path, store: Store, reporter: Reporter
) -> None:
    commit, code = git(upstream, "rev-parse", "HEAD"), package_digest(upstream / "src/cpuwheels")
    (upstream / "src/cpuwheels/__main__.py").write_text("print(2)\n")
    commit_all(upstream, "second")
    found = get_program(
        ProgramFacts(commit, code), [str(upstream)], tmp_path / "program", store=store, reporter=reporter
    )
    assert (found.root / "src/cpuwheels/__main__.py").read_text() == "print(1)\n"
    assert (found.commit, found.code, found.repository) == (commit, code, str(upstream))
    assert found.tree == git(upstream, "rev-parse", f"{commit}^{{tree}}")
    assert found.source == tmp_path / "program/src"


def test_a_commit_that_no_branch_leads_to_is_refused(
    upstream: Path, tmp_path: Path, store: Store, reporter: Reporter
) -> None:
    """A server gives the commit of any fork when it is asked for by its hash."""
    git(upstream, "config", "uploadpack.allowAnySHA1InWant", "true")
    (upstream / "src/cpuwheels/__main__.py").write_text("import evil\n")
    git(upstream, "commit", "--quiet", "-am", "of a fork")
    commit = git(upstream, "rev-parse", "HEAD")
    git(upstream, "update-ref", "refs/pull/1/head", commit)
    git(upstream, "reset", "--quiet", "--hard", "HEAD~1")
    with pytest.raises(RebuildError, match=f"no repository that is trusted has commit {commit}") as caught:
        get(commit, tmp_path, upstream, store=store, reporter=reporter)
    assert "no branch and no tag leads to it" in caught.value.output
    assert not (tmp_path / "program").exists()
    # The same commit counts once it is published.
    git(upstream, "tag", "v2", commit)
    assert get(commit, tmp_path, upstream, store=store, reporter=reporter)


def test_the_next_repository_is_asked(upstream: Path, tmp_path: Path, store: Store, reporter: Reporter) -> None:
    commit = git(upstream, "rev-parse", "HEAD")
    assert get(commit, tmp_path, tmp_path / "nowhere", upstream, store=store, reporter=reporter)
    with pytest.raises(RebuildError) as caught:
        get("1" * 40, tmp_path / "x", store=store, reporter=reporter)
    assert "--cpuwheels-repo" in caught.value.next_step


@pytest.mark.parametrize("address", ["ext::sh -c true", "--upload-pack=touch x", "fd::1"])
def test_an_address_that_runs_a_command_is_refused(
    address: str, tmp_path: Path, store: Store, reporter: Reporter
) -> None:
    with pytest.raises(RebuildError) as caught:
        get("1" * 40, tmp_path, address, store=store, reporter=reporter)
    assert address.split(maxsplit=1)[0] in caught.value.output


def test_other_code_than_the_statement_names_is_refused(
    upstream: Path, tmp_path: Path, store: Store, reporter: Reporter
) -> None:
    commit = git(upstream, "rev-parse", "HEAD")
    with pytest.raises(RebuildError, match=r"built with code that commit .* does not have"):
        get(commit, tmp_path, upstream, store=store, reporter=reporter, code="0" * 64)


def test_what_is_none_of_cpuwheels_is_refused(tmp_path: Path, store: Store, reporter: Reporter) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other/file").touch()
    commit = commit_all(tmp_path / "other", "first")
    with pytest.raises(RebuildError) as caught:
        get(commit, tmp_path, tmp_path / "other", store=store, reporter=reporter)
    assert "none of cpuwheels" in caught.value.output


def test_this_checkout_is_used_if_it_is_that_one(
    upstream: Path, tmp_path: Path, store: Store, reporter: Reporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "project_files", lambda: upstream)
    monkeypatch.setattr(module, "PACKAGE", upstream / "src/cpuwheels")
    commit = git(upstream, "rev-parse", "HEAD")
    found = get_program(ProgramFacts(commit), [], tmp_path / "program", store=store, reporter=reporter)
    assert found.root == upstream
    assert with_python(found, ProgramFacts(commit), tmp_path / "driver", tmp_path / "log").python
    assert not (tmp_path / "driver").exists()
    (upstream / "matrix.yaml").write_text("a: 2\n")  # changed: from now on it is not that commit
    with pytest.raises(RebuildError, match="no repository that is trusted"):
        get(commit, tmp_path, store=store, reporter=reporter)
    assert trusted_repositories(["/a"], ["https://b"]) == ("/a", str(upstream), "https://b")


def test_another_matrix_has_to_be_named(upstream: Path, tmp_path: Path, store: Store, reporter: Reporter) -> None:
    commit = git(upstream, "rev-parse", "HEAD")
    program = get_program(ProgramFacts(commit), [str(upstream)], tmp_path / "program", store=store, reporter=reporter)
    own = file_digest(upstream / "matrix.yaml")
    assert matrix_of(program, ProgramFacts(commit, matrix=own), None) is None
    other = tmp_path / "other.yaml"
    other.write_text("a: 3\n")
    assert matrix_of(program, ProgramFacts(commit, matrix=file_digest(other)), other) == other
    for given in (None, other):
        with pytest.raises(RebuildError, match=r"another matrix\.yaml"):
            matrix_of(program, ProgramFacts(commit, matrix="0" * 64), given)


def test_what_it_requires_has_to_be_had(
    upstream: Path, tmp_path: Path, store: Store, reporter: Reporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    facts = ProgramFacts(git(upstream, "rev-parse", "HEAD"), version="no version\nName: evil")
    program = get_program(facts, [str(upstream)], tmp_path / "program", store=store, reporter=reporter)
    asked: list[str] = []

    def make(folder: Path, python: Path, root: Path, log: Path, version: str) -> Path:
        asked.append(version)
        if len(asked) > 1:
            raise NotVariedError("the index is gone")
        assert (python.exists(), root, log) == (True, program.root, tmp_path / "log")
        return folder / "bin/python"

    monkeypatch.setattr(module, "driver_environment", make)
    assert with_python(program, facts, tmp_path / "driver", tmp_path / "log").python == tmp_path / "driver/bin/python"
    assert asked[0] == "0"
    with pytest.raises(RebuildError, match="the index is gone"):
        with_python(program, facts, tmp_path / "driver", tmp_path / "log")
