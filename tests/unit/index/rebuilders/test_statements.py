"""Which statements count: of a known key, about these bytes, and of each rebuilder the newest."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from securesystemslib.dsse import Envelope

from cpuwheels.attestation.envelope import sign_envelope
from cpuwheels.attestation.keys import open_signer
from cpuwheels.core.errors import ProvenanceError
from cpuwheels.index.entry import Signed
from cpuwheels.index.rebuilders.statements import (
    CountedStatement,
    deciding,
    findings_of,
    publishers_of,
    read_kept,
    read_statement,
)
from index_entries import entry
from rebuilder_sites import FIRST, LATER, MADE_UP, Rebuilder, rebuild_statement

NOW = datetime(2026, 11, 26, tzinfo=UTC)
WHEEL = entry()


@pytest.fixture
def one(tmp_path: Path) -> Rebuilder:
    return Rebuilder("one", tmp_path / "one")


@pytest.fixture
def two(tmp_path: Path) -> Rebuilder:
    return Rebuilder("two", tmp_path / "two")


def line(by: Rebuilder, rebuilt: str = WHEEL.sha256, moment: str = FIRST, about: str = WHEEL.sha256) -> bytes:
    content = rebuild_statement(WHEEL.filename, about, rebuilt, moment).render()
    return sign_envelope(content, open_signer(str(by.key), None))


def read(content: bytes, *known: Rebuilder, now: datetime | None = NOW) -> CountedStatement:
    return read_statement(content, [each.known for each in known], WHEEL, "w", now)


@pytest.mark.parametrize("rebuilt", [WHEEL.sha256, MADE_UP])
def test_a_statement_of_a_known_key_counts(one: Rebuilder, two: Rebuilder, rebuilt: str) -> None:
    found = read(line(two, rebuilt), one, two)
    assert (found.rebuilder, found.keyid, found.rebuilt) == ("two", two.keyid, rebuilt)


def test_another_key_does_not(one: Rebuilder, two: Rebuilder) -> None:
    with pytest.raises(ProvenanceError, match="no key that is trusted signed this"):
        read(line(two), one)
    # Nor does a name in the envelope make it another's.
    data = json.loads(line(two))
    data["signatures"][0]["keyid"] = one.keyid
    with pytest.raises(ProvenanceError, match="no key that is trusted signed this"):
        read((json.dumps(data) + "\n").encode(), one)


def test_a_changed_statement_does_not(one: Rebuilder) -> None:
    data = json.loads(line(one, MADE_UP))
    other = json.loads(line(one))
    data["payload"] = other["payload"]
    with pytest.raises(ProvenanceError, match="no key that is trusted signed this"):
        read((json.dumps(data) + "\n").encode(), one)


def test_a_statement_about_other_bytes_does_not(one: Rebuilder) -> None:
    """PASSED, rightly signed, of an older wheel of the same name."""
    with pytest.raises(ProvenanceError, match="it is about"):
        read(line(one, "5" * 64, about="5" * 64), one)


def test_the_publisher_is_not_independent(one: Rebuilder, two: Rebuilder) -> None:
    own = entry(signed=Signed(statement="1" * 64, by=(f"key {one.keyid}", "https://github.com/x@refs/heads/main")))
    assert publishers_of(own) == {one.keyid}
    with pytest.raises(ProvenanceError, match="is not independent"):
        read_statement(line(one), [one.known, two.known], own, "w")
    assert read_statement(line(two), [one.known, two.known], own, "w").rebuilder == "two"


def test_what_is_of_tomorrow_does_not_count(one: Rebuilder) -> None:
    early = line(one, moment="2026-11-26T12:00:00Z")  # a clock that is wrong by hours
    assert read(early, one).rebuilder == "one"
    late = line(one, moment="2126-11-26T12:00:00Z")
    with pytest.raises(ProvenanceError, match="which is to come"):
        read(late, one)


def test_several_signatures_or_lines_are_not_counted(one: Rebuilder, two: Rebuilder) -> None:
    envelope = Envelope.from_dict(json.loads(line(one)))
    envelope.sign(open_signer(str(two.key), None))
    both = (json.dumps(envelope.to_dict()) + "\n").encode()
    for known in ([one], [two], [one, two]):
        with pytest.raises(ProvenanceError, match="several signatures"):
            read(both, *known)
    for content in (line(one) * 2, line(one)[:-1], b"\n" + line(one), line(one).replace(b"{", b"{\r", 1)):
        with pytest.raises(ProvenanceError, match="not one line"):
            read(content, one)


def test_what_is_kept_is_verified_again(one: Rebuilder, two: Rebuilder) -> None:
    content = line(one) + line(two, MADE_UP)
    found, refused = read_kept(content, [one.known, two.known], WHEEL, "w")
    assert [each.rebuilder for each in found] == ["one", "two"]
    assert refused == []
    found, refused = read_kept(content + b"{}\n", [one.known], WHEEL, "w")
    assert [each.rebuilder for each in found] == ["one"]
    assert len(refused) == 2


def decided(one: Rebuilder, *said: tuple[str, str]) -> list[tuple[str, str]]:
    found = deciding(read(line(one, rebuilt, moment), one) for rebuilt, moment in said)
    return [(each.rebuilt, each.statement.predicate.time_verified) for each in found]


SAME, OTHER = WHEEL.sha256, MADE_UP


def test_the_newest_counts_and_a_changed_mind_is_seen(one: Rebuilder) -> None:
    assert decided(one, (SAME, FIRST), (SAME, LATER)) == [(SAME, LATER)]
    assert decided(one, (SAME, FIRST), (OTHER, LATER)) == [(OTHER, LATER), (SAME, FIRST)]
    assert decided(one, (SAME, LATER), (OTHER, FIRST)) == [(SAME, LATER), (OTHER, FIRST)]
    # Of one moment the worse counts; whoever rebuilds with yet other bytes has changed its mind, too.
    assert decided(one, (SAME, FIRST), (OTHER, FIRST)) == [(OTHER, FIRST), (SAME, FIRST)]
    assert decided(one, ("8" * 64, FIRST), (OTHER, LATER)) == [(OTHER, LATER), ("8" * 64, FIRST)]
    assert decided(one) == []


def test_findings(one: Rebuilder, two: Rebuilder) -> None:
    statements = deciding([read(line(two), two), read(line(one, SAME, LATER), one), read(line(one, OTHER, FIRST), one)])
    found = findings_of(statements, {statements[0].digest: "https://one.example.org/report.html"})
    assert [(each.name, each.state, each.before, each.rebuilt) for each in found] == [
        ("one", "reproduced", "differs", SAME),
        ("two", "reproduced", None, SAME),
    ]
    assert [each.report for each in found] == ["https://one.example.org/report.html", None]
