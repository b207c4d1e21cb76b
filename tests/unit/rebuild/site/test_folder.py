"""The folder that a rebuilder publishes: nothing that is there is lost, and the list says what is there."""

from __future__ import annotations

import hashlib
import io
import json
from pathlib import Path

import pytest

from cpuwheels.attestation.envelope import verify_envelope
from cpuwheels.attestation.keys import public_key
from cpuwheels.attestation.sign import Signing
from cpuwheels.core.errors import MalformedDataError, PostponedError, ProvenanceError
from cpuwheels.rebuild.site.folder import LOCK, open_site
from cpuwheels.rebuild.site.listing import LIST, Listing, read_listing
from cpuwheels.rebuild.statement import SIGNED_SUFFIX, SUFFIX
from index_entries import entry
from rebuilder_sites import FIRST, LATER, MADE_UP, Rebuilder, quiet

ONE, OTHER = entry(), entry(sha256="d" * 64)


@pytest.fixture
def one(tmp_path: Path) -> Rebuilder:
    return Rebuilder("one", tmp_path / "one")


def listing(rebuilder: Rebuilder) -> Listing:
    return read_listing((rebuilder.root / LIST).read_bytes(), LIST)


def test_what_was_rebuilt_is_listed_with_what_came_of_it(one: Rebuilder) -> None:
    same, differs = one.state(ONE), one.state(OTHER, MADE_UP)
    first, second = listing(one).rebuilds
    assert (first.wheel, first.sha256, first.result, first.rebuilt) == (
        ONE.filename,
        ONE.sha256,
        "reproduced",
        ONE.sha256,
    )
    assert (second.sha256, second.result, second.rebuilt) == (OTHER.sha256, "differs", MADE_UP)
    for found, folder in ((first, same), (second, differs)):
        assert one.root / found.folder == folder
        envelope = (folder / f"{found.wheel}{SIGNED_SUFFIX}").read_bytes()
        assert hashlib.sha256(envelope).hexdigest() == found.envelope
    with open_site(one.root, quiet()) as site:
        assert site.has(ONE.sha256)
        assert not site.has("e" * 64)


def test_a_second_rebuild_stands_next_to_the_first(one: Rebuilder) -> None:
    one.state(ONE, MADE_UP, moment=FIRST)
    one.state(ONE, moment=LATER)
    assert [(found.result, found.moment) for found in listing(one).rebuilds] == [
        ("differs", FIRST),
        ("reproduced", LATER),
    ]
    assert len(list(one.root.glob(f"rebuilds/{ONE.sha256}/*"))) == 2


def test_what_a_run_left_that_was_cut_short_is_listed_by_the_next(one: Rebuilder) -> None:
    one.state(ONE)
    (one.root / LIST).unlink()
    half = one.root / "rebuilds" / ONE.sha256 / ".new-20261126T000000Z"
    half.mkdir()
    (half / "x").touch()
    with open_site(one.root, quiet()) as site:
        assert site.has(ONE.sha256)
    assert len(listing(one).rebuilds) == 1
    assert not half.exists()


@pytest.mark.parametrize("change", ["gone", "other wheel", "two"])
def test_a_folder_without_its_statement_is_not_listed(one: Rebuilder, change: str) -> None:
    folder = one.state(ONE)
    statement = folder / f"{ONE.filename}{SUFFIX}"
    if change == "gone":
        statement.unlink()
    elif change == "two":
        (folder / f"b.whl{SUFFIX}").write_text("{}")
    else:
        statement.write_text(statement.read_text().replace(ONE.sha256, OTHER.sha256))
    text = io.StringIO()
    with open_site(one.root, quiet(text)) as site:
        assert not site.has(ONE.sha256)
    assert "is not listed" in text.getvalue()
    assert listing(one).rebuilds == ()
    assert folder.exists()  # nobody takes a statement away


def test_failures_are_counted_apart_and_end_with_a_rebuild(one: Rebuilder) -> None:
    for passing in (False, True, False):
        with open_site(one.root, quiet()) as site:
            site.list_failure(ONE.filename, ONE.sha256, FIRST, "https://u:secret@host failed\x1b", passing=passing)
    with open_site(one.root, quiet()) as site:
        assert site.attempts(ONE.sha256) == 2
        assert not site.has(ONE.sha256)
    found = listing(one)
    assert found.rebuilds == ()
    assert [(failed.attempts, failed.reason) for failed in found.failed] == [(2, "https://host failed\\x1b")]
    one.state(ONE)
    assert listing(one).failed == ()


def test_a_damaged_list_is_made_anew(one: Rebuilder) -> None:
    one.state(ONE)
    (one.root / LIST).write_text("{")
    text = io.StringIO()
    with open_site(one.root, quiet(text)) as site:
        assert site.has(ONE.sha256)
    assert "is made anew" in text.getvalue()
    assert len(listing(one).rebuilds) == 1


def test_two_runs_do_not_share_a_folder(one: Rebuilder) -> None:
    one.state(ONE)
    with (
        open_site(one.root, quiet()),
        pytest.raises(PostponedError, match="another run rebuilds into this folder"),
        open_site(one.root, quiet()),
    ):
        pass
    with open_site(one.root, quiet()):
        pass
    assert (one.root / LOCK).exists()


def test_statements_are_signed_afterwards_and_once(one: Rebuilder) -> None:
    folder = one.state(ONE, signed=False)
    one.state(OTHER)
    assert [found.envelope is None for found in listing(one).rebuilds] == [True, False]
    with open_site(one.root, quiet()) as site:
        (made,) = site.sign(Signing(key=str(one.key)))
        assert site.sign(Signing(key=str(one.key))) == []
    payload, _ = verify_envelope(made.read_bytes(), [public_key(one.base / "key.pub")], made)
    assert payload == (folder / f"{ONE.filename}{SUFFIX}").read_bytes()
    assert all(found.envelope for found in listing(one).rebuilds)
    with open_site(one.root, quiet()) as site, pytest.raises(ProvenanceError):
        site.list_rebuild(_changed(folder))


def _changed(folder: Path) -> Path:
    path = folder / f"{ONE.filename}{SUFFIX}"
    path.write_text(path.read_text().replace("PASSED", "FAILED"))
    return folder


@pytest.mark.parametrize(
    "change",
    [
        {"folder": "rebuilds/../../etc"},
        {"folder": "https://evil.example.org/x"},
        {"wheel": "../a.whl"},
        {"sha256": "1"},
        {"result": "good"},
    ],
)
def test_a_list_that_leads_elsewhere_is_none(one: Rebuilder, change: dict[str, str]) -> None:
    one.state(ONE)
    data = json.loads((one.root / LIST).read_text())
    assert read_listing(json.dumps(data | {"more": 1}).encode(), LIST).rebuilds
    data["rebuilds"][0] |= change
    with pytest.raises(MalformedDataError):
        read_listing(json.dumps(data).encode(), LIST)
