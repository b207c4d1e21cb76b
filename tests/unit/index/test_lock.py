"""The lock that is published with a wheel: which is, what it says of the wheel, and that the first one stays."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from commit_wheels import wheel
from cpuwheels.config.matrix import Matrix, load_matrix
from cpuwheels.core.errors import PublishError
from cpuwheels.index.bucket import Folder
from cpuwheels.index.check import check_index
from cpuwheels.index.entry import Entry, Lock
from cpuwheels.index.publish_wheel import publish_wheel
from cpuwheels.index.reading import read_entries
from index_publications import check_links
from sample_source import sha256

NAME = "helper-1.0-py3-none-any.whl"
HELPER: dict[str, Any] = {"url": f"https://a.org/{NAME}", "hashes": {"sha256": "f" * 64}}


class Place:
    """A wheel with a lock, and an index."""

    def __init__(self, folder: Path, matrix: Matrix) -> None:
        self.matrix, self.index = matrix, folder / "index"
        self.wheel = wheel(folder / "dist")
        self.lock = self.wheel.with_name("pylock.toml")
        self.own: dict[str, Any] = {"path": self.wheel.name, "hashes": {"sha256": sha256(self.wheel)}}
        self.write()

    def write(self, helper: dict[str, Any] = HELPER, kind: str = "wheels", **own: Any) -> None:
        packages = [
            {"name": "helper", "version": "1.0", kind: [helper] if kind == "wheels" else helper},
            {"name": "vllm", "version": self.wheel.name.split("-")[1], "wheels": [self.own | own]},
        ]
        if kind == "directory":
            del packages[0]["version"]
        self.lock.write_text(tomli_w.dumps({"lock-version": "1.0", "created-by": "test", "packages": packages}))

    def publish(self, address: str | None = None) -> Entry:
        entry = publish_wheel(Folder(self.index), self.wheel, self.matrix, nightly=True, address=address).entry
        for view in (entry.commit or "", "nightly"):
            assert read_entries(Folder(self.index), view) == [entry]
        return entry

    @property
    def published(self) -> Path:
        (path,) = self.index.glob("files/*/pylock.toml")
        return path

    def faults(self) -> list[str]:
        check_links(self.index)
        return [fault.what for fault in check_index(Folder(self.index))]


@pytest.fixture
def place(tmp_path: Path, project_root: Path) -> Place:
    return Place(tmp_path, load_matrix(project_root))


def test_it_lies_next_to_the_wheel_as_it_is(place: Place) -> None:
    assert place.publish().lock == Lock(sha256=sha256(place.lock), by_url=False)
    assert place.published.read_bytes() == place.lock.read_bytes()
    assert place.published.with_name(place.wheel.name).is_file()
    assert place.faults() == []


@pytest.mark.parametrize("address", ["https://wheels.example.org/deep", "http://127.0.0.1:8000/deep/"])
def test_with_an_address_it_names_the_wheel_by_its_url(place: Place, address: str) -> None:
    assert place.publish(address).lock == Lock(sha256=sha256(place.published), by_url=True)
    helper, own = (package["wheels"] for package in tomllib.loads(place.published.read_text())["packages"])
    name = place.wheel.name.replace("+", "%2B")
    url = f"{address.rstrip('/')}/files/{sha256(place.wheel)[:16]}/{name}"
    assert (helper, own) == ([HELPER], [{"url": url, "hashes": place.own["hashes"]}])
    assert place.faults() == []


@pytest.mark.parametrize("address", ["wheels.example.org", "s3://bucket/prefix", "https:///deep"])
def test_an_address_that_is_none_is_refused(place: Place, address: str) -> None:
    with pytest.raises(PublishError, match="is no address of an index"):
        place.publish(address)
    assert not place.index.exists() or list(place.index.rglob("*.whl")) == []


def test_a_wheel_without_a_lock_is_published_without_one(place: Place) -> None:
    place.lock.unlink()
    assert place.publish("https://a.org").lock is None
    assert list(place.index.glob("files/*/pylock.toml")) == []
    assert place.faults() == []
    assert "locked" not in (place.index / "nightly" / "index.html").read_text()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda place: place.lock.write_text("x"), "Expected '='"),
        (lambda place: place.lock.write_text("lock-version = '1.0'"), "created-by"),
        (lambda place: place.write(hashes={"sha256": "0" * 64}), "it is not the lock of vllm-"),
        (lambda place: place.write(path=place.wheel.name.replace("cp38", "cp39")), "it is not the lock of vllm-"),
        (lambda place: place.write(HELPER | {"url": f"file:///a/{NAME}"}), f"it has file:///a/{NAME}, which is on"),
        (lambda place: place.write({"path": NAME, "hashes": {"sha256": "f" * 64}}), f"it has {NAME}, which is on"),
        (lambda place: place.write({"path": "b"}, "directory"), "it has b, which is on this machine alone"),
    ],
)
def test_a_lock_from_which_nobody_could_install_is_refused(
    place: Place, change: Callable[[Place], object], words: str
) -> None:
    change(place)
    with pytest.raises(PublishError, match=r"the lock next to the wheel cannot be published") as raised:
        place.publish()
    assert words in raised.value.what
    assert raised.value.where == str(place.lock)


def test_the_first_one_stays(place: Place) -> None:
    first, content = place.publish().lock, place.lock.read_bytes()
    place.write(HELPER | {"url": f"https://b.org/{NAME}"})
    assert place.publish("https://a.org").lock == first
    assert place.published.read_bytes() == content
    place.lock.unlink()
    assert place.publish().lock == first
    assert place.faults() == []


def test_a_wheel_gets_its_lock_later(place: Place) -> None:
    content = place.lock.read_bytes()
    place.lock.unlink()
    place.publish()
    place.lock.write_bytes(content)
    assert place.publish().lock == Lock(sha256=sha256(place.lock))
    assert place.faults() == []


@pytest.mark.parametrize(("damage", "words"), [(b"x", "has other bytes than its pages say"), (None, "is missing")])
def test_a_damaged_one_is_found_and_published_again(place: Place, damage: bytes | None, words: str) -> None:
    lock, published = place.publish().lock, place.published
    if damage is None:
        published.unlink()
    else:
        published.write_bytes(damage)
    (fault,) = [fault.what for fault in check_index(Folder(place.index))]
    assert fault == f"{published.relative_to(place.index)} {words}"
    assert place.publish().lock == lock
    assert place.faults() == []
    assert published.read_bytes() == place.lock.read_bytes()


def test_one_that_nobody_has_any_more_is_listed_no_more(place: Place) -> None:
    place.publish()
    place.published.unlink()
    place.lock.unlink()
    assert place.publish().lock is None
    assert place.faults() == []
