"""Attention over chosen latent vectors that serve as keys and values of all heads."""

from __future__ import annotations

import torch

from harness.expected import Near


def attend(query: torch.Tensor, latents: torch.Tensor, valid: torch.Tensor, sink: torch.Tensor, scale: float) -> Near:
    """Return softmax(scale q K^T) K, with one more logit for each head that takes part in the softmax alone.

    Sources: multi-query attention (Shazeer 2019, arXiv:1911.02150) over multi-head latent attention's vectors
    (DeepSeek-AI 2024, DeepSeek-V2, arXiv:2405.04434, section 2.1), with an attention sink.

    The magnitude is the root of the sum of the squares of the terms, as roundings of random sign and of one term each
    add up (Hoeffding 1963, as in Higham & Mary 2019).

    Args:
        query: float64, (tokens, heads, size).
        latents: float64, (tokens, vectors, size).
        valid: (tokens, vectors): which of them take part.
        sink: float64, (heads,).
        scale: Of the logits.
    """
    logits = (torch.einsum("thd,tnd->thn", query, latents) * scale).masked_fill(~valid[:, None], -torch.inf)
    sinks = sink[:, None].expand(len(query), -1, -1)
    weights = torch.softmax(torch.cat([logits, sinks], -1), -1)[..., :-1]
    return Near(weights @ latents, (weights.square() @ latents.square()).sqrt(), latents.shape[1])
