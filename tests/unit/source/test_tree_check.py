"""A source with a fault is refused with all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cpuwheels.core.errors import UnsuitableSourceError
from cpuwheels.source.tree_check import check_links, check_names

if TYPE_CHECKING:
    from pathlib import Path


def test_names() -> None:
    check_names(["a", "b/c"], "the tree")
    with pytest.raises(
        UnsuitableSourceError, match="the tree has a file that may not be in a source: 'A' and 'a'"
    ) as one:
        check_names(["a", "A"], "the tree")
    assert one.value.output == ""
    with pytest.raises(UnsuitableSourceError) as raised:
        check_names([f"{name}/.git" for name in range(9)], "the tree")
    assert raised.value.output.endswith("and 4 more")
    assert raised.value.next_step


def test_links(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    check_links(tmp_path, ["a"], "the tree")
    (tmp_path / "c").symlink_to("/")
    with pytest.raises(UnsuitableSourceError, match="'c' is a link to '/'"):
        check_links(tmp_path, ["a", "c"], "the tree")
