"""A wheel published again, with more or less said of it; and faults of an index, put right as the check advises."""

from __future__ import annotations

import contextlib
import itertools
import json
import shutil
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from commit_wheels import wheel as commits_wheel
from cpuwheels.config.matrix import Matrix, load_matrix
from cpuwheels.core.errors import PublishError
from cpuwheels.index import entry as entries
from cpuwheels.index.bucket import Bucket, Folder
from cpuwheels.index.check import Remedy, check_index, repair_index
from cpuwheels.index.commit_pages import NEWEST, Missing, Row
from cpuwheels.index.entry import Speed
from cpuwheels.index.known import with_known
from cpuwheels.index.publish import Published, note_missing
from cpuwheels.index.publish_wheel import publish_wheel
from cpuwheels.index.reading import read_entries
from cpuwheels.pipeline.provenance import read_note
from index_publications import Dying, DyingError, check_links
from wheel_notes import wheel_note
from wheel_sboms import with_sbom
from wheel_writer import with_record, write_raw

COMMIT, OTHER = "c" * 40, "d" * 40
EPOCH = 1_790_000_000
TAGS = {"x86": "manylinux_2_27_x86_64", "arm": "manylinux_2_27_aarch64"}


def wheel(
    folder: Path, target: str = "x86", *, version: str = "0.32.0+cpu", epoch: int | None = EPOCH, build: str = ""
) -> Path:
    """Write a wheel that does not say its commit; without an epoch it has no note at all."""
    info, tag = f"vllm-{version}.dist-info", f"cp38-abi3-{TAGS[target]}"
    members = {
        "vllm/_C.abi3.so": build.encode(),
        f"{info}/METADATA": f"Metadata-Version: 2.4\nName: vllm\nVersion: {version}\n".encode(),
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: {tag}\n".encode(),
        **({f"{info}/cpuwheels.json": wheel_note(target=target, epoch=epoch).render()} if epoch else {}),
    }
    name = f"vllm-{version}-{build}{tag}.whl"
    path = write_raw(folder / target / name, with_record(with_sbom(members, info, name) if epoch else members, info))
    path.with_name("record.json").write_text("{}")
    return path


@pytest.fixture
def matrix(project_root: Path) -> Matrix:
    return load_matrix(project_root)


@pytest.fixture(autouse=True)
def days(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a day pass between publications."""
    moments = (datetime(2026, 11, 1, 9, tzinfo=UTC) + timedelta(days=number) for number in itertools.count())

    class Clock(datetime):
        @classmethod
        def now(cls, tz: object = None) -> datetime:
            del tz
            return next(moments)

    monkeypatch.setattr(entries, "datetime", Clock)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "index"


Publish = Callable[..., Published]


@pytest.fixture
def publish(root: Path, matrix: Matrix) -> Publish:
    """Publishes a wheel, and holds the index to be right afterwards."""

    def published(path: Path, *, bucket: Bucket | None = None, **said: object) -> Published:
        if read_note(path) is None:
            said = {"target": path.parent.name, **said}
        found = publish_wheel(bucket or Folder(root), path, matrix, **said)  # type: ignore[arg-type]
        assert check_index(Folder(root)) == []
        assert check_links(root) > 0
        return found

    return published


def rows(root: Path) -> list[tuple[str | None, list[str]]]:
    """Return the commits of the newest page with their targets."""
    newest = json.loads((root / "commits.json").read_text())["newest"]
    return [(row["commit"], sorted(row["wheels"])) for row in newest]


@pytest.mark.parametrize("epoch", [EPOCH, None])
class TestACommitSaidOnce:
    def test_later(self, root: Path, tmp_path: Path, publish: Publish, epoch: int | None) -> None:
        path = wheel(tmp_path, epoch=epoch)
        first = publish(path)
        assert rows(root) == [(None, ["x86"])]
        again = publish(path, commit=COMMIT, nightly=True)
        assert not again.new
        assert again.views == (COMMIT, "0.32.0", "nightly")
        assert rows(root) == [(COMMIT, ["x86"])]
        assert (again.entry.made, again.entry.uploaded) == (first.entry.made, first.entry.uploaded)
        assert {one.commit for view in again.views for one in read_entries(Folder(root), view)} == {COMMIT}

    def test_first(self, root: Path, tmp_path: Path, publish: Publish, epoch: int | None) -> None:
        path = wheel(tmp_path, epoch=epoch)
        publish(path, commit=COMMIT, nightly=True)
        before = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
        again = publish(path)
        assert again.entry.commit == COMMIT
        assert {path: path.read_bytes() for path in root.rglob("*") if path.is_file()} == before

    def test_of_one_target_after_the_other(
        self, root: Path, tmp_path: Path, publish: Publish, epoch: int | None
    ) -> None:
        paths = [wheel(tmp_path, target, epoch=epoch) for target in ("x86", "arm")]
        for path in paths:
            publish(path, nightly=True)
        assert rows(root)[0] == (None, ["arm", "x86"])
        publish(paths[0], commit=COMMIT)
        assert sorted(rows(root), key=str) == [(COMMIT, ["x86"]), (None, ["arm"])]
        publish(paths[1], commit=COMMIT)
        assert rows(root) == [(COMMIT, ["arm", "x86"])]
        assert len(read_entries(Folder(root), "0.32.0")) == len(read_entries(Folder(root), "nightly")) == 2

    def test_another_is_refused(self, root: Path, tmp_path: Path, publish: Publish, epoch: int | None) -> None:
        path = wheel(tmp_path, epoch=epoch)
        publish(path, commit=COMMIT)
        before = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
        with pytest.raises(PublishError, match=f"was published with commit {COMMIT}, not {OTHER}"):
            publish(path, commit=OTHER, nightly=True)
        assert {path: path.read_bytes() for path in root.rglob("*") if path.is_file()} == before

    def test_a_death_in_between(self, tmp_path: Path, root: Path, publish: Publish, epoch: int | None) -> None:
        path, arm = wheel(tmp_path, epoch=epoch), wheel(tmp_path, "arm", epoch=epoch)
        publish(path)
        publish(arm)
        start = tmp_path / "start"
        root.rename(start)
        for at in itertools.count():
            shutil.rmtree(root, ignore_errors=True)
            shutil.copytree(start, root)
            try:
                publish(path, bucket=Dying(root, at), commit=COMMIT, nightly=True)
            except DyingError:
                check_links(root)
            else:
                break
            if at % 2:
                assert repair_index(Folder(root)) == []
            publish(arm)
            publish(path, commit=COMMIT, nightly=True)
            assert sorted(rows(root), key=str) == [(COMMIT, ["x86"]), (None, ["arm"])]
        assert at > 10


def test_a_wheel_of_a_commit_has_to_say_it(tmp_path: Path, publish: Publish) -> None:
    version = "0.32.1.dev5+gccccccccc.cpu"
    path = wheel(tmp_path, version=version)
    with pytest.raises(PublishError, match="does not say which commit") as raised:
        publish(path)
    assert raised.value.next_step == "name it with --commit"
    publish(path, commit=COMMIT)
    with pytest.raises(PublishError, match=f"was published with commit {COMMIT}, not {OTHER}"):
        publish(path, commit=OTHER)


def test_another_target_is_refused(tmp_path: Path, publish: Publish) -> None:
    path = wheel(tmp_path, epoch=None)
    publish(path, target="x86")
    with pytest.raises(PublishError, match="was published with target x86, not arm"):
        publish(path, target="arm")


def test_of_two_builds_of_one_wheel_the_later_counts(root: Path, tmp_path: Path, publish: Publish) -> None:
    publish(wheel(tmp_path))
    publish(wheel(tmp_path, build="1-"))
    (row,) = json.loads((root / "commits.json").read_text())["newest"]
    assert "-1-cp38" in row["wheels"]["x86"]["filename"]


def test_why_another_target_is_missing_stays(root: Path, tmp_path: Path, publish: Publish) -> None:
    path = wheel(tmp_path)
    publish(path)
    why = Missing(state="failed", reason="does not compile", tried="2026-11-02T00:00:00Z")
    made = json.loads((root / "commits.json").read_text())["newest"][0]["made"]
    for commit in (None, COMMIT):
        note_missing(Folder(root), Row(commit=commit, version="0.32.0+cpu", made=made, missing={"arm": why}))
    publish(path, commit=COMMIT)
    found = json.loads((root / "commits.json").read_text())["newest"]
    assert [(row["commit"], list(row["wheels"]), list(row["missing"])) for row in found] == [
        (COMMIT, ["x86"], ["arm"]),
        (None, [], ["arm"]),
    ]


def test_a_speed_that_was_said_stays(root: Path, tmp_path: Path, publish: Publish) -> None:
    """It is against the wheel before; published again, the wheel itself or a later one may seem to be that."""
    before, path = commits_wheel(tmp_path, 1), commits_wheel(tmp_path, 2)
    publish(before, nightly=True)
    first = publish(path, nightly=True).entry
    publish(commits_wheel(tmp_path, 3), nightly=True)
    known = first.model_copy(update={"speed": Speed(against=before.name)})
    now = first.model_copy(update={"speed": Speed(against="vllm-another.whl")})
    assert with_known(Folder(root), now, known).speed == known.speed
    assert with_known(Folder(root), now, known.model_copy(update={"speed": None})).speed == now.speed


def subjects(root: Path) -> list[str]:
    """Return the subjects of the newest page; the day's pages, which `publish` has checked, have the same."""
    return [row["subject"] for row in json.loads((root / "commits.json").read_text())["newest"]]


def test_a_subject_that_was_said_stays_until_another_is(root: Path, tmp_path: Path, publish: Publish) -> None:
    path = commits_wheel(tmp_path, 1)
    assert publish(path).entry.subject == ""
    assert (
        publish(path, subject="[CPU] \x1b[31m<b> \u202eone\nand more").entry.subject == r"[CPU] \x1b[31m<b> \u202eone"
    )
    assert publish(path).entry.subject == r"[CPU] \x1b[31m<b> \u202eone"
    assert publish(path, subject="x" * 300).entry.subject == "x" * 200
    assert subjects(root) == ["x" * 200]
    assert "x" * 200 in (root / "index.html").read_text()


@pytest.mark.parametrize("said", ["", "[CPU] said of the wheel"])
def test_the_subject_of_what_was_missing(root: Path, tmp_path: Path, publish: Publish, said: str) -> None:
    path = commits_wheel(tmp_path, 1)
    commit = publish(path, subject=said).entry.commit
    made = json.loads((root / "commits.json").read_text())["newest"][0]["made"]
    why = Missing(state="failed", reason="does not compile", tried="2026-11-02T00:00:00Z")
    note_missing(
        Folder(root), Row(commit=commit, version="", subject="of what is missing", made=made, missing={"arm": why})
    )
    assert subjects(root) == ["of what is missing"]
    assert check_index(Folder(root)) == []
    publish(path, subject=said)
    assert subjects(root) == [said]


def test_the_newest_commits_are_filled_up(root: Path, tmp_path: Path, matrix: Matrix) -> None:
    why = Missing(state="failed", reason="does not compile", tried="2026-11-02T00:00:00Z")
    paths = [wheel(tmp_path, target) for target in ("x86", "arm")]
    publish_wheel(Folder(root), paths[0], matrix)
    publish_wheel(Folder(root), paths[1], matrix, commit=COMMIT)
    for number in range(NEWEST):
        made = f"2026-0{1 + number // 50}-{1 + number % 25:02}T00:00:00Z"
        note_missing(Folder(root), Row(commit=f"{number:040x}", version="", made=made, missing={"x86": why}))
    assert len(rows(root)) == NEWEST
    publish_wheel(Folder(root), paths[0], matrix, commit=COMMIT)
    assert len(rows(root)) == NEWEST
    assert check_index(Folder(root)) == []


class TestRemedies:
    @pytest.fixture(autouse=True)
    def wheels(self, tmp_path: Path, publish: Publish) -> list[Path]:
        paths = [commits_wheel(tmp_path / "dist", 1), commits_wheel(tmp_path / "dist", 1, "arm"), wheel(tmp_path)]
        for path in paths:
            publish(path, nightly=path != paths[2])
        return paths

    @pytest.mark.parametrize(
        ("pattern", "content", "remedies"),
        [
            ("index.html", b"<p>", {Remedy.REPAIR}),
            ("*/index.html", None, {Remedy.REPAIR}),
            ("nightly/cpu/vllm/index.html", b"<p>", {Remedy.REPAIR}),
            ("nightly/cpu/index.html", None, {Remedy.REPAIR}),
            ("commits.json", b"{}", {Remedy.REPAIR}),
            ("commits.json", b"[", {Remedy.REPAIR}),
            ("commits.json", None, {Remedy.REPAIR}),
            ("commits/*.json", b"{", {Remedy.REPAIR}),
            ("commits/*.json", None, {Remedy.REPAIR}),
            ("commits/2020-01-01.json", b"{}", {Remedy.REPAIR}),
            ("latest/x86.json", b"{}", {Remedy.REPAIR}),
            ("0.32.0/cpu/vllm/index.v1.json", b"{", {Remedy.PAGE}),
            ("nightly/cpu/vllm/index.v1.json", b"{", {Remedy.PAGE}),
            ("0*/cpu/vllm/index.v1.json", None, {Remedy.REPAIR, Remedy.FILE}),
            ("files/*/*x86_64.whl", None, {Remedy.PUBLISH}),
            ("files/*/*x86_64.whl", b"other", {Remedy.PUBLISH}),
            ("files/*/*.metadata", None, {Remedy.PUBLISH}),
            ("files/*/*.metadata", b"other", {Remedy.PUBLISH}),
            ("files/*/record.json", None, {Remedy.PUBLISH}),
            ("files/0000/left.whl", b"", {Remedy.FILE}),
        ],
    )
    def test_what_is_advised_puts_it_right(
        self, root: Path, wheels: list[Path], matrix: Matrix, pattern: str, content: bytes | None, remedies: set[Remedy]
    ) -> None:
        for path in list(root.glob(pattern)) or [root / pattern]:
            damage(path, content)
        bucket = Folder(root)
        faults = check_index(bucket)
        assert {fault.remedy for fault in faults} == remedies
        if Remedy.PAGE in remedies:
            next(root.glob(pattern)).unlink()
        if remedies & {Remedy.PAGE, Remedy.PUBLISH, Remedy.FILE}:
            if "left" in pattern:
                (root / pattern).unlink()
            for path in wheels:
                publish_wheel(bucket, path, matrix, nightly=path != wheels[2])
        if Remedy.REPAIR in remedies:
            assert repair_index(bucket) == []
        assert check_index(bucket) == []
        check_links(root)

    def test_a_report_that_nobody_has_any_more_is_said_no_more(
        self, root: Path, wheels: list[Path], publish: Publish
    ) -> None:
        path = wheels[2]
        path.with_name("record.json").unlink()
        next(root.glob("files/*/vllm-0.32.0+cpu*.whl")).with_name("record.json").unlink()
        assert publish(path).entry.beside == ()

    def test_an_interrupted_publication_is_finished(self, root: Path, tmp_path: Path, matrix: Matrix) -> None:
        more = commits_wheel(tmp_path / "dist", 3)
        with pytest.raises(DyingError):
            publish_wheel(Dying(root, 8), more, matrix, nightly=True)
        (fault,) = check_index(Folder(root))
        assert fault.remedy is Remedy.REPAIR
        damage(root / "commits.json", b"{")
        assert repair_index(Folder(root)) == []
        assert [one.filename for one in read_entries(Folder(root), "nightly") if one.target == "x86"] == [more.name]

    def test_what_another_publishes_while_it_is_waited_for_is_not_damaged(
        self, root: Path, tmp_path: Path, matrix: Matrix
    ) -> None:
        class Waited(Folder):
            @contextlib.contextmanager
            def alone(self) -> Iterator[None]:
                publish_wheel(Folder(root), commits_wheel(tmp_path / "dist", 3), matrix, nightly=True)
                with super().alone():
                    yield

        assert repair_index(Waited(root)) == []
        assert check_index(Folder(root)) == []

    def test_what_an_earlier_version_left_is_put_right_by_publishing(
        self, root: Path, wheels: list[Path], publish: Publish
    ) -> None:
        """It listed the wheel of a release whose commit became known under both."""
        path = wheels[2]
        publish(path, commit=COMMIT)
        for page in (root / "commits.json", *root.glob("commits/*.json")):
            page.write_text(with_row_of_release(page.read_text()))
        assert len(check_index(Folder(root))) > 1
        publish(path)

    def test_what_is_missing_stays(self, root: Path) -> None:
        why = Missing(state="failed", reason="does not compile", tried="2026-11-02T00:00:00Z")
        note_missing(Folder(root), Row(commit=OTHER, version="", made="2026-11-02T00:00:00Z", missing={"x86": why}))
        damage(root / "commits.json", b"{")
        assert repair_index(Folder(root)) == []
        assert (OTHER, []) in rows(root)
        damage(root / "index.json", None)
        assert [fault.remedy for fault in repair_index(Folder(root))] == [Remedy.FIRST]


def damage(path: Path, content: bytes | None) -> None:
    if content is None:
        path.unlink()
    else:
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)


def with_row_of_release(page: str) -> str:
    """Return a page of commits that also has the wheel of a commit as that of a release whose commit is not known."""
    data = json.loads(page)
    key = "newest" if "newest" in data else "rows"
    found: Iterator[dict[str, object]] = (row for row in data[key] if row["commit"] == COMMIT)
    data[key] += [row | {"commit": None} for row in found]
    return json.dumps(data, indent=1) + "\n"
