"""What of the local stores is shared."""

from __future__ import annotations

from pathlib import Path

from cpuwheels.core.store import Store
from cpuwheels.core.trust import Trust
from cpuwheels.shared.wanted import Wanted, shareable
from shared_stores import AUDIT, BESIDE, KERNELS, ONEDNN, make_audit, make_kernels, make_onednn


def fill_stores(store: Store) -> None:
    make_onednn(store)
    for trust in (Trust.LOCAL, Trust.COMMIT, Trust.RELEASE):  # each sees what those after it have
        own = store.trusting(trust)
        make_kernels(own)
        make_audit(own)
        for kind, name in (("reads", f"{BESIDE}/{'0' * 16}.json"), ("measured", "x86.tsv")):
            path = own.folder(kind) / name
            path.parent.mkdir(parents=True)
            path.write_text("{}")
    store.get("toolchains", "a" * 24, lambda folder: (folder / "gcc").write_text(""))


def test_all_that_releases_and_commits_made_and_nothing_of_trees(store: Store) -> None:
    fill_stores(store)
    for name in (".new-abc", "abc", "c" * 25):
        (store.root / "kernels" / name).mkdir()
    assert {str(one) for one in shareable(store)} == {
        f"kernels/{KERNELS}",
        f"audited/{AUDIT}",
        f"onednn/{ONEDNN}",
        f"reads/{BESIDE}",
        "measured/tables",
        f"from-commits/kernels/{KERNELS}",
        f"from-commits/audited/{AUDIT}",
        f"from-commits/reads/{BESIDE}",
        "from-commits/measured/tables",
    }


def test_kernels_and_audits_may_be_chosen(store: Store) -> None:
    fill_stores(store)
    make_kernels(store, "f" * 24)
    found = list(shareable(store, {"kernels": {"f" * 24}, "audited": {""}}))
    assert [one for one in found if one.kind == "kernels"] == [Wanted("kernels", "f" * 24, Trust.RELEASE)]
    assert {one.kind for one in found} == {"kernels", "onednn", "reads", "measured"}


def test_empty_stores_have_nothing(store: Store, tmp_path: Path) -> None:
    assert list(shareable(store)) == []
    assert list(shareable(Store(tmp_path / "none"))) == []
