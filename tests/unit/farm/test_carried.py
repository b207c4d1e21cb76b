"""Kernels and their audit, which go from one machine's stores to another's build."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from cpuwheels.attestation.keys import make_key
from cpuwheels.core.errors import FarmError
from cpuwheels.core.filesystem import remove_tree
from cpuwheels.core.store import Store
from cpuwheels.core.trust import Trust
from cpuwheels.farm.carried import carried_kernels, kernel_options
from cpuwheels.farm.done import Done
from farms import site_in
from shared_stores import AUDIT, KERNELS, make_audit, make_kernels, make_onednn


def test_they_are_signed_and_nothing_else_goes_with_them(tmp_path: Path) -> None:
    make_key(tmp_path / "key")
    site = site_in(tmp_path / "one", carries=True, key=tmp_path / "key")
    store = Store(site.paths.cache)
    make_kernels(store)
    make_kernels(store, "f" * 24)
    make_audit(store)
    make_audit(store, "9" * 24)
    make_onednn(store)
    done = carried_kernels(Done("k", kernels=KERNELS, audit=AUDIT), site, site.paths, tmp_path / "job")
    assert [name.split("/")[1:3] for name in sorted(done.files)] == [["audited", AUDIT]] * 2 + [
        ["kernels", KERNELS]
    ] * 2

    other = site_in(tmp_path / "two", carries=True, key=tmp_path / "key")
    options = kernel_options([Done("x"), done], other, other.paths, tmp_path / "build")
    assert options == ("--store", str(tmp_path / "build" / "kernels"), "--store-key", f"{tmp_path / 'key'}.pub")
    descriptions = list((tmp_path / "build").rglob("description.json"))
    assert len(descriptions) == 2
    assert all(json.loads(each.read_text())["signatures"] for each in descriptions)
    unsigned = kernel_options([done], dataclasses.replace(other, key=None), other.paths, tmp_path / "again")
    assert unsigned == ("--store", str(tmp_path / "again" / "kernels"))


def test_without_kernels_there_is_no_option(tmp_path: Path) -> None:
    site = site_in(tmp_path)
    assert kernel_options([Done("x")], site, site.paths, tmp_path / "build") == ()
    assert kernel_options([Done("x", kernels=KERNELS)], site, site.paths, tmp_path / "build") == (), "they are here"


def test_what_a_machine_has_is_not_unpacked_again(tmp_path: Path) -> None:
    """All of it, and from those who vouch for what is carried: what a commit's build made is no release's."""
    site, other = site_in(tmp_path / "one", carries=True), site_in(tmp_path / "two", carries=True)
    make_kernels(Store(site.paths.cache))
    make_audit(Store(site.paths.cache))
    done = carried_kernels(Done("k", kernels=KERNELS, audit=AUDIT), site, site.paths, tmp_path / "job")

    store, carried = Store(other.paths.cache), ("--store", str(tmp_path / "build" / "kernels"))

    def options() -> tuple[str, ...]:
        remove_tree(tmp_path / "build")
        return kernel_options([done], other, other.paths, tmp_path / "build")

    make_kernels(store)
    assert options() == carried, "the audit is missing"
    make_audit(store.trusting(Trust.COMMIT))
    assert options() == carried, "a release's audit is missing"
    make_audit(store)
    assert options() == ()
    assert not (tmp_path / "build").exists()
    assert kernel_options([done], site, site.paths, tmp_path / "build") == (), "it was made there"


def test_damaged_kernels_are_not_carried(tmp_path: Path) -> None:
    site = site_in(tmp_path, carries=True)
    entry = make_kernels(Store(site.paths.cache))
    library = entry / "vllm" / "_C.abi3.so"
    library.chmod(0o755)
    library.write_text("other")
    with pytest.raises(FarmError, match=f"kernels {KERNELS} are not carried"):
        carried_kernels(Done("k", kernels=KERNELS), site, site.paths, tmp_path / "job")


def test_kernels_whose_audit_is_kept_nowhere_go_alone(tmp_path: Path) -> None:
    site = site_in(tmp_path, carries=True)
    make_kernels(Store(site.paths.cache))
    done = carried_kernels(Done("k", kernels=KERNELS), site, site.paths, tmp_path / "job")
    assert {name.split("/")[1] for name in done.files} == {"kernels"}
