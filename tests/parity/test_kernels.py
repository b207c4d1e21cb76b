"""A first set of kernels against their definitions in float64."""

import math

import pytest
import torch

DTYPES = [torch.float32, torch.bfloat16, torch.float16]
# Sizes around the vector widths (16 float32 or 32 bfloat16 in 512 bits) and at real models' hidden sizes.
SHAPES = [(1, 16), (3, 64), (7, 80), (5, 1024), (2, 4096)]
# Relative to the largest result: rounding of the stored result, plus accumulation in float32 over a row.
TOLERANCE = {torch.float32: 2e-5, torch.bfloat16: 1.6e-2, torch.float16: 2e-3}


def agree(got: torch.Tensor, wanted: torch.Tensor) -> None:
    error = (got.double() - wanted.double()).abs().max().item()
    scale = max(wanted.double().abs().max().item(), 1e-6)
    assert error <= TOLERANCE[got.dtype] * scale, f"error {error} at scale {scale}"


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_rms_norm(ops, dtype: torch.dtype, shape: tuple[int, int]) -> None:
    """Zhang & Sennrich 2019: x / sqrt(mean(x^2) + eps) * weight."""
    x, weight = torch.randn(shape).to(dtype), torch.randn(shape[1]).to(dtype)
    out = torch.empty_like(x)
    ops.rms_norm(out, x, weight, 1e-6)
    wide = x.double()
    agree(out, wide / (wide.pow(2).mean(-1, keepdim=True) + 1e-6).sqrt() * weight.double())


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_fused_add_rms_norm(ops, dtype: torch.dtype, shape: tuple[int, int]) -> None:
    """The residual becomes x + residual; x becomes its RMS norm."""
    x, residual = torch.randn(shape).to(dtype), torch.randn(shape).to(dtype)
    weight = torch.randn(shape[1]).to(dtype)
    total = x.double() + residual.double()
    ops.fused_add_rms_norm(x, residual, weight, 1e-6)
    agree(residual, total)
    agree(x, total / (total.pow(2).mean(-1, keepdim=True) + 1e-6).sqrt() * weight.double())


def gelu(x: torch.Tensor) -> torch.Tensor:
    return 0.5 * x * (1 + torch.erf(x / math.sqrt(2)))


def gelu_tanh(x: torch.Tensor) -> torch.Tensor:
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


GATED = {"silu_and_mul": lambda x: x * torch.sigmoid(x), "gelu_and_mul": gelu, "gelu_tanh_and_mul": gelu_tanh}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", GATED)
def test_gated_activations(ops, name: str, dtype: torch.dtype, shape: tuple[int, int]) -> None:
    """Shazeer 2020, GLU variants: act(first half) * second half."""
    x = torch.randn(shape[0], 2 * shape[1]).to(dtype)
    out = torch.empty(shape, dtype=dtype)
    getattr(ops, name)(out, x)
    first, second = x.double().chunk(2, dim=-1)
    agree(out, GATED[name](first) * second)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("is_neox", [True, False])
def test_rotary_embedding(ops, dtype: torch.dtype, is_neox: bool) -> None:
    """Su et al. 2021: each pair of components is turned by position * base^(-2i/d)."""
    tokens, heads, size = 5, 4, 64
    positions = torch.tensor([0, 1, 7, 31, 63])
    angles = torch.arange(64).double()[:, None] / 10000 ** (torch.arange(0, size, 2).double() / size)
    cache = torch.cat([angles.cos(), angles.sin()], dim=-1).to(dtype)
    query = torch.randn(tokens, heads * size).to(dtype)
    key = torch.randn(tokens, heads * size).to(dtype)
    cos, sin = cache[positions].double().chunk(2, dim=-1)

    def turned(x: torch.Tensor) -> torch.Tensor:
        wide = x.double().view(tokens, heads, size)
        if is_neox:
            a, b = wide.chunk(2, dim=-1)
        else:
            a, b = wide[..., 0::2], wide[..., 1::2]
        one, two = a * cos[:, None] - b * sin[:, None], b * cos[:, None] + a * sin[:, None]
        joined = torch.cat([one, two], -1) if is_neox else torch.stack([one, two], -1).flatten(-2)
        return joined.view(tokens, heads * size)

    wanted = turned(query), turned(key)
    ops.rotary_embedding(positions, query, key, size, cache, is_neox, 0, False)
    agree(query, wanted[0])
    agree(key, wanted[1])


@pytest.mark.parametrize("rows", [1, 15, 33])
@pytest.mark.parametrize("with_bias", [True, False])
def test_onednn_matmul(ops, rows: int, with_bias: bool) -> None:
    """oneDNN's matmul behind a handler: a @ b + bias."""
    a, b = torch.randn(rows, 96), torch.randn(80, 96).t()
    bias = torch.randn(80) if with_bias else None
    handler = ops.create_onednn_mm_handler(b, 16)
    out = torch.empty(rows, 80)
    ops.onednn_mm(out, a, bias, torch.tensor(handler))
    ops.release_dnnl_matmul_handler(handler)
    agree(out, a.double() @ b.double() + (0 if bias is None else bias.double()))


def test_errors_cross_into_python(ops) -> None:
    """A failed check in the kernel is an exception, not a crash: the C++ run times agree."""
    with pytest.raises(RuntimeError):
        ops.rms_norm(torch.empty(2, 8), torch.randn(2, 8), torch.randn(9, 9, 9).to(torch.int32), "no")


def test_isa_questions_are_answered(ops) -> None:
    """The library tells what it was built for."""
    assert isinstance(ops.cpu_attn_has_isa("vec"), bool)
