from __future__ import annotations

import py_compile
from typing import TYPE_CHECKING

from cpuwheels.environment.bytecode import link_bytecode

if TYPE_CHECKING:
    from pathlib import Path


def compiled(site: Path, name: str, text: str = "a = 1\n") -> Path:
    path = site / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    mode = py_compile.PycInvalidationMode.CHECKED_HASH
    found = py_compile.compile(str(path), invalidation_mode=mode, doraise=True)
    assert found is not None
    return path.parent / "__pycache__" / found.rsplit("/", 1)[-1]


def test_only_packages_that_both_have_are_linked(tmp_path: Path) -> None:
    both = compiled(tmp_path / "a", "both/sub/x.py")
    compiled(tmp_path / "a", "only/x.py")
    (tmp_path / "b/both/sub").mkdir(parents=True)
    link_bytecode(tmp_path / "a", tmp_path / "b")
    assert (tmp_path / "b/both/sub/__pycache__" / both.name).samefile(both)
    assert not (tmp_path / "b/only").exists()


def test_what_is_there_stays(tmp_path: Path) -> None:
    compiled(tmp_path / "a", "x.py")
    own = compiled(tmp_path / "b", "x.py", "a = 2\n")
    before = own.read_bytes()
    link_bytecode(tmp_path / "a", tmp_path / "b")
    assert own.read_bytes() == before
