"""Whose signatures have to be on what is taken, as the user says it."""

from __future__ import annotations

from pathlib import Path

import pytest

from cpuwheels.core.errors import ProvenanceError, UsageError
from cpuwheels.shared.options import StoreChoice, open_shared
from shared_stores import new_signer


def opened(address: str, *keys: Path, unsigned: bool = False, locked: bool = False) -> object:
    return open_shared(StoreChoice(address, keys, unsigned), pytest.fail, locked=locked)


def test_a_folder_needs_no_signature(tmp_path: Path) -> None:
    assert opened(str(tmp_path))
    assert not (tmp_path / "shared").exists()


@pytest.mark.parametrize("address", ["https://host/store", "s3://bucket"])
def test_others_need_one_or_the_users_word(address: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="nothing says whose signatures count") as raised:
        opened(address)
    assert "--store-key" in raised.value.next_step
    assert opened(address, unsigned=True)
    new_signer(tmp_path, "key")
    assert opened(address, tmp_path / "key.pub")


def test_a_locked_run_needs_one_everywhere(tmp_path: Path) -> None:
    new_signer(tmp_path, "key")
    for unsigned in (True, False):
        with pytest.raises(UsageError, match="a locked run takes"):
            opened(str(tmp_path), locked=True, unsigned=unsigned)
    assert opened(str(tmp_path), tmp_path / "key.pub", locked=True)


def test_both_at_once_are_refused(tmp_path: Path) -> None:
    new_signer(tmp_path, "key")
    with pytest.raises(UsageError, match="either keys have to have signed"):
        opened(str(tmp_path), tmp_path / "key.pub", unsigned=True)


def test_a_key_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "key.pub").write_text("no key")
    with pytest.raises(ProvenanceError, match="it is not a public key"):
        opened(str(tmp_path), tmp_path / "key.pub")


def test_another_process_gets_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    choice = StoreChoice("s3://bucket", (Path("a.pub"), Path("b.pub")))
    keys = ("--store-key", str(tmp_path / "a.pub"), "--store-key", str(tmp_path / "b.pub"))
    assert choice.arguments == ("--store", "s3://bucket", *keys)
    assert StoreChoice("s3://bucket", unsigned=True).arguments == ("--store", "s3://bucket", "--unsigned-store")
