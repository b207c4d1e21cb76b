"""How much memory the cache of keys and values needs, as vLLM lays it out: in blocks, shared by groups of layers."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

from cpuwheels.core.models import Strict
from cpuwheels.doctor.runtime.model import BYTES

if TYPE_CHECKING:
    from cpuwheels.doctor.runtime.model import DType, Model

GIB = 1 << 30

BATCHED_TOKENS = 2048
"""``--max-num-batched-tokens`` of a server on a CPU, for each worker (vllm/engine/arg_utils.py)."""

_ABOUT_EQUAL = 1.5
"""Kinds of layers whose numbers differ by less are padded to the same number."""


class KvCache(Strict):
    """The cache of one worker."""

    block_size: int
    """Tokens in a block."""
    block_bytes: int
    """Bytes that a block takes in all layers of a group."""
    blocks_per_request: int
    """Blocks that a request of the full length holds."""
    requests: int
    length: int
    """Tokens of the longest request."""

    @property
    def bytes(self) -> int:
        """Bytes of the blocks of all requests."""
        return self.requests * self.blocks_per_request * self.block_bytes

    @property
    def gib(self) -> int:
        """What ``VLLM_CPU_KVCACHE_SPACE`` has to be: it takes whole GiB."""
        return max(1, ceil(self.bytes / GIB))

    def tokens_in(self, size: int) -> int:
        """Return how many tokens of full requests fit into some bytes, as vLLM logs it when it starts."""
        return int(size // self.block_bytes / self.blocks_per_request * self.length)


def kv_cache(model: Model, dtype: DType, *, length: int, requests: int, block_size: int, workers: int) -> KvCache:
    """Return the cache that some requests need.

    A token takes layers x heads x size of a head x bytes of a number, once for its key and once for its value; of
    latent attention one vector for both. Whole blocks are taken. Layers with a window keep the blocks of the window and
    of the tokens being computed. Where a model has layers of both kinds, vLLM divides them into groups of as many
    layers, and all groups take their blocks from one pool (``_get_kv_cache_groups_uniform_page_size`` in
    vllm/v1/core/kv_cache_utils.py).

    Args:
        model: The model.
        dtype: Data type of the cache.
        length: Tokens of the longest request.
        requests: Requests of that length at the same time.
        block_size: Tokens in a block.
        workers: Workers that the heads are divided among.
    """
    kv_heads = model.kv_heads if model.mla else max(1, model.kv_heads // workers)
    numbers = model.head_size if model.mla else 2 * model.head_size
    page = kv_heads * block_size * numbers * BYTES[dtype]
    whole = ceil(length / block_size)
    windowed = 0
    if model.window is not None:
        windowed = ceil(min(model.window - 1 + BATCHED_TOKENS * workers, length) / block_size) + 1
    size, full_groups, window_groups = _groups(model.full_layers, model.window_layers)
    blocks = full_groups * whole + window_groups * windowed
    return KvCache(
        block_size=block_size, block_bytes=page * size, blocks_per_request=blocks, requests=requests, length=length
    )


def _groups(full: int, windowed: int) -> tuple[int, int, int]:
    """Return how many layers a group has, and how many groups there are of each kind."""
    kinds = [count for count in (full, windowed) if count]
    if len(kinds) < 2:  # noqa: PLR2004  (one kind, one group)
        return max(kinds, default=1), int(full > 0), int(windowed > 0)
    size = max(kinds) if max(kinds) < _ABOUT_EQUAL * min(kinds) else min(kinds)
    return size, ceil(full / size), ceil(windowed / size)
