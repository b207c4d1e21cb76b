"""Two rebuilders and a liar: what an index shows of them, and what it keeps when a site is gone."""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import zipfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from commit_wheels import wheel
from cpuwheels.config.matrix import load_matrix
from cpuwheels.index.agreement import agreement_words
from cpuwheels.index.bucket import Folder
from cpuwheels.index.check import check_index, repair_index
from cpuwheels.index.commit_pages import Commits
from cpuwheels.index.entry import Entry
from cpuwheels.index.layout import BUNDLE, JOURNAL, SITES, wheel_path
from cpuwheels.index.publish import Publication, publish, publish_rebuilds
from cpuwheels.index.publish_wheel import publish_wheel
from cpuwheels.index.rebuilders import collect as module
from cpuwheels.index.rebuilders.check import require_agreement, verify_agreements
from cpuwheels.index.rebuilders.collect import Collection, collect, listed_wheels
from cpuwheels.index.retention import remove_old
from cpuwheels.index.sites import Sites
from html_anchors import links
from index_publications import Dying, DyingError, publication
from loopback import DEAD
from rebuilder_sites import FIRST, LATER, MADE_UP, Rebuilder, quiet, serving

NOW = datetime(2026, 11, 26, tzinfo=UTC)


class Scene:
    """An index with two wheels, two honest rebuilders and a liar, each with a key and a site.

    Attributes:
        bucket: The index.
        newest, older: Its wheels.
    """

    def __init__(self, base: Path, root: Path, stack: ExitStack) -> None:
        self.base, self.bucket = base, Folder(base / "index")
        for number in (1, 2):
            publish_wheel(self.bucket, wheel(base / "dist", number), load_matrix(root), nightly=True)
        self.older, self.newest = sorted(listed_wheels(self.bucket).values(), key=lambda one: one.made)
        self.one, self.two, self.liar = (Rebuilder(name, base / name) for name in ("one", "two", "liar"))
        for each in self.all:
            each.url = stack.enter_context(serving(each.root))

    @property
    def all(self) -> list[Rebuilder]:
        return [self.one, self.two, self.liar]

    def collect(self, *rebuilders: Rebuilder, text: io.StringIO | None = None) -> Collection:
        known = [each.known for each in rebuilders or self.all]
        return collect(self.bucket, known, quiet(text), NOW)

    def entry(self, of: Entry) -> Entry:
        return listed_wheels(self.bucket)[of.sha256]

    def words(self, of: Entry) -> str:
        found = self.entry(of).rebuilds
        return agreement_words(found) if found else ""

    def page(self, name: str) -> str:
        return (self.base / "index" / name).read_text()

    def bundle(self, of: Entry) -> Path:
        return self.base / "index" / f"{wheel_path(of)}{BUNDLE}"

    def faults(self, *rebuilders: Rebuilder) -> list[str]:
        found = [fault.what for fault in check_index(self.bucket)]
        for one in verify_agreements(self.bucket, [each.known for each in rebuilders or self.all]):
            found += one.faults
        return found


@pytest.fixture
def scene(tmp_path: Path, project_root: Path) -> Iterator[Scene]:
    with ExitStack() as stack:
        yield Scene(tmp_path, project_root, stack)


def test_who_agrees_and_who_differs_is_on_every_page(scene: Scene) -> None:
    scene.one.state(scene.newest)
    scene.two.state(scene.newest)
    folder = scene.liar.state(scene.newest, MADE_UP)
    scene.one.state(scene.older)
    found = scene.collect()
    assert {one.sha256 for one in found.changed} == {scene.newest.sha256, scene.older.sha256}
    words = f"2 of 3 rebuilders agree; liar differs (sha256 {MADE_UP[:16]}…)"
    assert scene.words(scene.newest) == words
    assert scene.words(scene.older) == "1 of 3 rebuilders agree; not yet: two, liar"
    assert scene.faults() == []
    for view in (scene.newest.commit, "nightly"):
        page = scene.page(f"{view}/index.html")
        assert words in page
        assert MADE_UP in page
        assert f"{scene.liar.url}/{folder.relative_to(scene.liar.root)}/report.html" in page
        (link,) = [link for link in links(page) if link.endswith(BUNDLE)]
        assert (scene.base / "index" / str(view) / link.replace("%2B", "+")).resolve() == scene.bundle(scene.newest)
    lines = scene.bundle(scene.newest).read_bytes().splitlines()
    assert [json.loads(line)["payloadType"] for line in lines] == ["application/vnd.in-toto+json"] * 3
    root = scene.page("index.html")
    assert "2/3 rebuilt</span>" in root
    assert "other bytes: liar</p>" in root
    assert "1/3 rebuilt</span>" in root
    assert f'<a href="{scene.one.url}" rel="noreferrer">one</a>: the same bytes of 2 wheels' in root
    newest = Commits.model_validate_json(scene.page("commits.json")).newest[0].wheels["x86"].rebuilds
    assert newest is not None
    assert [(one.name, one.state) for one in newest.findings] == [
        ("liar", "differs"),
        ("one", "reproduced"),
        ("two", "reproduced"),
    ]
    assert '"rebuilds"' in scene.page("latest/x86.json")


def test_asking_again_changes_nothing(scene: Scene) -> None:
    scene.one.state(scene.newest)
    scene.collect()
    before = {path: path.read_bytes() for path in (scene.base / "index").rglob("*") if path.is_file()}
    assert scene.collect().changed == ()
    assert {path: path.read_bytes() for path in before} == before


def test_what_was_taken_stays_when_a_site_is_gone_or_forgets(scene: Scene) -> None:
    scene.one.state(scene.newest)
    folder = scene.liar.state(scene.newest, MADE_UP)
    scene.collect()
    before = scene.words(scene.newest)
    scene.one.url = DEAD
    # A hosting party that takes a statement back.
    for path in sorted(folder.iterdir()):
        path.unlink()
    (scene.liar.root / "rebuilds.json").write_text("{}")
    text = io.StringIO()
    found = collect(scene.bucket, [each.known for each in scene.all], quiet(text), NOW + timedelta(days=1))
    assert scene.words(scene.newest) == before
    assert "one: not reachable: no connection" in text.getvalue()
    states = {one.name: one for one in found.sites.sites}
    assert states["one"].fault.startswith("no connection")
    assert states["one"].reached == "2026-11-26T00:00:00Z"  # the last time
    assert '<span class="failed">✗ not reachable</span> (no connection' in scene.page("index.html")
    assert ", reached last on 2026-11-26" in scene.page("index.html")
    assert scene.faults() == []


def test_a_site_that_was_never_reached(scene: Scene) -> None:
    scene.one.url = DEAD
    scene.two.state(scene.newest)
    scene.collect(scene.one, scene.two)
    assert scene.words(scene.newest) == "1 of 2 rebuilders agree; not yet: one"
    assert "never reached" in scene.page("index.html")
    assert scene.faults() == []


def test_a_site_that_has_more_than_one_run_takes(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    scene.one.state(scene.newest)
    monkeypatch.setattr("cpuwheels.index.rebuilders.site._MOST", 0)
    text = io.StringIO()
    scene.collect(scene.one, text=text)
    assert "one: not read to its end: there is more than one run takes" in text.getvalue()
    page = scene.page("index.html")
    assert '<span class="failed">✗ not read to its end</span> (there is more' in page
    assert "reached last" not in page


def test_a_mind_that_was_changed_is_shown(scene: Scene) -> None:
    scene.one.state(scene.newest, moment=FIRST)
    scene.collect(scene.one)
    scene.one.state(scene.newest, MADE_UP, moment=LATER)
    scene.collect(scene.one)
    assert scene.words(scene.newest) == f"0 of 1 rebuilder agrees; one differs (sha256 {MADE_UP[:16]}…)"
    assert "an earlier statement of it says the same bytes" in scene.page("nightly/index.html")
    assert len(scene.bundle(scene.newest).read_bytes().splitlines()) == 2
    assert scene.faults(scene.one) == []


def test_whoever_is_taken_off_the_list_does_not_count_any_more(scene: Scene) -> None:
    scene.one.state(scene.newest)
    scene.liar.state(scene.newest, MADE_UP)
    scene.collect()
    scene.collect(scene.one, scene.two)
    assert scene.words(scene.newest) == "1 of 2 rebuilders agree; not yet: two"
    assert "liar" not in scene.page("index.html")
    collect(scene.bucket, [], quiet(), NOW)
    assert scene.entry(scene.newest).rebuilds is None
    assert not scene.bundle(scene.newest).exists()
    assert "not yet" in scene.page("nightly/index.html")
    assert [fault.what for fault in check_index(scene.bucket)] == []


def test_what_does_not_count_is_told(scene: Scene) -> None:
    scene.liar.state(scene.newest, key=scene.one.key)
    text = io.StringIO()
    found = scene.collect(text=text)
    assert "liar: does not count" in text.getvalue()
    assert scene.words(scene.newest) == "0 of 3 rebuilders agree; not yet: one, two, liar"
    (refused,) = next(one for one in found.sites.sites if one.name == "liar").refused
    assert "the signature does not verify" in refused
    assert "1 statement does not count" in scene.page("index.html")


def test_a_copy_of_anothers_site_gains_nothing(scene: Scene) -> None:
    """Neither a statement nor the link to the report, also when the statement is in the index already."""
    scene.one.state(scene.newest)
    scene.collect(scene.one)
    page = scene.page("nightly/index.html")
    shutil.copytree(scene.one.root, scene.liar.root, dirs_exist_ok=True)
    text = io.StringIO()
    scene.collect(scene.one, scene.liar, text=text)
    assert "liar: does not count" in text.getvalue()
    assert scene.words(scene.newest) == "1 of 2 rebuilders agree; not yet: liar"
    assert scene.liar.url not in scene.page("nightly/index.html")
    assert f"{scene.one.url}/rebuilds/" in page
    assert f"{scene.one.url}/rebuilds/" in scene.page("nightly/index.html")
    assert scene.faults() == []


def forget(scene: Scene) -> None:
    scene.bundle(scene.newest).unlink()


def shorten(scene: Scene) -> None:
    path = scene.bundle(scene.newest)
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[1:]))


@pytest.mark.parametrize(("damage", "words"), [(forget, "is missing"), (shorten, "has other bytes than its pages say")])
def test_a_damaged_bundle_is_found_and_made_anew(scene: Scene, damage: Callable[[Scene], None], words: str) -> None:
    scene.one.state(scene.newest)
    scene.liar.state(scene.newest, MADE_UP)
    scene.collect()
    damage(scene)
    assert any(f"{BUNDLE} {words}" in fault for fault in scene.faults())
    scene.collect()
    assert scene.faults() == []
    assert len(scene.bundle(scene.newest).read_bytes().splitlines()) == 2


def lie(scene: Scene, of: Entry, content: bytes, **changes: object) -> None:
    """Have the index's keeper write pages that fit a file of statements but not their signatures."""
    found = scene.entry(of)
    assert found.rebuilds is not None
    rebuilds = found.rebuilds.model_copy(update={"statements": hashlib.sha256(content).hexdigest(), **changes})
    publish_rebuilds(scene.bucket, found.model_copy(update={"rebuilds": rebuilds}), content)


def test_pages_that_say_something_else_than_the_signatures(scene: Scene) -> None:
    for each in scene.all:
        each.state(scene.newest, MADE_UP if each is scene.liar else "")
    scene.collect()
    content = scene.bundle(scene.newest).read_bytes()
    agreement = scene.entry(scene.newest).rebuilds
    assert agreement is not None
    changed = tuple(
        one.model_copy(update={"state": "reproduced", "rebuilt": scene.newest.sha256}) for one in agreement.findings
    )
    lie(scene, scene.newest, content, findings=changed)
    assert check_index(scene.bucket) == []  # page and file fit; only a key tells
    (fault,) = scene.faults()
    assert f"what key {scene.liar.keyid} signed says differs (sha256 {MADE_UP[:16]}…" in fault
    # Without the odd one's statement.
    kept = content.splitlines(keepends=True)[1:]
    lie(scene, scene.newest, b"".join(kept), findings=agreement.findings)
    (fault,) = scene.faults()
    assert f"what key {scene.liar.keyid} signed says nothing" in fault
    # A statement that was tampered with.
    forged = content.replace(content.splitlines()[0], content.splitlines()[0].replace(b'"sig":"', b'"sig":"00'))
    lie(scene, scene.newest, forged, findings=agreement.findings)
    assert len(scene.faults()) == 2
    # Another's wheel's statements.
    scene.one.state(scene.older)
    scene.collect()
    lie(scene, scene.older, content, findings=agreement.findings)
    assert any("it is about" in fault.what for fault in check_index(scene.bucket))


def test_enough_have_to_agree(scene: Scene) -> None:
    for each in scene.all:
        each.state(scene.newest, MADE_UP if each is scene.liar else "")
    scene.one.state(scene.older)
    scene.collect()

    def missing(required: int, *rebuilders: Rebuilder) -> list[str]:
        found = verify_agreements(scene.bucket, [each.known for each in rebuilders or scene.all])
        return [line.partition(":")[0] for line in require_agreement(found, required)]

    assert missing(1) == []
    assert missing(2) == [scene.older.filename]
    assert sorted(missing(3)) == sorted([scene.newest.filename, scene.older.filename])
    # Whoever checks relies on others than the keeper does: what those say is neither counted nor a fault.
    assert missing(1, scene.liar, scene.one) == [scene.newest.filename]
    assert scene.faults(scene.one) == []
    first = verify_agreements(scene.bucket, [each.known for each in scene.all])[0]
    assert first.sentence == f"{scene.newest.filename}: {scene.words(scene.newest)}"


def test_a_wheel_published_again_keeps_them_and_retention_takes_them(scene: Scene, project_root: Path) -> None:
    scene.one.state(scene.older)
    scene.collect()
    path = wheel(scene.base / "dist", 1)
    publish_wheel(scene.bucket, path, load_matrix(project_root))
    assert scene.words(scene.older).startswith("1 of 3")
    assert scene.faults() == []
    bundle = scene.bundle(scene.older)
    assert bundle.exists()
    assert remove_old(scene.bucket, 1, datetime(2027, 11, 26, tzinfo=UTC)) == [scene.older.commit]
    assert not bundle.exists()
    assert scene.faults() == []
    assert "the same bytes of 1 wheel" in scene.page("index.html")  # as they were asked last


def test_what_others_publish_meanwhile_is_kept(
    scene: Scene, project_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sites are asked for minutes. A wheel comes, one goes, and of one more becomes known."""
    for each in (scene.older, scene.newest):
        scene.one.state(each)
    ask = module.ask_site

    def meanwhile(*arguments: Any) -> Any:
        answer = ask(*arguments)
        path = wheel(scene.base / "dist", 2)
        served = scene.newest.model_copy(update={"served": "passed"})
        publish(scene.bucket, Publication(served, path, (path.parent / "METADATA").read_bytes(), {}, nightly=True))
        publish_wheel(scene.bucket, wheel(scene.base / "dist", 3), load_matrix(project_root), nightly=True)
        remove_old(scene.bucket, 1, datetime.fromisoformat(scene.older.made) + timedelta(days=1, seconds=1))
        return answer

    monkeypatch.setattr(module, "ask_site", meanwhile)
    with zipfile.ZipFile(wheel(scene.base / "dist", 2)) as archive:
        name = next(name for name in archive.namelist() if name.endswith("/METADATA"))
        (scene.base / "dist/x862/METADATA").write_bytes(archive.read(name))
    (changed,) = scene.collect(scene.one).changed
    assert (changed.sha256, changed.served) == (scene.newest.sha256, "passed")
    assert len(listed_wheels(scene.bucket)) == 2
    assert scene.words(scene.newest) == "1 of 1 rebuilder agrees"
    assert scene.faults(scene.one) == []


def test_a_damaged_page_of_sites(scene: Scene) -> None:
    scene.collect()
    scene.bucket.write(SITES, b"{}")
    said = [fault.what for fault in check_index(scene.bucket)]
    assert f"{SITES} is damaged" in said
    publish(scene.bucket, publication(scene.base / "more", 9))
    scene.collect()
    assert Sites.model_validate_json(scene.page(SITES)).sites


def test_a_collector_that_dies_at_any_moment_leaves_a_good_index(scene: Scene) -> None:
    scene.one.state(scene.newest)
    scene.two.state(scene.older, MADE_UP)
    known = [each.known for each in scene.all]
    deaths = 0
    while True:
        try:
            collect(Dying(scene.base / "index", deaths), known, quiet(), NOW)
        except DyingError:
            repaired = repair_index(scene.bucket)
            assert [fault.what for fault in repaired] == []
            assert not (scene.base / "index" / JOURNAL).exists()
            # From the beginning, so that each moment has its turn.
            collect(scene.bucket, [], quiet(), NOW)
            deaths += 1
            continue
        break
    assert deaths > 10
    assert scene.faults() == []
    assert scene.words(scene.newest) == "1 of 3 rebuilders agree; not yet: two, liar"
