"""What every place does the same way, and its address."""

from __future__ import annotations

from pathlib import Path

import pytest

from cpuwheels.core.errors import UsageError
from cpuwheels.shared.address import open_place
from cpuwheels.shared.folder import Folder
from cpuwheels.shared.place import PlaceFaultError, Seen, scheme_of
from cpuwheels.shared.s3 import Bucket
from cpuwheels.shared.web import Web
from shared_stores import Open


def test_what_is_there_is_not_added_again(opened: Open, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"of a file")
    assert opened().add("a/b", tmp_path / "file")
    assert not opened().add("a/b", b"other")
    seen = opened().read("a/b", 100)
    assert seen
    assert seen.content == b"of a file"
    assert opened().size("a/b") == 9
    assert b"".join(opened().stream("a/b", 9)) == b"of a file"


def test_what_is_not_there(opened: Open) -> None:
    assert opened().read("a/b", 100) is None
    assert opened().size("a/b") is None
    opened().remove("a/b")
    with pytest.raises(PlaceFaultError) as raised:
        list(opened().stream("a/b", 1))
    assert raised.value.missing
    assert raised.value.alone


def test_only_the_version_that_was_seen_is_replaced(opened: Open) -> None:
    opened().add("a/b", b"one")
    seen = opened().read("a/b", 100)
    assert seen
    assert opened().replace("a/b", b"two", seen)
    assert not opened().replace("a/b", b"three", seen)
    now = opened().read("a/b", 100)
    assert now
    assert now.content == b"two"
    opened().remove("a/b")
    assert not opened().replace("a/b", b"four", now)
    assert opened().read("a/b", 100) is None


def test_what_is_larger_than_it_may_be_is_a_fault_of_one_object(opened: Open) -> None:
    opened().add("a/b", b"x" * 100)
    with pytest.raises(PlaceFaultError) as raised:
        opened().read("a/b", 99)
    assert raised.value.alone
    with pytest.raises(PlaceFaultError) as raised:
        list(opened().stream("a/b", 99))
    assert raised.value.alone


def test_an_object_of_several_pieces(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("folder", "s3"):
        monkeypatch.setattr(f"cpuwheels.shared.{module}.CHUNK", 10)
    opened().add("a/b", b"0123456789" * 3 + b"x")
    assert list(opened().stream("a/b", 31)) == [b"0123456789"] * 3 + [b"x"]


def test_objects_are_listed_with_their_sizes(opened: Open) -> None:
    opened().add("a/b", b"x")
    opened().add("a/c/d", b"xx")
    opened().add("e", b"xxx")
    assert {one.path: one.size for one in opened().objects()} == {"a/b": 1, "a/c/d": 2, "e": 3}
    assert {one.path for one in opened().objects("a")} == {"a/b", "a/c/d"}
    assert all(one.changed > 1_700_000_000 for one in opened().objects())


def test_an_empty_object_has_no_pieces(opened: Open) -> None:
    opened().add("a", b"")
    assert list(opened().stream("a", 0)) in ([], [b""])


@pytest.mark.parametrize(
    ("address", "scheme"),
    [("s3://a/b", "s3"), ("HTTPS://a", "https"), ("/a/b", ""), ("a:b/c", "a"), ("./a:b", ""), ("a", "")],
)
def test_schemes(address: str, scheme: str) -> None:
    assert scheme_of(address) == scheme


def test_places_by_their_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for address in (str(tmp_path / "a b"), "a b", (tmp_path / "a b").as_uri()):
        place = open_place(address, writes=True)
        assert isinstance(place, Folder)
        assert (place.name, place.remote) == (str(tmp_path / "a b"), False)
    assert isinstance(open_place("s3://bucket/prefix", writes=False), Bucket)
    web = open_place("https://user:secret@host/store/", writes=False)
    assert isinstance(web, Web)
    assert (web.name, web.remote) == ("https://host/store/", True)


@pytest.mark.parametrize(
    ("address", "writes"),
    [("ftp://a/b", False), ("s3://", False), ("s3://key:secret@bucket", False), ("https://a/b", True), ("", False)],
)
def test_an_address_that_is_none(address: str, writes: bool) -> None:
    with pytest.raises(UsageError) as raised:
        open_place(address, writes=writes)
    assert "secret" not in str(raised.value)


def test_a_web_server_is_only_read() -> None:
    web = Web("https://host/store")
    for call in (
        lambda: web.add("a", b""),
        lambda: web.replace("a", b"", Seen(b"", "")),
        lambda: web.remove("a"),
        web.objects,
        lambda: web.size("a"),
    ):
        with pytest.raises(PlaceFaultError, match="only read at its web address"):
            call()
