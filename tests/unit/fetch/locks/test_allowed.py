"""Names of packages that may be of any age: those that the locks have, in whatever way they are written."""

from __future__ import annotations

from pathlib import Path

import pytest

from cpuwheels.core.errors import UsageError
from cpuwheels.fetch.locks.allowed import locked_names, require_matched, unmatched

NAMES = {"urllib3", "pyyaml", "typing-extensions", "libstdc++6"}


def test_the_locks_of_this_project_have_their_names(project_root: Path) -> None:
    python = locked_names(project_root, python=True, debian=False)
    debian = locked_names(project_root, python=False, debian=True)
    assert {"packaging", "nox"} <= python
    assert "binutils" in debian
    assert not {"binutils"} & python
    assert locked_names(project_root, python=True, debian=True) == python | debian
    assert locked_names(project_root, python=False, debian=False) == set()


@pytest.mark.parametrize("name", ["urllib3", "PyYAML", "typing_extensions", "Typing.Extensions", "libstdc++6"])
def test_a_name_that_a_lock_has(name: str) -> None:
    assert unmatched([name], NAMES) == {}
    require_matched([name], NAMES)


@pytest.mark.parametrize(("name", "near"), [("urlib3", ["urllib3"]), ("libstdc++", ["libstdc++6"]), ("zzz", [])])
def test_a_name_that_none_has_is_refused_with_the_nearest(name: str, near: list[str]) -> None:
    assert unmatched(["pyyaml", name], NAMES) == {name: near}
    with pytest.raises(UsageError) as raised:
        require_matched(["pyyaml", name], NAMES)
    assert f"no lock has a package {name}, before or now" in raised.value.what
    assert raised.value.where == "--allow"
    assert ("did you mean" in raised.value.next_step) == bool(near)
    assert all(one in raised.value.next_step for one in near)
