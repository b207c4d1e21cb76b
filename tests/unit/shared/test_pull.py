"""Entries of other machines: taken if all is right, else reported, and made here."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cpuwheels.core.elsewhere import taken_from
from cpuwheels.core.sealed_entry import check_entry, sealed_origin
from cpuwheels.core.store import Store
from cpuwheels.core.trust import Trust
from cpuwheels.shared import pull
from cpuwheels.shared.description import description_path
from cpuwheels.shared.folder import Folder
from cpuwheels.shared.place import PlaceFaultError
from shared_stores import (
    BESIDE,
    KERNELS,
    ONEDNN,
    Open,
    make_kernels,
    make_onednn,
    new_signer,
    other_store,
    reader,
    share_all,
    states,
)


def test_what_one_machine_shares_another_one_has(store: Store, tmp_path: Path, opened: Open, told: list[str]) -> None:
    made = make_kernels(store), make_onednn(store)
    assert states(share_all(store, opened())) == {f"kernels/{KERNELS}": "shared", f"onednn/{ONEDNN}": "shared"}
    other = other_store(tmp_path / "other")
    with taken_from(reader(opened(), told)):
        found = other.find("kernels", KERNELS)
        sources = other.get("onednn", ONEDNN, lambda _: pytest.fail("it is there"))
    assert found is not None
    assert (found / "vllm" / "_C.abi3.so").read_text() == "code"
    assert os.access(found / "vllm" / "_C.abi3.so", os.X_OK)
    assert (found / "libraries").is_dir()
    assert (sources / "src" / "link").readlink() == Path("cpu/gemm.cpp")
    assert [check_entry(entry) for entry in (found, sources)] == [[], []]
    origin = sealed_origin(found)
    assert origin is not None
    assert origin.place == opened().name
    assert [sealed_origin(entry) for entry in made] == [None, None]
    assert told == []
    assert other.find("kernels", KERNELS) == found


def test_without_a_shared_store_nothing_is_asked(store: Store, tmp_path: Path) -> None:
    make_kernels(store)
    share_all(store, Folder(tmp_path / "shared"))
    other = other_store(tmp_path / "other")
    assert other.find("kernels", KERNELS) is None
    with taken_from(reader(Folder(tmp_path / "shared"), [])):
        assert other.find("kernels", KERNELS)


def test_what_is_made_already_is_not_asked_for(store: Store, tmp_path: Path, told: list[str]) -> None:
    make_kernels(store)
    place = Folder(tmp_path / "shared")
    share_all(store, place)
    other = other_store(tmp_path / "other")
    with taken_from(reader(place, told)):
        entry = other.get("kernels", KERNELS, lambda folder: (folder / "own").write_text(""), ask=False)
    assert (entry / "own").is_file()


def test_what_is_here_is_not_asked_for(store: Store, told: list[str]) -> None:
    class Nobody(Folder):
        def read(self, path: str, most: int) -> None:
            pytest.fail(f"asked for {path} of {most} bytes")

    entry = make_kernels(store)
    with taken_from(reader(Nobody(Path("/nowhere")), told)):
        assert store.find("kernels", KERNELS) == entry


class TestWhoVouches:
    @pytest.fixture
    def place(self, store: Store, tmp_path: Path) -> Folder:
        place = Folder(tmp_path / "shared")
        make_kernels(store.trusting(Trust.COMMIT), text="of a commit")
        make_kernels(store.trusting(Trust.LOCAL), "f" * 24, text="of a tree")
        assert states(share_all(store, place)) == {f"from-commits/kernels/{KERNELS}": "shared"}
        return place

    def test_a_releases_build_takes_nothing_of_commits(self, place: Folder, tmp_path: Path, told: list[str]) -> None:
        with taken_from(reader(place, told)):
            assert other_store(tmp_path / "other").find("kernels", KERNELS) is None
            assert other_store(tmp_path / "other", Trust.LOCAL).find("kernels", KERNELS) is None

    def test_a_commits_build_does(self, place: Folder, tmp_path: Path, told: list[str]) -> None:
        other = other_store(tmp_path / "other", Trust.COMMIT)
        with taken_from(reader(place, told)):
            found = other.find("kernels", KERNELS)
            assert other.find("kernels", "f" * 24) is None
        assert found == tmp_path / "other" / "from-commits" / "kernels" / KERNELS

    def test_all_take_what_is_of_releases(self, store: Store, tmp_path: Path, told: list[str]) -> None:
        make_kernels(store)
        place = Folder(tmp_path / "shared")
        share_all(store, place)
        for trust in Trust:
            other = other_store(tmp_path / f"other {trust.name}", trust)
            with taken_from(reader(place, told)):
                found = other.find("kernels", KERNELS)
            assert found == other.root / "kernels" / KERNELS
        assert told == []

    def test_a_description_under_anothers_name_does_not_count(
        self, place: Folder, tmp_path: Path, told: list[str]
    ) -> None:
        """Who can write there, but not sign, offers a release what a commit made."""
        shared = tmp_path / "shared" / "v1"
        (shared / "kernels").mkdir()
        (shared / "from-commits" / "kernels" / KERNELS).rename(shared / "kernels" / KERNELS)
        with taken_from(reader(place, told)):
            assert other_store(tmp_path / "other").find("kernels", KERNELS) is None
        assert f"it describes from-commits/kernels/{KERNELS}" in told[0]


class TestSignatures:
    def test_a_trusted_key_counts(self, store: Store, tmp_path: Path, opened: Open, told: list[str]) -> None:
        signer, key = new_signer(tmp_path, "key")
        make_kernels(store)
        share_all(store, opened(), signer, [key])
        other = other_store(tmp_path / "other")
        with taken_from(reader(opened(), told, [new_signer(tmp_path, "another")[1], key])):
            found = other.find("kernels", KERNELS)
        assert found
        origin = sealed_origin(found)
        assert origin
        assert origin.signer == key.keyid
        assert told == []

    @pytest.mark.parametrize("signed", [True, False])
    def test_others_do_not(self, store: Store, tmp_path: Path, opened: Open, told: list[str], signed: bool) -> None:
        signer, key = new_signer(tmp_path, "key")
        make_kernels(store)
        share_all(store, opened(), signer if signed else None, [key] if signed else None)
        other = other_store(tmp_path / "other")
        with taken_from(reader(opened(), told, [new_signer(tmp_path, "another")[1]])):
            assert other.find("kernels", KERNELS) is None
        (line,) = told
        assert "is not taken from there, and is made here" in line
        assert ("no key that is trusted" in line) == signed

    def test_a_signed_store_may_be_read_without_keys(self, store: Store, tmp_path: Path, told: list[str]) -> None:
        signer, key = new_signer(tmp_path, "key")
        make_kernels(store)
        share_all(store, Folder(tmp_path / "shared"), signer, [key])
        with taken_from(reader(Folder(tmp_path / "shared"), told)):
            assert other_store(tmp_path / "other").find("kernels", KERNELS)

    def test_a_signed_description_of_something_else_does_not_count(
        self, store: Store, tmp_path: Path, told: list[str]
    ) -> None:
        signer, key = new_signer(tmp_path, "key")
        make_kernels(store)
        share_all(store, Folder(tmp_path / "shared"), signer, [key])
        kernels = tmp_path / "shared" / "v1" / "kernels"
        (kernels / KERNELS).rename(kernels / ("f" * 24))
        with taken_from(reader(Folder(tmp_path / "shared"), told, [key])):
            assert other_store(tmp_path / "other").find("kernels", "f" * 24) is None
        assert "it describes kernels/" in told[0]


class TestFaults:
    @pytest.fixture
    def place(self, store: Store, tmp_path: Path) -> Folder:
        make_kernels(store)
        place = Folder(tmp_path / "shared")
        share_all(store, place)
        return place

    @staticmethod
    def the_object(tmp_path: Path) -> Path:
        (found,) = (tmp_path / "shared").rglob("*.tar.gz")
        return found

    def ask(self, place: Folder, tmp_path: Path, told: list[str]) -> None:
        other = other_store(tmp_path / "other")
        with taken_from(reader(place, told)):
            assert other.find("kernels", KERNELS) is None
            made = make_kernels(other, text="made here")
        assert (made / "vllm" / "_C.abi3.so").read_text() == "made here"
        assert sealed_origin(made) is None
        assert [path.name for path in (other.root / "kernels").iterdir()] == [KERNELS]

    def test_a_wrong_object(self, place: Folder, tmp_path: Path, told: list[str]) -> None:
        path = self.the_object(tmp_path)
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.write_bytes(content)
        self.ask(place, tmp_path, told)
        assert "it has other bytes than its description says" in told[0]

    def test_one_that_is_cut_off(self, place: Folder, tmp_path: Path, told: list[str]) -> None:
        path = self.the_object(tmp_path)
        path.write_bytes(path.read_bytes()[:-1])
        self.ask(place, tmp_path, told)
        assert "it has other bytes than its description says" in told[0]

    def test_one_that_is_longer(self, place: Folder, tmp_path: Path, told: list[str]) -> None:
        path = self.the_object(tmp_path)
        path.write_bytes(path.read_bytes() + b"x")
        self.ask(place, tmp_path, told)
        assert "longer than it should be" in told[0]

    def test_one_that_is_gone(self, place: Folder, tmp_path: Path, told: list[str]) -> None:
        self.the_object(tmp_path).unlink()
        self.ask(place, tmp_path, told)
        assert "is not whole there" in told[0]

    @pytest.mark.parametrize("content", [b"", b"{", b"[]", b"{}", b'{"payload": 1}', b"\xff" * 10, b"x" * 100_000])
    def test_a_damaged_description(self, place: Folder, tmp_path: Path, told: list[str], content: bytes) -> None:
        (tmp_path / "shared" / description_path("kernels", KERNELS, Trust.RELEASE)).write_bytes(content)
        self.ask(place, tmp_path, told)
        assert len(told) == 1

    def test_a_description_that_is_a_link(self, place: Folder, tmp_path: Path, told: list[str]) -> None:
        path = tmp_path / "shared" / description_path("kernels", KERNELS, Trust.RELEASE)
        path.rename(tmp_path / "elsewhere")
        path.symlink_to(tmp_path / "elsewhere")
        self.ask(place, tmp_path, told)
        assert "it is a symbolic link" in told[0]


class Counting(Folder):
    """A folder that counts how often it is asked."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.asked: list[str] = []
        self.fault: PlaceFaultError | None = None

    def read(self, path: str, most: int):
        self.asked.append(path)
        if self.fault:
            raise self.fault
        return super().read(path, most)


def test_a_place_that_cannot_be_reached_is_reported_once(tmp_path: Path, told: list[str]) -> None:
    place, other = Counting(tmp_path / "shared"), other_store(tmp_path / "other", Trust.COMMIT)
    place.fault = PlaceFaultError("no route to it")
    with taken_from(reader(place, told)):
        for number in range(3):
            assert other.find("kernels", f"{number}" * 24) is None
        other.replenish("reads", BESIDE)
    assert len(place.asked) == 1
    assert told == ["the shared store is not used any more, what it may have is made here: no route to it"]


def test_what_is_not_there_is_not_asked_for_again_at_once(
    tmp_path: Path, told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    place, other = Counting(tmp_path / "shared"), other_store(tmp_path / "other")
    with taken_from(reader(place, told)):
        assert [other.find("kernels", KERNELS) for _ in range(3)] == [None] * 3
        assert len(place.asked) == 1
        monkeypatch.setattr(pull, "MISS_SECONDS", -1.0)
        assert [other.find("kernels", "f" * 24) for _ in range(3)] == [None] * 3
    assert len(place.asked) == 4
    assert told == []


def test_kinds_that_are_not_shared_are_not_asked_for(tmp_path: Path, told: list[str]) -> None:
    place, other = Counting(tmp_path / "shared"), other_store(tmp_path / "other")
    with taken_from(reader(place, told)):
        assert other.find("toolchains", KERNELS) is None
        other.get("packages", KERNELS, lambda folder: (folder / "a").write_text(""))
        other.replenish("packages", KERNELS)
    assert place.asked == []
