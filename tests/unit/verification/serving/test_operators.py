"""Operators of libraries, with a loader that stands for torch's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Self

import pytest

from cpuwheels.core.errors import InstallCheckError
from cpuwheels.core.process import Completed
from cpuwheels.verification.load.loader import Loaded, Module
from cpuwheels.verification.serving import operators
from cpuwheels.verification.serving.operators import library_operators


class FakeLoader:
    """Loads what is called good; each registers an operator of its own name."""

    def __init__(self, make: Callable[[], Path], *_: object) -> None:
        assert make() == Path("python")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def load(self, modules: Sequence[Module]) -> dict[Path, Loaded]:
        assert {module.kind for module in modules} == {"library"}
        return {
            module.path: Loaded(
                Completed(-4 if "bad" in module.path.name else 0, ""), "2.13.0", ((module.path.name, ""),)
            )
            for module in modules
        }


def test_each_library_has_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operators, "Loader", FakeLoader)
    libraries = {"_C": "vllm/one.so", "_C_AVX2": "vllm/two.so"}
    found = library_operators(Path("python"), tmp_path, libraries, tmp_path, tmp_path / "log")
    assert found == {"_C": {"one.so"}, "_C_AVX2": {"two.so"}}


def test_one_that_cannot_be_loaded_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operators, "Loader", FakeLoader)
    with pytest.raises(InstallCheckError, match="_C cannot be loaded"):
        library_operators(Path("python"), tmp_path, {"_C": "vllm/bad.so"}, tmp_path, tmp_path / "log")
