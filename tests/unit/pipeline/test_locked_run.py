"""What a locked run allows, and which sources it refuses before anything is fetched for them."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

from contexts import build_context
from cpuwheels.config.context import BuildContext
from cpuwheels.config.matrix import load_matrix
from cpuwheels.config.options import BuildOptions
from cpuwheels.core.errors import LockedError
from cpuwheels.fetch.requests import FILE, address, current, is_locked
from cpuwheels.pipeline.locked_run import allowed_requests, require_listed, watched_requests
from cpuwheels.source.request import request_source
from cpuwheels.source.upstream_pins import SourcePins


@pytest.fixture
def context(tmp_path: Path, project_root: Path) -> BuildContext:
    matrix = load_matrix(project_root)
    found = build_context(tmp_path, root=project_root, logs=tmp_path)
    pin = matrix.acl["v52.6.0"].model_copy(update={"commit": "a" * 40})
    matrix = matrix.model_copy(update={"acl": matrix.acl | {"v52.6.0": pin}})
    return replace(found, matrix=matrix, target=matrix.target("arm"), options=BuildOptions(locked=True))


def pyproject(folder: Path, *requires: str) -> Path:
    (folder / "pyproject.toml").write_text(f"[build-system]\nrequires = {list(requires)!r}\n")
    return folder


def test_a_release_may_fetch_its_list_and_ask_the_places_of_the_user(context: BuildContext) -> None:
    matrix = context.matrix
    request = request_source("0.32.0", None, matrix)
    environ = {
        "CPUWHEELS_PYPI_INDEX": "https://mirror.example.org/simple/",
        "CPUWHEELS_ONEDNN_REPO": "https://git.example.org/onednn",
        "PIP_INDEX_URL": "https://torch.example.org/cpu",
        "PIP_CONFIG_FILE": "/dev/null",
    }
    allowed = allowed_requests(context, request, environ)
    release = matrix.release("0.32.0")
    assert release is not None
    assert release.sdist.sha256 in allowed.digests
    assert address(release.sdist.urls[0]) in allowed.addresses
    assert {"mirror.example.org/simple/setuptools", "mirror.example.org/simple/vllm"} <= allowed.addresses
    assert "torch.example.org/cpu/torch" in allowed.addresses
    assert {"git.example.org/onednn", "github.com/vllm-project/vllm.git"} <= allowed.repositories
    assert allowed.title == "locks/downloads/arm.json"
    # Another release's source is none of it.
    other = matrix.release("0.31.0")
    assert other is not None
    assert other.sdist.sha256 not in allowed.digests


@pytest.mark.parametrize("locked", [False, True])
def test_only_a_locked_run_is_compared(context: BuildContext, locked: bool) -> None:
    context = replace(context, options=BuildOptions(locked=locked))
    with watched_requests(context, request_source("0.32.0", None, context.matrix)):
        found = current()
        assert found is not None
        assert found.log == context.logs / FILE
        assert found.log.read_text() == ""
        assert is_locked() is locked
    assert current() is None


KNOWN = SourcePins("2.14.0", ("9c5be1cc59e368aebf0909e6cf20f981ea61462a",), ("v52.6.0",))


@pytest.mark.parametrize(
    ("pins", "requires", "named", "where"),
    [
        (KNOWN, ("setuptools>=77.0.3,<81.0.0", "torch == 2.14.0", "ninja; sys_platform == 'win32'"), "", ""),
        (replace(KNOWN, onednn=("v9.9",)), (), "oneDNN v9.9", "cmake/cpu_extension.cmake of the source"),
        (replace(KNOWN, onednn=("f" * 40,)), (), f"oneDNN {'f' * 40}", "cmake/cpu_extension.cmake of the source"),
        (replace(KNOWN, acl=("v99",)), (), "Arm Compute Library v99", "cmake/cpu_extension.cmake of the source"),
        (KNOWN, ("setuptools>=99",), "setuptools>=99", "pyproject.toml of the source: build-system"),
        (KNOWN, ("maturin>=1",), "maturin>=1", "pyproject.toml of the source: build-system"),
        (KNOWN, ("left-out>=1; sys_platform == 'win32'", "not a requirement !"), "", ""),
    ],
)
def test_a_source_that_asks_for_something_else_is_refused_with_the_file_that_does(
    context: BuildContext, tmp_path: Path, pins: SourcePins, requires: tuple[str, ...], named: str, where: str
) -> None:
    source = pyproject(tmp_path, *requires)
    with pytest.raises(LockedError, match="which is not pinned") if named else nullcontext() as caught:
        require_listed(context, pins, source)
    if caught is not None:
        assert named in caught.value.what
        assert caught.value.where == where
        assert "build without --locked" in caught.value.next_step
    require_listed(replace(context, options=BuildOptions()), pins, source)


@pytest.mark.parametrize(
    ("target", "options", "refused"),
    [
        ("arm", BuildOptions(locked=True), True),
        ("arm", BuildOptions(locked=True, allow_fallbacks=True), False),
        ("arm", BuildOptions(), False),
        ("x86", BuildOptions(locked=True), False),
    ],
)
def test_a_library_whose_commit_is_not_known_is_refused_with_the_source(
    context: BuildContext, tmp_path: Path, target: str, options: BuildOptions, *, refused: bool
) -> None:
    pin = context.matrix.acl["v52.6.0"].model_copy(update={"commit": None})
    context.matrix.acl["v52.6.0"] = pin
    context = replace(context, target=context.matrix.target(target), options=options)
    words = r"Arm Compute Library v52\.6\.0 is pinned by its tag alone"
    with pytest.raises(LockedError, match=words) if refused else nullcontext() as caught:
        require_listed(context, KNOWN, tmp_path)
    if caught is not None:
        assert caught.value.where == "matrix.yaml: acl"
        assert "--allow-fallbacks" in caught.value.next_step


def test_a_source_without_requirements_is_not_refused(context: BuildContext, tmp_path: Path) -> None:
    require_listed(context, KNOWN, tmp_path)
    (tmp_path / "pyproject.toml").write_text("[build-system]\nrequires = 1\n")
    require_listed(context, KNOWN, tmp_path)
