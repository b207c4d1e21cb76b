"""The inputs of kernels: which patches, which oneDNN, and nothing that the target does not use."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from contexts import build_context
from cpuwheels.config.context import BuildContext
from cpuwheels.config.matrix import Target, load_matrix
from cpuwheels.config.options import BuildOptions
from cpuwheels.config.patch_series import Patch, Series
from cpuwheels.core.console import Reporter
from cpuwheels.core.errors import LockedError, OneDnnError
from cpuwheels.kernels.request import KernelRequest
from cpuwheels.pipeline import inputs as module
from cpuwheels.pipeline.inputs import Inputs, Upstream, gather, upstream
from cpuwheels.source.patched import PreparedSource
from cpuwheels.source.result import Source
from kernel_request import environment, toolchain
from sample_source import EPOCH, write_tree

PIN: Any = "the pin"


class Request:
    """A source on this machine."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def get(self, _store: object, reporter: Reporter) -> Source:
        reporter.info("getting it")
        return Source("0.32.0", self.folder, "digest", EPOCH, "here", "PKG-INFO")


Read = Callable[..., Upstream]


def patches() -> Iterator[Patch]:
    """A patch for another version, one for each of two targets, one that fixes a fault, and one that is for speed."""
    about = {"why": "test", "upstream": "none: test"}
    yield Patch(file="0000-old.patch", versions="<0.32", **about)
    yield Patch(file="0001-x86.patch", versions=">=0.32", targets=("x86",), **about)
    yield Patch(file="0002-arm.patch", versions=">=0.32", targets=("arm",), **about)
    yield Patch(file="0003-fix.patch", versions=">=0.32", fixes=("A fault",), **about)
    yield Patch(file="0004-speed.patch", versions=">=0.32", speeds=("rms_norm",), **about)


@pytest.fixture
def prepared() -> list[tuple[Source, Sequence[Patch]]]:
    """The sources that were prepared, with the patches for them."""
    return []


@pytest.fixture
def read(tmp_path: Path, prepared: list, monkeypatch: pytest.MonkeyPatch, reporter: Reporter) -> Read:
    monkeypatch.setattr(module, "load_series", lambda _: Series(patches=tuple(patches())))
    monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)

    def prepare(_context: object, source: Source, patches: Sequence[Patch]) -> PreparedSource:
        prepared.append((source, patches))
        return PreparedSource(source.version, source.folder, source.epoch, ())

    monkeypatch.setattr(module, "prepare_source", prepare)

    def read(changes: dict[str, str | None] | None = None, target: Target | str = "x86", **more: Any) -> Upstream:
        tree = write_tree(tmp_path / "vllm", changes)
        return upstream(build_context(tmp_path, target, reporter=reporter, **more), Request(tree))  # type: ignore[arg-type]

    return read


def test_the_patches_are_those_of_the_version_and_the_target(read: Read, prepared: list, story: io.StringIO) -> None:
    found = read()
    ((source, patches),) = prepared
    assert [patch.file for patch in patches] == ["0001-x86.patch", "0003-fix.patch", "0004-speed.patch"]
    assert (found.source, found.prepared.folder, found.torch) == (source, source.folder, "2.13.0")
    assert found.acl is None
    assert found.onednn is not None
    assert found.onednn[0] == "v3.13"
    assert "vLLM 0.32.0 (here; version from PKG-INFO)" in story.getvalue()


def test_upstreams_kernels_may_be_left_as_they_are(read: Read, prepared: list) -> None:
    read(options=BuildOptions(upstream_kernels=True))
    ((_, patches),) = prepared
    assert [patch.file for patch in patches] == ["0001-x86.patch"]


def test_upstreams_kernels_may_be_left_as_fast_as_they_are(read: Read, prepared: list) -> None:
    read(options=BuildOptions(upstream_speed=True))
    ((_, patches),) = prepared
    assert [patch.file for patch in patches] == ["0001-x86.patch", "0003-fix.patch"]


def test_the_time_is_the_users(read: Read, prepared: list, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1234")
    assert read().source.epoch == 1234
    assert prepared[0][0].epoch == 1234


def test_a_torch_that_nobody_pins_is_refused_in_a_locked_run(read: Read) -> None:
    changes = {"requirements/cpu.txt": "torch==9.9.9\n"}
    with pytest.raises(LockedError, match=r"torch 9\.9\.9"):
        read(changes, options=BuildOptions(locked=True))


def test_a_source_without_the_onednn_that_its_kernels_need_is_refused(read: Read, project_root: Path) -> None:
    target = load_matrix(project_root).target("x86")
    changes = {"cmake/cpu_extension.cmake": "    execute_process(COMMAND cat /proc/cpuinfo OUTPUT_VARIABLE CPUINFO)\n"}
    with pytest.raises(OneDnnError, match="the source names no oneDNN for x86_64"):
        read(changes, target)
    assert read(changes, target.model_copy(update={"onednn": False})).onednn is None


def test_a_target_without_onednn_has_none_whatever_the_source_names(read: Read, project_root: Path) -> None:
    target = load_matrix(project_root).target("x86").model_copy(update={"onednn": False})
    assert read(target=target).onednn is None


SOURCE = Source("0.32.0", Path("/source"), "digest", EPOCH, "here", "PKG-INFO")
PREPARED = PreparedSource("0.32.0", Path("/prepared"), EPOCH, ())


@pytest.mark.parametrize("onednn", [None, ("v3.13", PIN)])
@pytest.mark.parametrize("acl", [None, ("v52.6.0", PIN)])
def test_only_what_the_source_uses_is_fetched(
    context: BuildContext, monkeypatch: pytest.MonkeyPatch, onednn: Any, acl: Any
) -> None:
    monkeypatch.setattr(module, "torch_environment", lambda _, torch: f"with torch {torch}")
    monkeypatch.setattr(module, "get_onednn", lambda _, tag, pin: ("oneDNN", tag, pin))
    monkeypatch.setattr(module, "patch_onednn", lambda _, found, *, released: (*found, "patched", released))
    monkeypatch.setattr(module, "get_acl", lambda _, tag, pin: ("ACL", tag, pin))
    found = gather(context, Upstream(SOURCE, PREPARED, "2.13.0", onednn, acl), {})
    assert (found.source, found.prepared, found.environment) == (SOURCE, PREPARED, "with torch 2.13.0")
    assert found.onednn == (onednn and ("oneDNN", *onednn, "patched", False))
    assert found.acl == (acl and ("ACL", *acl))
    assert ("onednn" in context.reporter.timings) == (onednn is not None)


def test_an_environment_that_is_known_is_not_looked_up_again(
    context: BuildContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "torch_environment", lambda _, torch: f"with torch {torch}")
    known = {"2.13.0": environment()}
    assert gather(context, Upstream(SOURCE, PREPARED, "2.13.0", None, None), known).environment is known["2.13.0"]
    other: Any = gather(context, Upstream(SOURCE, PREPARED, "2.14.0", None, None), known).environment
    assert other == "with torch 2.14.0"


@pytest.mark.parametrize("debug_symbols", [True, False])
def test_the_request_for_the_kernels_has_all_of_them(tmp_path: Path, *, debug_symbols: bool) -> None:
    context = build_context(tmp_path, options=BuildOptions(debug_symbols=debug_symbols))
    onednn: Any = "oneDNN"
    acl: Any = "ACL"
    inputs = Inputs(SOURCE, PREPARED, environment(), onednn, acl)
    assert inputs.request(context, toolchain()) == KernelRequest(
        root=context.root,
        target=context.target,
        source=PREPARED,
        environment=environment(),
        onednn=onednn,
        acl=acl,
        debug_symbols=debug_symbols,
        toolchain=toolchain(),
    )
