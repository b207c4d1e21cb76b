"""Caches of keys and values that are divided into blocks."""

from __future__ import annotations

import torch


def written(cache: torch.Tensor, tokens: torch.Tensor, slots: torch.Tensor, *, apart: bool = False) -> torch.Tensor:
    """Return a cache after tokens were written to it (Kwon et al. 2023, arXiv:2309.06180, section 4.1).

    Args:
        cache: (blocks, heads, tokens of a block, head size), or without heads.
        tokens: (tokens, heads, head size), or without heads.
        slots: (tokens,): block * tokens of a block + place in the block; a token whose slot is negative is left out.
        apart: Whether the memory of a block and head holds the first element of all its tokens, then the second, as
            that of keys does.
    """
    block = cache.shape[-2]
    found = cache.clone()
    if apart:
        found = found.reshape(*cache.shape[:-2], cache.shape[-1], block).mT
    for token, slot in zip(tokens, slots.tolist(), strict=True):
        if slot >= 0:
            found[slot // block, ..., slot % block, :] = token
    return (found.mT if apart else found).reshape(cache.shape)
