"""Which targets have an allocator, and what names it; compiling it is in tests/integration/test_tcmalloc_real.py."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from contexts import build_context
from cpuwheels.config.matrix import load_matrix
from cpuwheels.core.errors import DownloadError
from cpuwheels.kernels.tcmalloc import get_tcmalloc, tcmalloc_digest
from kernel_request import TARGET, kernel_request
from layout import ROOT

MATRIX = load_matrix(ROOT)
UNASKED: Any = None  # would fail if it were called


def test_every_target_where_vllm_preloads_it_has_one() -> None:
    assert {target.id for target in MATRIX.targets if tcmalloc_digest(MATRIX, target)} == {"x86", "arm", "s390x"}


def test_its_sources_name_it() -> None:
    assert MATRIX.gperftools is not None
    other = MATRIX.model_copy(update={"gperftools": MATRIX.gperftools.model_copy(update={"sha256": "0" * 64})})
    renamed = MATRIX.model_copy(update={"gperftools": MATRIX.gperftools.model_copy(update={"debian": "elsewhere"})})
    x86 = MATRIX.target("x86")
    assert tcmalloc_digest(other, x86) != tcmalloc_digest(MATRIX, x86) == tcmalloc_digest(renamed, x86)


def test_a_target_without_it_needs_neither_cap_nor_network(tmp_path: Path) -> None:
    context = build_context(tmp_path, TARGET, mirrors=("http://127.0.0.1:9",))
    assert get_tcmalloc(context, kernel_request(tmp_path), cap=UNASKED, cache=UNASKED) is None


def test_its_sources_are_fetched_before_anything_is_compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CPUWHEELS_DEBIAN_MIRROR", "http://127.0.0.1:9")
    target = TARGET.model_copy(update={"tcmalloc": True})
    context = build_context(tmp_path, target, mirrors=("http://127.0.0.1:9",))
    with pytest.raises(DownloadError, match="gperftools"):
        get_tcmalloc(context, kernel_request(tmp_path), cap=UNASKED, cache=UNASKED)
