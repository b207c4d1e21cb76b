"""Sharing: the first of two writers stays, and what is not whole is written again."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from cpuwheels.core.elsewhere import taken_from
from cpuwheels.core.errors import SharedStoreError
from cpuwheels.core.store import Store
from cpuwheels.core.trust import Trust
from cpuwheels.shared import push
from cpuwheels.shared.description import description_path
from cpuwheels.shared.folder import Folder
from cpuwheels.shared.place import Place, PlaceFaultError
from shared_stores import KERNELS, Open, make_kernels, new_signer, other_store, reader, share_all, states

NAME = f"kernels/{KERNELS}"


def test_the_second_time_nothing_is_written(store: Store, opened: Open) -> None:
    make_kernels(store)
    (first,) = share_all(store, opened())
    assert (first.state, first.size > 100) == ("shared", True)
    before = {one.path: one.changed for one in opened().objects()}
    assert len(before) == 2
    (second,) = share_all(store, opened())
    assert (second.state, second.size) == ("there", 0)
    assert {one.path: one.changed for one in opened().objects()} == before


def test_other_times_of_a_build_are_no_difference(store: Store, tmp_path: Path, opened: Open) -> None:
    make_kernels(store, seconds=1.0)
    share_all(store, opened())
    other = other_store(tmp_path / "other")
    make_kernels(other, seconds=2.0)
    assert states(share_all(other, opened())) == {NAME: "there"}


def test_of_two_writers_the_first_stays_and_the_second_is_told(store: Store, tmp_path: Path, opened: Open) -> None:
    signer, key = new_signer(tmp_path, "first")
    second, own = new_signer(tmp_path, "second")
    make_kernels(store, text="first")
    share_all(store, opened(), signer, [key])
    before = sorted(one.path for one in opened().objects())
    other = other_store(tmp_path / "other")
    make_kernels(other, text="second")
    (outcome,) = share_all(other, opened(), second, [own, key])
    assert outcome.state == "differs"
    assert outcome.why == f"vllm/_C.abi3.so; shared by {key.keyid}"
    assert sorted(one.path for one in opened().objects()) == before
    third = other_store(tmp_path / "third")
    with taken_from(reader(opened(), [], [key])):
        found = third.find("kernels", KERNELS)
    assert found
    assert (found / "vllm" / "_C.abi3.so").read_text() == "first"


def test_what_somebody_else_signed_stays_and_is_refused(store: Store, tmp_path: Path, opened: Open) -> None:
    stranger, theirs = new_signer(tmp_path, "stranger")
    signer, key = new_signer(tmp_path, "key")
    make_kernels(store)
    share_all(store, opened(), stranger, [theirs])
    (outcome,) = share_all(store, opened(), signer, [key])
    assert outcome.state == "refused"
    assert "no key that is trusted signed this" in outcome.why


@pytest.mark.parametrize("text", ["same", "other"])
def test_two_writers_at_the_same_moment(
    store: Store, tmp_path: Path, opened: Open, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both have seen that nothing is there before either writes."""
    other = other_store(tmp_path / "other")
    make_kernels(store, text="same", seconds=1.0)
    make_kernels(other, text=text, seconds=2.0)
    meet = threading.Barrier(2)
    put = push.put_object

    def together(*arguments: object, **options: object) -> None:
        meet.wait(30)
        put(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(push, "put_object", together)
    found: list[str] = []
    threads = [
        threading.Thread(target=lambda one=one: found.extend(states(share_all(one, opened())).values()))
        for one in (store, other)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == (["shared", "there"] if text == "same" else ["differs", "shared"])
    assert len(list(opened().objects())) == 2, "the object of the second writer is gone"
    third = other_store(tmp_path / "third")
    told: list[str] = []
    with taken_from(reader(opened(), told)):
        assert third.find("kernels", KERNELS)
    assert told == []


class Torn(Folder):
    """A place whose writer dies before some write."""

    def __init__(self, path: Path, at: int) -> None:
        super().__init__(path)
        self.left = at

    def add(self, path: str, content: bytes | Path) -> bool:
        if self.left == 0:
            raise KeyboardInterrupt
        self.left -= 1
        return super().add(path, content)


@pytest.mark.parametrize("at", [0, 1])
def test_a_torn_upload_is_no_entry_and_the_next_one_goes_on(store: Store, tmp_path: Path, at: int) -> None:
    make_kernels(store)
    with pytest.raises(KeyboardInterrupt):
        share_all(store, Torn(tmp_path / "shared", at))
    told: list[str] = []
    with taken_from(reader(Folder(tmp_path / "shared"), told)):
        assert other_store(tmp_path / "other").find("kernels", KERNELS) is None
    assert told == []
    assert states(share_all(store, Folder(tmp_path / "shared"))) == {NAME: "shared"}
    with taken_from(reader(Folder(tmp_path / "shared"), told)):
        assert other_store(tmp_path / "third").find("kernels", KERNELS)


def change_object(place: Place, change: str) -> None:
    (path,) = (one.path for one in place.objects() if one.path.endswith(".tar.gz"))
    content = b"".join(place.stream(path, place.size(path) or 0))
    place.remove(path)
    if change == "cut":
        place.add(path, content[:-7])
    elif change == "flipped":
        place.add(path, content[:-7] + bytes([content[-7] ^ 1]) + content[-6:])


@pytest.mark.parametrize(("change", "check"), [("cut", False), ("gone", False), ("flipped", True), ("cut", True)])
def test_what_is_not_whole_there_is_written_again(
    store: Store, tmp_path: Path, opened: Open, change: str, check: bool
) -> None:
    make_kernels(store)
    share_all(store, opened())
    change_object(opened(), change)
    assert states(share_all(store, opened(), check=check)) == {NAME: "healed"}
    told: list[str] = []
    with taken_from(reader(opened(), told)):
        assert other_store(tmp_path / "other").find("kernels", KERNELS)
    assert told == []
    assert states(share_all(store, opened(), check=True)) == {NAME: "there"}


def test_other_bytes_of_the_same_size_are_only_seen_if_they_are_read(store: Store, opened: Open) -> None:
    make_kernels(store)
    share_all(store, opened())
    change_object(opened(), "flipped")
    assert states(share_all(store, opened())) == {NAME: "there"}


def test_a_damaged_entry_is_not_shared(store: Store, opened: Open) -> None:
    entry = make_kernels(store)
    (entry / "vllm" / "_C.abi3.so").write_text("changed")
    (outcome,) = share_all(store, opened())
    assert outcome.state == "damaged"
    assert "vllm/_C.abi3.so has other bytes" in outcome.why
    assert list(opened().objects()) == []


def test_an_entry_in_use_is_no_unused_one(store: Store, opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    make_kernels(store)
    share_all(store, opened())
    path = description_path("kernels", KERNELS, Trust.RELEASE)
    before = opened().read(path, 1 << 20)
    assert before
    time.sleep(1.1)  # S3 has whole seconds
    assert states(share_all(store, opened())) == {NAME: "there"}
    same = opened().read(path, 1 << 20)
    assert same
    assert same.changed == before.changed, "nobody used it since"
    monkeypatch.setattr(push, "TOUCH_SECONDS", 1.0)
    assert store.find("kernels", KERNELS)
    share_all(store, opened())
    after = opened().read(path, 1 << 20)
    assert after
    assert after.changed > before.changed
    assert after.content == before.content


def test_a_place_that_cannot_be_written(store: Store, tmp_path: Path) -> None:
    make_kernels(store)
    (tmp_path / "file").write_text("")
    with pytest.raises(SharedStoreError, match=f"{NAME} cannot be shared") as raised:
        share_all(store, Folder(tmp_path / "file"))
    assert raised.value.where == str(tmp_path / "file")


def test_a_program_with_its_owners_rights_is_not_shared(store: Store, opened: Open) -> None:
    def make(folder: Path) -> None:
        (folder / "program").write_text("")
        (folder / "program").chmod(0o4755)

    store.get("kernels", KERNELS, make)
    (outcome,) = share_all(store, opened())
    assert (outcome.state, outcome.why) == ("refused", "program runs with its owner's rights")


class Busy(Folder):
    """A place in which somebody else is always faster."""

    def add(self, path: str, content: bytes | Path) -> bool:
        return not path.endswith(".json") and super().add(path, content)


def test_who_is_never_the_first_gives_up(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(push, "_PAUSE_SECONDS", 0.0)
    (store.root / "measured").mkdir(parents=True)
    (store.root / "measured" / "x86.tsv").write_text("1.0\t10\ta.o\n")
    with pytest.raises(SharedStoreError, match="others write it all the time"):
        share_all(store, Busy(tmp_path / "shared"))
    assert not list((tmp_path / "shared").rglob("*.gz"))


def test_a_fault_on_the_way_names_the_entry(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_kernels(store)

    def fail(*_: object) -> None:
        raise PlaceFaultError("the line is cut")

    monkeypatch.setattr(Folder, "add", fail)
    with pytest.raises(SharedStoreError, match="the line is cut"):
        share_all(store, Folder(tmp_path / "shared"))
