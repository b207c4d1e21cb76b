"""Where the wheel of a commit comes from, and which errors are the commit's own."""

from __future__ import annotations

import hashlib
import io
import threading
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cpuwheels.bisect import wheels as module
from cpuwheels.bisect.wheels import Got, Wheels
from cpuwheels.config.matrix import load_matrix
from cpuwheels.config.options import BuildOptions
from cpuwheels.config.paths import Paths
from cpuwheels.core.console import Reporter
from cpuwheels.core.errors import CommandError, CompileError, DownloadError, PrecompiledError
from cpuwheels.core.store import Store
from cpuwheels.pipeline.provenance import PatchFacts
from fake_builds import Builds
from wheel_notes import wheel_note

COMMIT, OTHER = "c" * 40, "d" * 40


@pytest.fixture
def make(tmp_path: Path, project_root: Path, store: Store) -> Callable[..., Wheels]:
    matrix = load_matrix(project_root)

    def make(index: str | None = None, **options: Any) -> Wheels:
        target = matrix.target("x86")
        return Wheels(project_root, store, tmp_path / "out", matrix, target, BuildOptions(**options), index)

    return make


@pytest.mark.parametrize(("compiled", "origin"), [(True, "build"), (False, "stored kernels")])
def test_it_is_built_as_the_user_wants_it_and_not_loaded(
    builds: Builds, make: Callable[..., Wheels], reporter: Reporter, tmp_path: Path, origin: str, *, compiled: bool
) -> None:
    builds.compiled = compiled
    wheels = make(memory="8G", locked=True, source="another")
    folder = tmp_path / "out" / COMMIT[:12]
    assert wheels.get(COMMIT, reporter) == Got(folder / "a.whl", "0" * 64, origin)  # type: ignore[arg-type]
    (asked,) = builds.asked
    assert (asked.paths.dist, asked.paths.cache, asked.target) == (folder, wheels.store.root, "x86")
    assert asked.options == BuildOptions(memory="8G", locked=True, source=COMMIT)
    assert asked.more == {"check": False, "store": wheels.store}


def test_it_is_made_once(builds: Builds, make: Callable[..., Wheels], reporter: Reporter) -> None:
    wheels = make()
    first = wheels.get(COMMIT, reporter)
    assert wheels.get(COMMIT, reporter) is first
    wheels.get(OTHER, reporter)
    assert builds.sources == [COMMIT, OTHER]


def test_what_could_not_be_built_is_tried_again(
    builds: Builds, make: Callable[..., Wheels], reporter: Reporter
) -> None:
    wheels = make()
    builds.error = lambda _: CompileError("no")
    with pytest.raises(CompileError):
        wheels.get(COMMIT, reporter)
    builds.error = lambda _: None
    assert wheels.get(COMMIT, reporter).wheel_from == "build"


@pytest.mark.parametrize("there", [True, False])
def test_an_index_is_asked_first(
    builds: Builds,
    make: Callable[..., Wheels],
    reporter: Reporter,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    there: bool,
) -> None:
    asked: list[object] = []

    def wheel_from_index(address: str, commit: str, target: Any, folder: Path, **_: object) -> Path | None:
        asked.extend((address, commit, target.id, folder))
        (tmp_path / "b.whl").write_bytes(b"wheel")
        return tmp_path / "b.whl" if there else None

    monkeypatch.setattr(module, "wheel_from_index", wheel_from_index)
    found = make("https://wheels.invalid", upstream_kernels=True).get(COMMIT, reporter)
    assert asked == ["https://wheels.invalid", COMMIT, "x86", tmp_path / "out" / COMMIT[:12] / "index"]
    if there:
        assert found == Got(tmp_path / "b.whl", hashlib.sha256(b"wheel").hexdigest(), "index")
    assert (found.wheel_from, len(builds.asked)) == (("index", 0) if there else ("build", 1))


@pytest.mark.usefixtures("builds")
@pytest.mark.parametrize(
    ("fixed", "asked_for", "used"), [(True, True, True), (True, False, False), (False, True, False)]
)
def test_an_indexs_wheel_has_the_kernels_that_are_asked_for(
    make: Callable[..., Wheels],
    reporter: Reporter,
    story: io.StringIO,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    fixed: bool,
    asked_for: bool,
    used: bool,
) -> None:
    patches = (PatchFacts(file="0001-a.patch", sha256="", state="applied", fixes=("A fault",)),) if fixed else ()
    wheel = tmp_path / "b.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("vllm-1.dist-info/cpuwheels.json", wheel_note(patches=patches).render())
    monkeypatch.setattr(module, "wheel_from_index", lambda *_, **__: wheel)
    found = make("https://wheels.invalid", upstream_kernels=not asked_for).get(COMMIT, reporter)
    assert found.wheel_from == ("index" if used else "build")
    assert ("of the index is not used: its kernels are not" in story.getvalue()) is not used


def test_kernels_of_another_wheel_are_used_where_they_fit(
    builds: Builds, make: Callable[..., Wheels], reporter: Reporter
) -> None:
    assert make(kernels_from="other.whl").get(COMMIT, reporter).wheel_from == "precompiled kernels"
    assert [asked.options.kernels_from for asked in builds.asked] == ["other.whl"]


def test_where_they_do_not_fit_they_are_compiled(
    builds: Builds, make: Callable[..., Wheels], reporter: Reporter, story: Any
) -> None:
    builds.error = lambda options: PrecompiledError("other kernels") if options.kernels_from else None
    assert make(kernels_from="other.whl").get(COMMIT, reporter).wheel_from == "build"
    assert [asked.options.kernels_from for asked in builds.asked] == ["other.whl", None]
    assert "other kernels; compiled if they are not in the store" in story.getvalue()


def test_an_error_that_is_not_about_the_kernels_compiles_nothing(
    builds: Builds, make: Callable[..., Wheels], reporter: Reporter
) -> None:
    builds.error = lambda _: DownloadError("no network")
    with pytest.raises(DownloadError):
        make(kernels_from="other.whl").get(COMMIT, reporter)
    assert len(builds.asked) == 1


def test_one_wheel_is_made_at_a_time_and_a_finished_one_is_not_waited_for(
    builds: Builds, make: Callable[..., Wheels], reporter: Reporter
) -> None:
    wheels, begun, go_on = make(), threading.Event(), threading.Event()
    first = wheels.get(COMMIT, reporter)

    def wait(options: BuildOptions) -> None:
        if options.source == OTHER:
            begun.set()
            assert go_on.wait(20)

    builds.error = wait
    waiting = [threading.Thread(target=wheels.get, args=(name, reporter)) for name in (OTHER, OTHER, "e" * 40)]
    waiting[0].start()
    assert begun.wait(20)
    for thread in waiting[1:]:
        thread.start()
    assert wheels.get(COMMIT, reporter) is first
    waiting[-1].join(0.2)
    assert [thread.is_alive() for thread in waiting] == [True] * 3
    assert builds.sources == [COMMIT, OTHER]
    go_on.set()
    for thread in waiting:
        thread.join(20)
    assert builds.sources == [COMMIT, OTHER, "e" * 40]


@pytest.fixture
def background(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Path, BuildOptions]]:
    """The builds that another process was to do; those with kernels from elsewhere fail."""
    asked: list[tuple[Path, BuildOptions]] = []

    def build(paths: Paths, target: str, options: BuildOptions) -> None:
        assert target == "x86"
        asked.append((paths.dist, options))
        if options.kernels_from:
            raise CommandError("cpuwheels failed with status 40")

    monkeypatch.setattr(module, "build_in_background", build)
    return asked


def test_another_process_makes_a_wheel_in_the_same_place_with_the_same_options(
    builds: Builds,
    make: Callable[..., Wheels],
    background: list[tuple[Path, BuildOptions]],
    reporter: Reporter,
    tmp_path: Path,
) -> None:
    wheels = make(memory="8G", locked=True)
    wheels.prepare(COMMIT, reporter)
    assert background == [(tmp_path / "out" / COMMIT[:12], BuildOptions(memory="8G", locked=True, source=COMMIT))]
    assert builds.asked == [], "nothing is made by this process"
    wheels.get(COMMIT, reporter)
    wheels.prepare(COMMIT, reporter)
    assert len(background) == len(builds.asked) == 1


def test_another_process_compiles_what_nobody_has_kernels_for(
    make: Callable[..., Wheels], background: list[tuple[Path, BuildOptions]], reporter: Reporter
) -> None:
    make(kernels_from="dist").prepare(COMMIT, reporter)
    assert [options.kernels_from for _, options in background] == ["dist", None]


def test_a_wheel_of_the_index_needs_no_other_process(
    make: Callable[..., Wheels],
    background: list[tuple[Path, BuildOptions]],
    reporter: Reporter,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    (tmp_path / "b.whl").write_bytes(b"not even a zip")
    monkeypatch.setattr(module, "wheel_from_index", lambda *_, **__: tmp_path / "b.whl")
    wheels = make("https://wheels.invalid")
    wheels.prepare(COMMIT, reporter)
    assert background == []
    assert wheels.get(COMMIT, reporter).wheel_from == "index"


def test_another_matrix_reaches_all_builds(project_root: Path, store: Store, tmp_path: Path) -> None:
    matrix, other = load_matrix(project_root), tmp_path / "other.yaml"
    target = matrix.target("x86")
    wheels = Wheels(project_root, store, tmp_path, matrix, target, BuildOptions(), other_matrix=other)
    assert wheels.paths(COMMIT).matrix == other
