"""A rebuilder's site: what it has is taken, and nothing that it does is waited for without end."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from cpuwheels.core.limits import Patience
from cpuwheels.index.rebuilders import site as module
from cpuwheels.index.rebuilders.site import SiteAnswer, ask_site
from cpuwheels.rebuild.site.listing import LIST
from cpuwheels.rebuild.statement import SIGNED_SUFFIX
from index_entries import entry
from loopback import DEAD, Answer, Server
from rebuilder_sites import FIRST, LATER, MADE_UP, Rebuilder, serving

NOW = datetime(2026, 11, 26, tzinfo=UTC)
ONE, TWO = entry(), entry(sha256="d" * 64)
ENTRIES = {one.sha256: one for one in (ONE, TWO)}
QUICK = Patience(answer=2, window=1, whole=2)


@pytest.fixture
def one(tmp_path: Path) -> Iterator[Rebuilder]:
    found = Rebuilder("one", tmp_path / "one")
    with serving(found.root) as url:
        found.url = url
        yield found


def ask(rebuilder: Rebuilder, *known: str) -> SiteAnswer:
    return ask_site(rebuilder.known, ENTRIES, known, NOW, patience=QUICK)


def test_what_it_has_about_these_wheels_is_taken(one: Rebuilder) -> None:
    folder = one.state(ONE, MADE_UP)
    one.state(entry(sha256="e" * 64))  # of another index
    one.state(TWO, signed=False)
    found = ask(one)
    assert (found.fault, found.refused, found.reached) == ("", [], True)
    assert list(found.statements) == [ONE.sha256]
    (statement,) = found.statements[ONE.sha256]
    assert (statement.rebuilder, statement.rebuilt) == ("one", MADE_UP)
    assert found.reports == {statement.digest: f"{one.url}/{folder.relative_to(one.root).as_posix()}/report.html"}
    again = ask(one, statement.digest)
    assert again.statements == {}
    assert again.reports == found.reports


def test_what_another_signed_does_not_count_there(one: Rebuilder, tmp_path: Path) -> None:
    other = Rebuilder("other", tmp_path / "other")
    one.state(ONE, key=other.key)
    one.state(TWO)
    found = ask(one)
    assert list(found.statements) == [TWO.sha256]
    (refused,) = found.refused
    assert refused.startswith(f"{ONE.filename}{SIGNED_SUFFIX}: the signature does not verify")


def test_a_changed_envelope(one: Rebuilder) -> None:
    folder = one.state(ONE)
    path = folder / f"{ONE.filename}{SIGNED_SUFFIX}"
    path.write_bytes(path.read_bytes().replace(b"a", b"b"))
    found = ask(one)
    assert found.statements == {}
    assert "it has other bytes than the list says" in found.refused[0]
    path.unlink()
    assert "HTTP status 404" in ask(one).refused[0]


def test_a_passed_of_other_bytes_listed_as_if_of_these(one: Rebuilder) -> None:
    """The list claims that a statement about an older wheel is about this one."""
    one.state(entry(sha256="5" * 64))
    path = one.root / LIST
    path.write_text(path.read_text().replace(f'"sha256": "{"5" * 64}"', f'"sha256": "{ONE.sha256}"'))
    found = ask(one)
    assert found.statements == {}
    assert "it is about" in found.refused[0]


def test_only_some_statements_about_a_wheel_are_looked_at(one: Rebuilder) -> None:
    for day in range(10, 20):
        one.state(ONE, moment=f"2026-11-{day}T00:00:00Z")
    moments = [each.statement.predicate.time_verified for each in ask(one).statements[ONE.sha256]]
    assert moments == [f"2026-11-{day}T00:00:00Z" for day in (19, 18, 17, 16)]


def test_a_site_that_is_gone(one: Rebuilder) -> None:
    one.url = DEAD
    found = ask(one)
    assert not found.reached
    assert found.fault.startswith("no connection")


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (Answer(status=404), "HTTP status 404"),
        (Answer(b"{"), "not valid JSON"),
        (Answer(b'{"format": 2}'), "not what it has to be"),
        (Answer(b"{}", announced=1 << 40), "more than"),
        (Answer(b'{"rebuilds"', announced=100, held_open=True), "too slow"),
        (Answer(status=302, headers={"Location": "file:///etc/passwd"}), "a redirect from http to file:"),
        (Answer(b"[" * 100_000), "nested"),
    ],
)
def test_a_hostile_list(one: Rebuilder, answer: Answer, words: str) -> None:
    with Server() as server:
        server.serve(f"/{LIST}", answer)
        one.url = server.url("")
        found = ask(one)
    assert words in found.fault
    assert found.statements == {}
    assert not found.reached


def test_a_redirect_without_end(one: Rebuilder) -> None:
    with Server() as server:
        server.serve(f"/{LIST}", Answer(status=302, headers={"Location": f"/{LIST}"}))
        one.url = server.url("")
        assert "more than 10 redirects" in ask(one).fault
        assert len(server.asked) == 11


def test_a_site_has_so_much_time_and_size(one: Rebuilder, monkeypatch: pytest.MonkeyPatch) -> None:
    one.state(ONE, moment=FIRST)
    one.state(TWO, moment=LATER)
    found = ask_site(one.known, ENTRIES, (), NOW, patience=QUICK, seconds=-1)
    assert "the next goes on" in found.fault
    assert (found.statements, found.reached) == ({}, True)
    monkeypatch.setattr(module, "_MOST", 10)
    found = ask(one)
    assert "the next goes on" in found.fault
    assert list(found.statements) == [TWO.sha256]  # the newest first
    known = [each.digest for each in found.statements[TWO.sha256]]
    assert list(ask(one, *known).statements) == [ONE.sha256]


def test_a_statement_that_does_not_come_ends_the_asking(one: Rebuilder) -> None:
    for each in (ONE, TWO):
        one.state(each)
    listing = json.loads((one.root / LIST).read_text())
    with Server() as server:
        server.serve(f"/{LIST}", Answer(json.dumps(listing).encode()))
        slow = Answer(b"{", announced=1000, held_open=True)
        for each in listing["rebuilds"]:
            name = each["wheel"].replace("+", "%2B")
            server.serve(f"/{each['folder']}/{name}{SIGNED_SUFFIX}", slow)
        one.url = server.url("")
        found = ask(one)
        assert len(server.asked) == 2
    assert "too slow" in found.fault
    assert found.reached
