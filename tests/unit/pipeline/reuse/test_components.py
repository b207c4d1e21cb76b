"""The licences of a wheel whose kernels are used come out of that wheel."""

from __future__ import annotations

import hashlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cpuwheels.core.errors import PrecompiledError
from cpuwheels.core.store import Store
from cpuwheels.pipeline.reuse.components import donated_components
from wheel_notes import wheel_note
from wheel_writer import INFO, write_good

TEXT = "third-party/numactl/copyright"
NOTE = wheel_note(
    components=[
        {
            "name": "numactl",
            "version": "2",
            "license": "LGPL-2.1-only",
            "digest": "d",
            "libraries": ["libnuma.so.1"],
            "texts": {TEXT: hashlib.sha256(b"terms").hexdigest()},
        }
    ]
)


def donor(folder: Path, text: bytes | None) -> Any:
    members = {} if text is None else {f"{INFO}/licenses/{TEXT}": text}
    wheel = write_good(folder, "vllm-1.0-cp38-abi3-manylinux_2_28_x86_64.whl", **members)
    return SimpleNamespace(
        wheel=wheel, note=NOTE, origin="there", sha256=hashlib.sha256(wheel.read_bytes()).hexdigest()
    )


def test_they_are_as_the_note_lists_them(tmp_path: Path) -> None:
    found = donated_components(donor(tmp_path, b"terms"), Store(tmp_path / "store"))
    assert [(one.name, one.libraries) for one in found.listed] == [("numactl", ("libnuma.so.1",))]
    assert (found.folder / TEXT).read_bytes() == b"terms"


@pytest.mark.parametrize("text", [None, b"other terms"])
def test_a_wheel_without_what_it_lists_is_refused(tmp_path: Path, text: bytes | None) -> None:
    with pytest.raises(PrecompiledError, match=f"does not have the licence {TEXT}"):
        donated_components(donor(tmp_path, text), Store(tmp_path / "store"))
