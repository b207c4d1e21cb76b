"""Hyper-connections of DeepSeek V4: reading the residual's streams, writing them, and reading them at the end."""

from __future__ import annotations

from typing import Any

import torch

from harness.case import Call, cases, refused
from harness.draw import Draw
from harness.expected import Exact, Near
from oracles import hyper_connections

DTYPES = [torch.bfloat16, torch.float16]
# Tokens, streams, width. Kernels take 32 elements, 32 tokens and four logits at a time, and split streams * width into
# blocks of 128 to 1024. DeepSeek V4 has 4 streams of 4096 or 7168.
SIZES = [
    (1, 2, 1),
    (2, 3, 15),
    (1, 4, 16),
    (3, 5, 17),
    (33, 4, 31),
    (2, 8, 33),
    (31, 2, 32),
    (65, 3, 40),
    (17, 4, 100),
    (32, 6, 127),
    (5, 7, 64),
    (1, 4, 257),
    (2, 9, 300),
    (1, 4, 4096),
    (2, 4, 7168),
]
RMS_EPSILON = 1e-6


def _weights(draw: Draw, size: tuple[int, int, int], count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the weight of ``count`` logits, with which they are of order one, and their base."""
    inputs = size[1] * size[2]
    return draw.normal((count, inputs), scale=inputs**-0.5), draw.normal([count])


@cases(
    "hc_pre_fused_cpu",
    dtype=DTYPES,
    size=SIZES,
    # Iterations, and an epsilon: one as in models, and one that shows where it is added.
    sinkhorn=[(1, 1e-6), (2, 0.05), (20, 1e-6)],
    scale=[1.0, 1e-3, 0.0],
    # Softmax does not notice what is added to all logits; exp(200) is infinite.
    shift=[0.0, 200.0],
    where=lambda size, sinkhorn, scale, shift, **_: (
        (scale == 1.0 or (size[2] < 1000 and sinkhorn[0] == 20)) and (not shift or (scale == 1.0 and size[2] < 100))
    ),
    deep={"size": lambda st: st.tuples(st.integers(1, 40), st.integers(2, 9), st.integers(1, 300))},
)
def hc_pre_fused(
    library: Any,
    draw: Draw,
    *,
    dtype: torch.dtype,
    size: tuple[int, int, int],
    sinkhorn: tuple[int, float],
    scale: float,
    shift: float,
) -> Call:
    """Ordinary, small (where the norm's epsilon counts) and zero streams; large logits of the mixing."""
    _, streams, _ = size
    x = draw.normal(size, dtype, scale)
    weight, base = _weights(draw, size, (2 + streams) * streams)
    base[2 * streams :] += shift
    scales = draw.normal([3])
    iterations, epsilon = sinkhorn

    def run() -> dict[str, torch.Tensor]:
        y, post, mixing = library.hc_pre_fused_cpu(x, weight, scales, base, streams, iterations, RMS_EPSILON, epsilon)
        return {"y": y, "post": post, "mixing": mixing}

    def expected() -> dict[str, Near]:
        each = scales.double().repeat_interleave(torch.tensor([streams, streams, streams**2]))
        logit = hyper_connections.logits(x.double(), weight.double(), each, base.double(), RMS_EPSILON)
        assert logit.magnitude is not None
        counts = [streams, streams, streams**2]
        parts = zip(logit.value.split(counts, -1), logit.magnitude.split(counts, -1), strict=True)
        pre, post, mixing = (Near(value, magnitude) for value, magnitude in parts)
        square = (len(x), streams, streams)
        assert mixing.magnitude is not None
        mixing = Near(mixing.value.reshape(square), mixing.magnitude.reshape(square))
        return {
            "y": hyper_connections.read(hyper_connections.gates(pre, epsilon=epsilon), x.double()),
            "post": hyper_connections.gates(post, factor=2.0),
            "mixing": hyper_connections.doubly_stochastic(mixing, iterations, epsilon),
        }

    return Call(run, expected)


@cases("hc_pre_fused_cpu", size=[(1, 4, 300), (33, 4, 100)])
def hc_pre_fused_twice(library: Any, draw: Draw, *, size: tuple[int, int, int]) -> Call:
    """As many threads give the same bits again; one thread need not (see limits)."""
    x = draw.normal(size, torch.bfloat16)
    weight, base = _weights(draw, size, 24)
    arguments = (x, weight, draw.normal([3]), base, 4, 20, RMS_EPSILON, 1e-6)

    def run() -> dict[str, torch.Tensor]:
        first, second = library.hc_pre_fused_cpu(*arguments), library.hc_pre_fused_cpu(*arguments)
        return {"same": torch.tensor(all(torch.equal(one, other) for one, other in zip(first, second, strict=True)))}

    return Call(run, lambda: {"same": Exact(torch.tensor(True))})


@cases(
    "hc_head_fused_cpu",
    dtype=DTYPES,
    size=SIZES,
    epsilon=[1e-6, 0.05],
    scale=[1.0, 1e-3, 0.0],
    where=lambda size, epsilon, scale, **_: scale == 1.0 or (size[2] < 1000 and epsilon == 1e-6),
    deep={"size": lambda st: st.tuples(st.integers(1, 40), st.integers(2, 9), st.integers(1, 300))},
)
def hc_head_fused(
    library: Any, draw: Draw, *, dtype: torch.dtype, size: tuple[int, int, int], epsilon: float, scale: float
) -> Call:
    """The streams become one, with the gates of ``hc_pre`` alone."""
    x = draw.normal(size, dtype, scale)
    weight, base = _weights(draw, size, size[1])
    factor = draw.normal([1], scale=2.0)

    def run() -> dict[str, torch.Tensor]:
        return {"y": library.hc_head_fused_cpu(x, weight, factor, base, epsilon, RMS_EPSILON)}

    def expected() -> dict[str, Near]:
        logit = hyper_connections.logits(x.double(), weight.double(), factor.double(), base.double(), RMS_EPSILON)
        return {"y": hyper_connections.read(hyper_connections.gates(logit, epsilon=epsilon), x.double())}

    return Call(run, expected)


@cases(
    "hc_post_fused_cpu",
    dtype=DTYPES,
    size=SIZES,
    scale=[1.0, 300.0],
    deep={"size": lambda st: st.tuples(st.integers(1, 40), st.integers(2, 9), st.integers(1, 300))},
)
def hc_post_fused(library: Any, draw: Draw, *, dtype: torch.dtype, size: tuple[int, int, int], scale: float) -> Call:
    """The mixing matrix may be any; large ones overflow float16."""
    tokens, streams, width = size
    x, residual = draw.normal((tokens, width), dtype, scale), draw.normal(size, dtype, scale)
    post, mixing = draw.normal((tokens, streams), scale=scale), draw.normal((tokens, streams, streams), scale=scale)

    def run() -> dict[str, torch.Tensor]:
        return {"out": library.hc_post_fused_cpu(x, residual, post, mixing)}

    def expected() -> dict[str, Near]:
        return {"out": hyper_connections.write(x.double(), residual.double(), post.double(), mixing.double())}

    return Call(run, expected)


PROBLEMS = ["no tokens", "one stream", "float32", "weight", "base", "strided"]


def _wrong(draw: Draw, problem: str, streams: int, count: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return streams of width 8, the weight and the base of ``count`` logits, one of which is wrong."""
    x = draw.normal((0 if problem == "no tokens" else 2, streams, 8), torch.bfloat16)
    if problem == "float32":
        x = x.float()
    if problem == "strided":
        x = draw.strided(x)
    weight = draw.normal((count, streams * 8 - (problem == "weight")))
    return x, weight, draw.normal([count - (problem == "base")])


@cases("hc_pre_fused_cpu", problem=PROBLEMS)
def hc_pre_fused_unsupported(library: Any, draw: Draw, *, problem: str) -> Call:
    """Shapes and types that do not go together are refused."""
    streams = 1 if problem == "one stream" else 4
    x, weight, base = _wrong(draw, problem, streams, (2 + streams) * streams)
    scales = draw.normal([3])
    return refused(lambda: library.hc_pre_fused_cpu(x, weight, scales, base, streams, 2, 1e-6, 1e-6))


@cases("hc_head_fused_cpu", problem=PROBLEMS)
def hc_head_fused_unsupported(library: Any, draw: Draw, *, problem: str) -> Call:
    """Shapes and types that do not go together are refused."""
    streams = 1 if problem == "one stream" else 4
    x, weight, base = _wrong(draw, problem, streams, streams)
    factor = draw.normal([1])
    return refused(lambda: library.hc_head_fused_cpu(x, weight, factor, base, 1e-6, 1e-6))


@cases("hc_post_fused_cpu", problem=["no tokens", "one stream", "float32", "other type", "post", "mixing", "strided"])
def hc_post_fused_unsupported(library: Any, draw: Draw, *, problem: str) -> Call:
    """Shapes and types that do not go together are refused."""
    tokens, streams = 0 if problem == "no tokens" else 2, 1 if problem == "one stream" else 4
    residual, _, _ = _wrong(draw, problem, streams, 1)
    x = draw.normal((tokens, 8), torch.float16 if problem == "other type" else residual.dtype)
    post = draw.normal((tokens, streams + (problem == "post")))
    mixing = draw.normal((tokens, streams, streams + (problem == "mixing")))
    return refused(lambda: library.hc_post_fused_cpu(x, residual, post, mixing))
