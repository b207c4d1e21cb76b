"""What may not be in a source tree."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cpuwheels.core.tree_faults import link_faults, name_faults

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("names", "fault"),
    [
        (["a/.git/config"], "'a/.git/config' is no name of a file in a tree"),
        (["a/../b"], "'a/../b' is no name"),
        (["/a"], "'/a' is no name"),
        (["a//b"], "'a//b' is no name"),
        ([".CPUWheels-x"], "names at the top that begin with .cpuwheels- are this program's own"),
        (["a\nb"], "has characters that cannot be printed"),
        (["a\N{REPLACEMENT CHARACTER}"], "has characters that cannot be printed"),
        (["a/b", "A/c"], "'A' and 'a' are one name where capital letters do not count"),
        (["stra\N{LATIN SMALL LETTER SHARP S}e", "STRASSE"], "are one name"),
        (["\N{LATIN SMALL LETTER E WITH ACUTE}", "e\N{COMBINING ACUTE ACCENT}"], "are one name"),
    ],
)
def test_a_name_that_is_refused(names: list[str], fault: str) -> None:
    assert [found for found in name_faults(names) if fault in found]


def test_names_that_are_not_refused() -> None:
    assert name_faults(["a/b", "a/c", "a.b", ".gitignore", "sub/.cpuwheels-x", ".github/x", "\N{SNOWMAN}"]) == []


def test_links(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    (tree / "sub").mkdir(parents=True)
    (tmp_path / "tree2").mkdir()
    good = {"a": "sub", "sub/b": "../a/c", "gone": "nothing", "top": "."}
    bad = {"loop": "loop", "c": "/etc", "d": "..", "sub/e": "../../tree2", "f": "sub/../../x", "g": "d/tree"}
    for name, target in (good | bad).items():
        (tree / name).symlink_to(target)
    names = [*good, *bad, "sub"]
    assert len(link_faults(tree, good)) == 0
    faults = link_faults(tree, names)
    assert [next(name for name in bad if f"{name!r} is a link" in fault) for fault in faults] == list(bad)
