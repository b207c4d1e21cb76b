from __future__ import annotations

import tarfile
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from contexts import build_context
from cpuwheels.config.options import BuildOptions
from cpuwheels.config.pins import DebianSource, OneDnnPin
from cpuwheels.core.errors import DigestMismatchError, LockedError, OneDnnError, PatchError
from cpuwheels.fetch.git_archive import commit_key
from cpuwheels.source.onednn import REPOSITORY_VARIABLE, OneDnn, choose_onednn, get_onednn, patch_onednn
from loopback import DEAD
from sample_source import add, commit, git, sha256

if TYPE_CHECKING:
    import io
    from collections.abc import Callable
    from pathlib import Path

    from cpuwheels.config.context import BuildContext
    from cpuwheels.core.console import Reporter
    from cpuwheels.core.store import Store

    Get = Callable[..., OneDnn]

pytestmark = pytest.mark.usefixtures("plain_git")

PATH_IN_MIRROR = "pool/main/o/onednn/onednn_3.7.2+ds.orig.tar.xz"
ABSENT = "0" * 40


@pytest.fixture(autouse=True)
def settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cpuwheels.fetch.download.time.sleep", lambda _: None)


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A repository whose tag v3.13 is not its newest commit."""
    folder = tmp_path / "oneDNN"
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "a.cpp").write_text("one\n")
    commit(folder)
    git(folder, "tag", "v3.13")
    (folder / "src" / "a.cpp").write_text("two\n")
    commit(folder)
    return folder


@pytest.fixture
def mirror(tmp_path: Path) -> Path:
    """A Debian mirror that has the alternate."""
    path = tmp_path / "mirror" / PATH_IN_MIRROR
    path.parent.mkdir(parents=True)
    with tarfile.open(path, "w:xz") as tar:
        add(tar, "oneDNN-3.7.2/src/a.cpp", b"old\n")
        add(tar, "oneDNN-3.7.2/CMakeLists.txt", b'set(PROJECT_VERSION "3.7.2")\n')
    return tmp_path / "mirror"


@pytest.fixture
def get(tmp_path: Path, store: Store, reporter: Reporter) -> Get:
    def ask(pin: OneDnnPin, *mirrors: str, locked: bool = False, environ: dict[str, str] | None = None) -> OneDnn:
        context = build_context(
            tmp_path, options=BuildOptions(locked=locked), store=store, reporter=reporter, mirrors=mirrors or (DEAD,)
        )
        return get_onednn(context, "v3.13", pin, environ=environ or {})

    return ask


def pinned(clone: Path, *repositories: str) -> OneDnnPin:
    return OneDnnPin(commit=git(clone, "rev-parse", "v3.13^{commit}"), repositories=repositories or (str(clone),))


def with_alternate(pin: OneDnnPin, mirror: Path, digest: str | None = None) -> OneDnnPin:
    path = mirror / PATH_IN_MIRROR
    known = digest or sha256(path)
    alternate = DebianSource(version="3.7.2", debian=PATH_IN_MIRROR, sha256=known, size=path.stat().st_size)
    return pin.model_copy(update={"alternates": (alternate,)})


def test_the_pinned_commit_and_then_nothing_more(get: Get, clone: Path, store: Store, reporter: Reporter) -> None:
    pin = pinned(clone)
    found = get(pin)
    assert (found.kind, found.version, found.digest, found.tag) == ("pinned", pin.commit, pin.commit, "v3.13")
    assert (found.folder / "src" / "a.cpp").read_text() == "one\n"
    assert found.folder == store.path("onednn", commit_key(pin.commit))
    assert reporter.announcements == []
    clone.rename(clone.with_name("gone"))
    assert get(pin) == found


def test_the_users_own_clone_comes_first(get: Get, clone: Path, story: io.StringIO) -> None:
    pin = pinned(clone, f"{DEAD}/a.git")
    assert get(pin, environ={REPOSITORY_VARIABLE: str(clone)}).kind == "pinned"
    assert DEAD not in story.getvalue()


def test_without_the_commit_the_alternate_is_taken_and_said(
    get: Get, clone: Path, mirror: Path, reporter: Reporter
) -> None:
    pin = with_alternate(OneDnnPin(commit=ABSENT, repositories=(str(clone), f"{DEAD}/a.git")), mirror)
    found = get(pin, f"{DEAD}/debian", mirror.as_uri())
    assert (found.kind, found.version, found.digest) == ("alternate", "3.7.2", pin.alternates[0].sha256)
    assert found.release == "3.7.2"
    assert (found.folder / "src" / "a.cpp").read_text() == "old\n"
    (announcement,) = reporter.announcements
    assert "3.7.2" in announcement
    assert "v3.13" in announcement


def test_the_alternate_is_announced_again_and_fetched_once(
    get: Get, clone: Path, mirror: Path, reporter: Reporter
) -> None:
    pin = with_alternate(OneDnnPin(commit=ABSENT, repositories=(str(clone),)), mirror)
    first = get(pin, mirror.as_uri())
    assert get(pin, f"{DEAD}/debian") == first
    assert len(reporter.announcements) == 2


def test_the_pinned_commit_is_taken_as_soon_as_it_can_be_had(get: Get, clone: Path, mirror: Path) -> None:
    pin = with_alternate(pinned(clone), mirror)
    away = clone.rename(clone.with_name("away"))
    assert get(pin, mirror.as_uri()).kind == "alternate"
    away.rename(clone)
    assert get(pin, mirror.as_uri()).kind == "pinned"


def test_locked_refuses_the_alternate(get: Get, clone: Path, mirror: Path, reporter: Reporter) -> None:
    pin = with_alternate(OneDnnPin(commit=ABSENT, repositories=(str(clone),)), mirror)
    with pytest.raises(LockedError, match="--locked refuses fallbacks") as raised:
        get(pin, mirror.as_uri(), locked=True)
    assert f"it has no commit {ABSENT}" in raised.value.output
    assert REPOSITORY_VARIABLE in raised.value.next_step
    assert reporter.announcements == []


def test_without_an_alternate_every_repository_is_named(get: Get, clone: Path, store: Store) -> None:
    gone = str(clone.parent / "gone")
    with pytest.raises(OneDnnError, match=ABSENT) as raised:
        get(OneDnnPin(commit=ABSENT, repositories=(gone, f"{DEAD}/a.git", str(clone))))
    faults = raised.value.output.splitlines()
    assert [fault.partition(": ")[0] for fault in faults] == [gone, f"{DEAD}/a.git", str(clone)]
    assert REPOSITORY_VARIABLE in raised.value.next_step
    assert raised.value.log is not None
    assert raised.value.log.is_file()
    assert list((store.root / "onednn").iterdir()) == []


def test_neither_commit_nor_alternate(get: Get, clone: Path, mirror: Path) -> None:
    pin = with_alternate(OneDnnPin(commit=ABSENT, repositories=(str(clone),)), mirror)
    with pytest.raises(OneDnnError, match="neither") as raised:
        get(pin, f"{DEAD}/debian")
    assert ABSENT in raised.value.output
    assert f"{DEAD}/debian" in raised.value.output


def test_an_alternate_with_other_bytes_stops_the_build(
    get: Get, clone: Path, mirror: Path, store: Store, reporter: Reporter
) -> None:
    pin = with_alternate(OneDnnPin(commit=ABSENT, repositories=(str(clone),)), mirror, digest="0" * 64)
    with pytest.raises(DigestMismatchError):
        get(pin, mirror.as_uri())
    assert reporter.announcements == []
    assert list((store.root / "onednn").iterdir()) == []


def test_without_git_the_alternate_is_taken(
    get: Get, clone: Path, mirror: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pin = with_alternate(pinned(clone), mirror)
    monkeypatch.setenv("PATH", str(mirror))
    assert get(pin, mirror.as_uri()).kind == "alternate"


def test_without_git_and_alternate_that_is_told(get: Get, clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pin = pinned(clone)
    monkeypatch.setenv("PATH", str(clone))
    with pytest.raises(OneDnnError) as raised:
        get(pin)
    assert "git" in raised.value.output
    assert raised.value.next_step


@pytest.mark.parametrize(
    ("machine", "tags", "chosen"),
    [
        ("x86_64", ["v3.13"], "v3.13"),
        ("x86_64", [ABSENT, "v3.13"], "v3.13"),
        ("aarch64", [ABSENT, "v3.13"], ABSENT),
        ("aarch64", ["v3.13"], "v3.13"),
        ("x86_64", ["v9.9"], "v9.9"),
        ("x86_64", [ABSENT, "v9.9"], "v9.9"),
        ("x86_64", [], None),
    ],
)
def test_the_tag_that_a_machine_uses(machine: str, tags: list[str], chosen: str | None) -> None:
    pins = {
        "v3.13": OneDnnPin(commit="1" * 40, repositories=("a", "b")),
        ABSENT: OneDnnPin(commit=ABSENT, repositories=("b", "c"), machines=("aarch64",)),
    }
    unknown = OneDnnPin(repositories=("a", "b", "c"))
    assert choose_onednn(tags, pins, machine) == (None if chosen is None else (chosen, pins.get(chosen, unknown)))


def test_a_tag_that_the_matrix_does_not_know_is_believed_and_said(get: Get, clone: Path, reporter: Reporter) -> None:
    found = get(OneDnnPin(repositories=(str(clone),)))
    wanted = git(clone, "rev-parse", "v3.13^{commit}")
    assert (found.kind, found.version, found.digest) == ("tag", wanted, wanted)
    assert (found.folder / "src" / "a.cpp").read_text() == "one\n"
    (announcement,) = reporter.announcements
    assert f"oneDNN v3.13 is pinned by its tag alone, which names commit {wanted}" in announcement
    with pytest.raises(LockedError, match="pinned by its tag alone"):
        get(OneDnnPin(repositories=(str(clone),)), locked=True)


def test_a_tag_that_is_a_hash_pins_the_content(context: BuildContext, reporter: Reporter, clone: Path) -> None:
    wanted = git(clone, "rev-parse", "HEAD")
    pin = OneDnnPin(repositories=(str(clone),))
    found = get_onednn(replace(context, options=BuildOptions(locked=True)), wanted, pin, environ={})
    assert (found.kind, found.version) == ("pinned", wanted)
    assert reporter.announcements == []


PATCH = "--- a/src/a.cpp\n+++ b/src/a.cpp\n@@ -1,1 +1,1 @@\n-old\n+new\n"
SERIES = """\
patches:
  - {file: 0001-vllms.patch, versions: "", why: w, upstream: none}
  - file: 0002-its.patch
    source: onednn
    versions: ">=3.7,<3.8"
    targets: [s390x]
    fixes: [A fault]
    why: w
    upstream: none
"""


@pytest.fixture
def published(tmp_path: Path) -> OneDnn:
    """oneDNN 3.7.2 as it was published, and a project with a patch for it."""
    project = tmp_path / "project" / "patches"
    project.mkdir(parents=True)
    (project / "series.yaml").write_text(SERIES)
    (project / "0002-its.patch").write_text(PATCH)
    folder = tmp_path / "published"
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "a.cpp").write_text("old\n")
    return OneDnn(folder, "v3.13", "3.7.2", "d" * 64, "alternate", "3.7.2")


@pytest.fixture
def patched(tmp_path: Path, store: Store, reporter: Reporter) -> Get:
    """Patches oneDNN in a run of that project."""

    def patch(found: OneDnn, target: str = "s390x", *, released: bool = True, upstream_kernels: bool = False) -> OneDnn:
        options = BuildOptions(upstream_kernels=upstream_kernels)
        root = tmp_path / "project"
        context = build_context(tmp_path, target, root=root, options=options, store=store, reporter=reporter)
        return patch_onednn(context, found, released=released)

    return patch


def test_its_patches_are_applied_to_a_copy(published: OneDnn, patched: Get, story: io.StringIO) -> None:
    found = patched(published)
    assert (found.folder / "src" / "a.cpp").read_text() == "new\n"
    assert (published.folder / "src" / "a.cpp").read_text() == "old\n"
    assert [(patch.file, patch.state, patch.fixes) for patch in found.patches] == [
        ("0002-its.patch", "applied", ("A fault",))
    ]
    assert "oneDNN 3.7.2: 1 faults of upstream's kernels are fixed by 1 patches" in story.getvalue()
    assert (found.digest, found.version) == (published.digest, published.version)
    assert patched(published) == found


def test_another_patch_is_another_key(tmp_path: Path, published: OneDnn, patched: Get) -> None:
    first = patched(published)
    (tmp_path / "project" / "patches" / "0002-its.patch").write_text(PATCH.replace("+new", "+newer"))
    second = patched(published)
    assert len({published.key, first.key, second.key}) == 3
    assert published.key == published.digest
    assert (second.folder / "src" / "a.cpp").read_text() == "newer\n"


def test_sources_that_have_the_change_keep_their_key(published: OneDnn, patched: Get) -> None:
    (published.folder / "src" / "a.cpp").write_text("new\n")
    found = patched(published)
    assert [patch.state for patch in found.patches] == ["upstream"]
    assert found.key == published.key


@pytest.mark.parametrize(
    ("release", "target", "upstream_kernels"),
    [("3.8.0", "s390x", False), ("3.7.2", "arm", False), ("3.7.2", "s390x", True), ("", "arm", False)],
    ids=["another version", "another target", "upstream's kernels", "unknown, and no patch for the target"],
)
def test_patches_that_are_not_for_it_leave_it_as_it_is(
    published: OneDnn, patched: Get, release: str, target: str, *, upstream_kernels: bool
) -> None:
    found = replace(published, release=release)
    assert patched(found, target, upstream_kernels=upstream_kernels) is found


def test_a_patch_that_does_not_apply_stops_a_release(published: OneDnn, patched: Get, reporter: Reporter) -> None:
    (published.folder / "src" / "a.cpp").write_text("other\n")
    with pytest.raises(PatchError, match=r"0002-its\.patch does not apply to src/a\.cpp of oneDNN 3\.7\.2") as raised:
        patched(published)
    assert raised.value.where == "patches/0002-its.patch @@ -1,1 +1,1 @@"
    assert "narrow its versions" in raised.value.next_step
    found = patched(replace(published, digest="of a commit"), released=False)
    assert [patch.state for patch in found.patches] == ["left out"]
    assert found.key == found.digest
    assert reporter.announcements == ["patch 0002-its.patch does not apply; these kernels have: A fault"]


def test_sources_that_do_not_say_their_version_are_refused(published: OneDnn, patched: Get) -> None:
    with pytest.raises(OneDnnError, match=r"the version of oneDNN v3\.13 cannot be told") as raised:
        patched(replace(published, release=""))
    assert str(raised.value.where).endswith("CMakeLists.txt")
    assert "source/onednn.py" in raised.value.next_step
