"""Power cuts at every step of what has to survive them: the old state or the new one, never half of it."""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from pathlib import Path

import pytest

from cpuwheels.bisect.search import Verdict
from cpuwheels.bisect.state import Probe, Question, State, read_state, write_state
from cpuwheels.config.paths import Paths
from cpuwheels.core import boot, filesystem
from cpuwheels.core.boot import is_complete
from cpuwheels.core.digests import file_digest
from cpuwheels.core.direct_mode import DirectModeCache
from cpuwheels.core.errors import CpuwheelsError, WheelError
from cpuwheels.core.models import Strict
from cpuwheels.core.sealed_entry import check_entry
from cpuwheels.core.store import Store
from cpuwheels.fetch.download import Pinned, fetch
from cpuwheels.index.nightly import ready
from cpuwheels.index.nightly.plan import Job
from cpuwheels.kernels.workspace import Workspace
from cpuwheels.pipeline import dist
from cpuwheels.pipeline.built_wheel import RECORD, find_built, read_built
from kernel_request import FIRST, kernel_request
from power_cut import PowerCuts, without

OLD, NEW = "old" * 100, "new" * 100
CUT = r"cut \d+ of \d+, after"


@pytest.fixture
def cuts(tmp_path: Path) -> PowerCuts:
    return PowerCuts(tmp_path / "disk")


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


# A file


def file_cuts(cuts: PowerCuts, name: str = "page") -> int:
    page = cuts.folder / name
    if name == "page":
        page.write_text(OLD)
    with cuts.recording():
        filesystem.write_atomic(page, NEW)

    def verify(done: bool) -> None:
        assert (page.read_text() if page.exists() else OLD) in ({NEW} if done else {OLD, NEW})
        assert not page.exists() or page.stat().st_mode & 0o777 == 0o644
        filesystem.write_atomic(page, NEW)
        assert page.read_text() == NEW

    return cuts.check(verify)


def test_05_file(cuts: PowerCuts) -> None:
    assert file_cuts(cuts) >= 4


def test_48_file_in_a_folder_that_is_made_for_it(cuts: PowerCuts) -> None:
    assert file_cuts(cuts, "a/b/page") >= 7


@pytest.mark.parametrize(
    "line",
    [
        pytest.param("os.fsync(stream.fileno())", id="49-content-not-synced"),
        pytest.param("sync_folder(path.parent)", id="50-name-not-synced"),
        pytest.param("Path(name).replace(path)", id="51-written-in-place"),
    ],
)
def test_missing_in_the_writing_of_a_file(cuts: PowerCuts, monkeypatch: pytest.MonkeyPatch, line: str) -> None:
    """What is checked here is the check: it finds what a copy of the real function lacks."""
    instead = "path.write_bytes(Path(name).read_bytes()); Path(name).unlink()" if "replace" in line else "pass"
    monkeypatch.setattr(filesystem, "replacing", without(filesystem.replacing, line, instead))
    with pytest.raises(AssertionError, match=CUT):
        file_cuts(cuts)


def test_52_folder_whose_name_is_not_synced(cuts: PowerCuts, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filesystem, "make_folders", without(filesystem.make_folders, "sync_folder(folder.parent)"))
    with pytest.raises(AssertionError, match=CUT):
        file_cuts(cuts, "a/b/page")


# An entry of the store


def fill(folder: Path) -> None:
    (folder / "sub").mkdir()
    (folder / "sub" / "a").write_text(NEW)
    (folder / "b").write_text(NEW)
    (folder / "b").chmod(0o755)
    (folder / "c").hardlink_to(folder / "b")
    (folder / "link").symlink_to("b")


def is_right(entry: Path) -> bool:
    names = ("sub/a", "b", "c", "link")
    return check_entry(entry) == [] and all((entry / name).read_text() == NEW for name in names)


def store_cuts(cuts: PowerCuts) -> int:
    """Make an entry, and another one next to one that is there."""
    Store(cuts.folder).get("kind", "old", fill)
    with cuts.recording():
        Store(cuts.folder).get("kind", "key", fill)
        Store(cuts.folder).get("other", "key", fill)

    def verify(_: bool) -> None:
        store = Store(cuts.folder)
        assert is_right(cuts.folder / "kind/old")
        for kind in ("kind", "other"):
            found = store.find(kind, "key")
            assert found is None or is_right(found)
            assert is_right(store.get(kind, "key", fill))
            assert not list((cuts.folder / kind).glob(".*"))

    return cuts.check(verify)


def test_06_entry(cuts: PowerCuts) -> None:
    """What was lost of an entry is seen when it is used, and the entry is made again."""
    assert store_cuts(cuts) >= 30


def test_53_entry_that_nobody_compares_with_its_manifest(cuts: PowerCuts, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cpuwheels.core.store.check_entry", lambda *_, **__: [])
    with pytest.raises(AssertionError, match=CUT):
        store_cuts(cuts)


def test_54_entry_that_is_made_again_or_taken_out(cuts: PowerCuts) -> None:
    store = Store(cuts.folder)
    (store.get("kind", "damaged", fill) / "b").write_text("damaged")
    store.get("kind", "unwanted", fill)
    with cuts.recording():
        store.get("kind", "damaged", fill)
        store.discard("kind", "unwanted")

    def verify(_: bool) -> None:
        again = Store(cuts.folder)
        for key in ("damaged", "unwanted"):
            found = again.find("kind", key)
            assert found is None or is_right(found)
            assert is_right(again.get("kind", key, fill))

    assert cuts.check(verify) >= 20


class Reads(Strict):
    """What a program read."""

    files: dict[str, str]


def test_55_list_of_what_was_read(cuts: PowerCuts) -> None:
    """It is what leads to an entry, so a wrong one would lead to a wrong entry."""
    old, new = Reads(files={"a": "1"}), Reads(files={"b": "2"})
    DirectModeCache(Store(cuts.folder), "reads", "key", Reads).keep(old)
    with cuts.recording():
        DirectModeCache(Store(cuts.folder), "reads", "key", Reads).keep(new)

    def verify(done: bool) -> None:
        known = list(DirectModeCache(Store(cuts.folder), "reads", "key", Reads).known())
        assert old in known
        assert new in known if done else True
        assert all(one in (old, new) for one in known)

    assert cuts.check(verify) >= 4


# A pinned file


def test_56_download(cuts: PowerCuts, tmp_path: Path) -> None:
    """Whatever is left, the next fetch returns the pinned bytes; without its server, too, once the first has ended."""
    content = b"pinned" * 1000
    (tmp_path / "file-1.0.tar.gz").write_bytes(content)
    pinned = Pinned("file", ((tmp_path / "file-1.0.tar.gz").as_uri(),), digest(content), len(content))
    gone = Pinned("file", ((tmp_path / "gone" / "file-1.0.tar.gz").as_uri(),), digest(content), len(content))
    with cuts.recording():
        fetch(pinned, Store(cuts.folder))

    def verify(done: bool) -> None:
        assert fetch(gone if done else pinned, Store(cuts.folder)).read_bytes() == content

    assert cuts.check(verify) >= 10


def test_57_download_that_is_not_synced(cuts: PowerCuts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "cpuwheels.fetch.download._from_mirror", without(fetch.__globals__["_from_mirror"], "os.fsync(stream.fileno())")
    )
    with pytest.raises(AssertionError, match="cannot fetch file"):
        test_56_download(cuts, tmp_path)


# A wheel, and what belongs to it


def make_wheel(folder: Path, text: str, name: str) -> None:
    """Write what a build leaves: the record names the wheel's digest and the files that belong to it."""
    (folder / "debug").mkdir(parents=True, exist_ok=True)
    (folder / "debug" / "one").write_text(text)
    (folder / "debug" / "two").write_text(text)
    (folder / "operators.json").write_text(text)
    (folder / f"{name}.whl").write_text(text)
    wheel = {"file": f"{name}.whl", "sha256": file_digest(folder / f"{name}.whl"), "size": len(text)}
    record = {
        "wheel_key": text,
        "wheel": wheel | {"versions": [], "policy": ""},
        "beside": ["debug", "operators.json"],
        "jobs": {"compiled_in_this_run": True},
    }
    (folder / RECORD).write_text(json.dumps(record))


def is_whole(output: Path, text: str) -> bool:
    """Whether everything that the record of a wheel counts as its own is of one build."""
    return all((output / name).read_text() == text for name in ("debug/one", "debug/two", "operators.json"))


def dist_cuts(cuts: PowerCuts, *, before: bool = True, name: str = "new") -> int:
    paths = Paths(cuts.folder, cuts.folder, cuts.folder / "dist")
    output = paths.output("x86", "1.0")
    if before:
        make_wheel(output, OLD, "old")

    def build() -> None:
        with dist.staging(paths, "x86", "1.0") as staged:
            make_wheel(staged, NEW, name)
            dist.put_in_place(staged, output)

    with cuts.recording():
        build()

    def verify(done: bool) -> None:
        wheels = [wheel.read_text() for wheel in output.glob("*.whl")]
        assert set(wheels) <= {OLD, NEW}
        assert wheels or not before
        found = None
        with suppress(WheelError):
            found = read_built(output)
        assert is_whole(output, found.key) if found else not done
        assert found is None or found.key in ({NEW} if done else {OLD, NEW})
        if find_built(output, NEW) is None:
            build()  # what the next build does
        built = find_built(output, NEW)
        assert built is not None
        assert built.path.read_text() == NEW
        assert is_whole(output, NEW)

    return cuts.check(verify)


def test_07_wheel(cuts: PowerCuts) -> None:
    assert dist_cuts(cuts) >= 30


def test_58_wheel_of_the_same_name(cuts: PowerCuts) -> None:
    assert dist_cuts(cuts, name="old") >= 30


def test_59_first_wheel(cuts: PowerCuts) -> None:
    assert dist_cuts(cuts, before=False) >= 30


@pytest.mark.parametrize(
    "line",
    [
        pytest.param("sync_tree(staged)", id="60-contents-not-synced"),
        pytest.param("(output / RECORD).unlink(missing_ok=True)", id="61-record-not-taken-away"),
        pytest.param("make_folders(output)", id="62-folder-not-synced"),
    ],
)
def test_missing_in_the_output_folder(cuts: PowerCuts, monkeypatch: pytest.MonkeyPatch, line: str) -> None:
    instead = "output.mkdir(parents=True, exist_ok=True)" if "make" in line else "pass"
    monkeypatch.setattr(dist, "put_in_place", without(dist.put_in_place, line, instead))
    with pytest.raises(AssertionError, match=CUT):
        dist_cuts(cuts, before="make" not in line)


# What a nightly build leaves to the publisher, and the state of a bisection

JOB = Job("a" * 40, "x86", "2026-11-25T00:00:00Z")


def left(folder: Path) -> str:
    """Return the text of the wheel that is ready, with everything that belongs to it, or of why there is none."""
    try:
        wheel = ready.find_ready(folder, JOB)
    except CpuwheelsError as error:
        return error.what
    if wheel is None:
        return ""
    assert is_whole(wheel.parent, wheel.read_text())
    assert read_built(wheel.parent).path == wheel
    return wheel.read_text()


def nightly_cuts(cuts: PowerCuts, what: str) -> int:
    folder, built = cuts.folder / "nightly/ready", cuts.folder / "nightly/x86-a/x86/1.0"
    failure = ready.Failure(state="failed", reason="it does not compile")
    if what != "first":
        make_wheel(ready.ready_folder(folder, JOB), OLD, "old")

    def leave() -> None:
        filesystem.make_folders(cuts.folder / "nightly")
        filesystem.remove_tree(built)
        make_wheel(built, NEW, "new")
        if what == "failure":
            ready.leave_failure(folder, JOB, failure)
        else:
            ready.leave_wheel(folder, JOB, built / "new.whl")

    with cuts.recording():
        leave()

    def verify(done: bool) -> None:
        new = failure.reason if what == "failure" else NEW
        assert left(folder) in ({new} if done else {OLD, new, ""})
        leave()  # what the next build does
        assert left(folder) == new
        assert [path.name for path in folder.iterdir()] == [ready.ready_folder(folder, JOB).name]

    return cuts.check(verify)


@pytest.mark.parametrize(
    "what",
    [
        pytest.param("first", id="63-first-wheel"),
        pytest.param("next", id="64-next-wheel"),
        pytest.param("failure", id="65-failure"),
    ],
)
def test_nightly(cuts: PowerCuts, what: str) -> None:
    assert nightly_cuts(cuts, what) >= 10


@pytest.mark.parametrize(
    "line",
    [
        pytest.param("sync_tree(built.parent)", id="66-contents-not-synced"),
        pytest.param("make_folders(place.parent)", id="67-folder-not-synced"),
    ],
)
def test_missing_in_what_is_left_to_the_publisher(cuts: PowerCuts, monkeypatch: pytest.MonkeyPatch, line: str) -> None:
    instead = "place.parent.mkdir(parents=True, exist_ok=True)" if "make" in line else "pass"
    monkeypatch.setattr(ready, "leave_wheel", without(ready.leave_wheel, line, instead))
    with pytest.raises(AssertionError, match=CUT):
        nightly_cuts(cuts, "first")


def test_68_removed_first_and_moved_then(cuts: PowerCuts, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of what was there would be taken for a wheel that is ready."""
    monkeypatch.setattr(
        ready,
        "leave_wheel",
        without(ready.leave_wheel, "replace_tree(", "filesystem.remove_tree(place); Path.replace("),
    )
    monkeypatch.setitem(ready.leave_wheel.__globals__, "filesystem", filesystem)
    with pytest.raises(AssertionError, match=CUT):
        nightly_cuts(cuts, "next")


def test_69_state_of_a_bisection(cuts: PowerCuts) -> None:
    question = Question(
        target="x86", good="a" * 40, bad="b" * 40, first_parent=True, repository="here", judge={"run": "true"}
    )
    old = State(question=question)
    new = old.with_probe(Probe(commit="a" * 40, verdict=Verdict.GOOD, reason="", seconds=1, wheel_from="build"))
    write_state(cuts.folder, old)
    with cuts.recording():
        write_state(cuts.folder, new)

    def verify(done: bool) -> None:
        assert read_state(cuts.folder, question) in ((new,) if done else (old, new))

    assert cuts.check(verify) >= 4


# Work that goes on where it was interrupted


def test_70_interrupted_build_of_kernels(cuts: PowerCuts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sources and object files are not synced. So nothing is gone on with after the machine was started anew."""
    request, kernel = kernel_request(tmp_path), "csrc/cpu/ops.cpp"
    expected = (request.source.folder / kernel).read_text()
    work = cuts.folder / "work"
    monkeypatch.setattr(boot, "_BOOT_ID", tmp_path / "boot")
    (tmp_path / "boot").write_text("first")
    with cuts.recording():
        Workspace(work, FIRST).prepare(request)
        (work / "build").mkdir()
        (work / "build" / "ops.o").write_text("compiled")

    def verify(_: bool) -> None:
        (tmp_path / "boot").write_text("second")
        Workspace(work, FIRST).prepare(request)
        assert (work / "vllm" / kernel).read_text() == expected
        assert not (work / "build").exists()
        assert is_complete(work / "prepared")
        (tmp_path / "boot").write_text("first")

    assert cuts.check(verify) >= 10


def test_71_work_that_is_gone_on_with_after_a_power_cut(
    cuts: PowerCuts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cpuwheels.kernels.workspace.is_complete", Path.is_file)
    with pytest.raises(AssertionError, match=CUT):
        test_70_interrupted_build_of_kernels(cuts, tmp_path, monkeypatch)
