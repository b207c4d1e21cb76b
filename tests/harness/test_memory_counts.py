"""What the cases of oneDNN count memory with."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from cases import onednn

SIZE = 64 << 20


@pytest.mark.parametrize("count", [onednn._of_malloc, onednn._of_process])
def test_memory_counts_until_it_is_freed(count: Callable[[], int]) -> None:
    before = count()
    held = torch.ones(SIZE // 4)
    assert count() - before == pytest.approx(SIZE, rel=0.1)
    del held
    assert abs(count() - before) < SIZE / 10


def test_where_malloc_does_not_count_the_process_does(monkeypatch: pytest.MonkeyPatch) -> None:
    assert onednn._counts() is onednn._of_malloc
    monkeypatch.setattr(onednn, "_of_malloc", lambda: 1 << 30)  # as that of a sanitizer, which glibc knows nothing of
    assert onednn._counts() is onednn._of_process
