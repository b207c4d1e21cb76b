"""Quantisation of activations to 8-bit floating point, which vLLM has from 0.33 on; before, it is refused."""

from __future__ import annotations

import math
from typing import Any

import torch

from harness.case import Call, cases, refused
from harness.draw import Draw
from harness.expected import Exact, Expected, Near
from harness.ranks import run_ranks, shared
from oracles import fp8_quantisation as oracle

DTYPES = [torch.float32, torch.bfloat16, torch.float16]
FORMATS = [torch.float8_e4m3fn, torch.float8_e5m2]
# Kernels take 16 elements at a time. 4096 and 14336 are Llama 3 8B's, 7168 DeepSeek V3's.
SHAPES = [(0, 16), (1, 1), (3, 15), (2, 16), (3, 17), (5, 31), (7, 97), (33, 64), (3, 7168), (2, 14336)]
# These of them do not have every combination of the other parameters.
PLAIN = [shape for shape in SHAPES if shape not in [(2, 16), (3, 17), (7, 97)]]
DEEP = {"shape": lambda st: st.tuples(st.integers(0, 9), st.integers(1, 300))}
STATIC, ROWS = "static_scaled_fp8_quant", "dynamic_per_token_scaled_fp8_quant"
TAKES = ["result"]
SCALE = 0.0231


def place(draw: Draw, x: torch.Tensor, *, padded: bool) -> torch.Tensor:
    """Return the input where a kernel may look at, but not use, what lies behind each row."""
    return draw.strided(x, padding=19) if padded else draw.guarded(x)


def room(draw: Draw, shape: tuple[int, ...], out: torch.dtype, *, padded: bool) -> torch.Tensor:
    """Return the output, whose rows may be parts of wider ones."""
    whole = draw.output(shape, out)
    return draw.strided(whole, padding=16) if padded else whole


def _static(
    library: Any, out: torch.Tensor, x: torch.Tensor, scale: torch.Tensor, each: torch.Tensor, group: Any = None
) -> Call:
    """Return the call; ``each`` is what elements are divided by."""

    def run() -> dict[str, torch.Tensor]:
        library.static_scaled_fp8_quant(out, x, scale, group)
        return {"out": out}

    return Call(run, lambda: {"out": oracle.quantise(x.double(), each.double(), out.dtype)})


@cases(
    STATIC,
    takes=TAKES,
    dtype=DTYPES,
    out=FORMATS,
    shape=SHAPES,
    # Ordinary; so small that most is limited; so large that most is subnormal.
    scale=[SCALE, 1e-5, 300.0],
    padded=[False, True],
    where=lambda shape, scale, padded, **_: (scale != SCALE) + padded <= (shape not in PLAIN),
    deep=DEEP,
)
def static_scaled_fp8_quant(
    library: Any,
    draw: Draw,
    *,
    dtype: torch.dtype,
    out: torch.dtype,
    shape: tuple[int, int],
    scale: float,
    padded: bool,
) -> Call:
    """One scale for all."""
    x = place(draw, draw.normal(shape, dtype), padded=padded)
    given = torch.tensor(scale) if padded else torch.tensor([scale])
    return _static(library, room(draw, shape, out, padded=padded), x, given, given)


@cases(
    STATIC,
    takes=TAKES,
    dtype=DTYPES,
    out=FORMATS,
    # Of one dimension with the group's shape, where -1 is all; of two dimensions, which may lie by columns.
    kind=["rows", "columns", "parts", "pairs_of_rows", "blocks", "blocks_by_column"],
    shape=[(2, 32), (6, 96), (4, 1024)],
)
def static_scaled_fp8_quant_groups(
    library: Any, draw: Draw, *, dtype: torch.dtype, out: torch.dtype, kind: str, shape: tuple[int, int]
) -> Call:
    """Rows, columns, or blocks of them have a scale each."""
    rows, columns = shape
    counts = {"rows": (rows, 1), "columns": (1, columns), "parts": (1, columns // 16), "pairs_of_rows": (rows // 2, 1)}
    scales = draw.uniform(counts.get(kind, (rows // 2, columns // 16)), 0.01, 0.1)
    group = {"rows": [1, -1], "columns": [-1, 1], "parts": [-1, 16], "pairs_of_rows": [2, -1]}.get(kind)
    given = scales.flatten() if group else scales.t().contiguous().t() if kind == "blocks_by_column" else scales
    x = draw.guarded(draw.normal(shape, dtype))
    return _static(library, draw.output(shape, out), x, given, oracle.wide(scales, shape), group)


@cases(STATIC, takes=TAKES, dtype=DTYPES, out=FORMATS)
def static_scaled_fp8_quant_extreme(library: Any, draw: Draw, *, dtype: torch.dtype, out: torch.dtype) -> Call:
    """All magnitudes, infinities, and what is not a number."""
    x = draw.extremes((4, 83), dtype)
    x[1, 3], x[2, 82], x[3, 5], x[3, 80] = torch.inf, -torch.inf, torch.nan, torch.nan
    scale = torch.tensor([0.5])
    return _static(library, draw.output((4, 83), out), draw.guarded(x), scale, scale)


@cases(STATIC, takes=TAKES, dims=[3, 4])
def static_scaled_fp8_quant_batches(library: Any, draw: Draw, *, dims: int) -> Call:
    """Rows of more than two dimensions, and a longer output, whose rest stays as it is."""
    x = draw.normal((2,) * (dims - 2) + (3, 40))
    out = torch.zeros(x[..., 0].numel() + 2, 40).to(torch.float8_e4m3fn)
    scale = torch.tensor([SCALE])

    def run() -> dict[str, torch.Tensor]:
        library.static_scaled_fp8_quant(out, x, scale, None)
        return {"out": out}

    def expected() -> dict[str, Expected]:
        rows = torch.cat([x.double().flatten(0, -2), torch.zeros(2, 40)])
        return {"out": oracle.quantise(rows, scale.double(), out.dtype)}

    return Call(run, expected)


@cases(
    ROWS,
    takes=TAKES,
    dtype=DTYPES,
    out=FORMATS,
    shape=SHAPES,
    scale=[1.0, 1e-9, 1e4],
    padded=[False, True],
    bound=[None, 1.5],
    where=lambda dtype, shape, scale, padded, bound, **_: (
        (dtype != torch.float16 or scale != 1e-9)
        and (scale != 1.0) + padded + (bound is not None) <= (shape not in PLAIN)
    ),
    deep=DEEP,
)
def dynamic_per_token_scaled_fp8_quant(
    library: Any,
    draw: Draw,
    *,
    dtype: torch.dtype,
    out: torch.dtype,
    shape: tuple[int, int],
    scale: float,
    padded: bool,
    bound: float | None,
) -> Call:
    """A scale for each row, from its largest absolute value; the second row is zero."""
    values = draw.normal(shape, dtype, scale)
    values[1:2] = 0
    return _rows(library, draw, place(draw, values, padded=padded), room(draw, shape, out, padded=padded), bound)


@cases(ROWS, takes=TAKES, dtype=DTYPES, out=FORMATS, value=[math.inf, -math.inf, math.nan], column=[3, 36])
def dynamic_per_token_scaled_fp8_quant_special(
    library: Any, draw: Draw, *, dtype: torch.dtype, out: torch.dtype, value: float, column: int
) -> Call:
    """What is not a number does not count for the scale, and infinity is limited by the bound."""
    x = draw.normal((3, 37), dtype)
    x[1, column] = value
    return _rows(library, draw, draw.guarded(x), draw.output(x.shape, out), 2.0)


def _rows(library: Any, draw: Draw, x: torch.Tensor, out: torch.Tensor, bound: float | None) -> Call:
    scales = draw.output((len(x), 1), torch.float32)
    # The least scale belongs to the operator: 1 / (largest * 512), as in vLLM's kernels for GPUs.
    least = 1 / (oracle.LARGEST[out.dtype] * 512)

    def run() -> dict[str, torch.Tensor]:
        library.dynamic_per_token_scaled_fp8_quant(out, x, scales, None if bound is None else torch.tensor([bound]))
        return {"out": out, "scales": scales}

    def expected() -> dict[str, Expected]:
        exact = oracle.row_scales(x.double(), out.dtype, bound, least)
        return {"out": oracle.quantise(x.double(), exact, out.dtype), "scales": Near(exact)}

    return Call(run, expected)


WRONG = ["integers", "one_dimension", "columns_apart", "out_columns", "out_rows", "out_type", "scale_type"]


@cases(STATIC, takes=TAKES, wrong=[*WRONG, "scale_3d", "no_group", "group_rows", "group_columns", "scale_2d", "few"])
def static_scaled_fp8_quant_refused(library: Any, draw: Draw, *, wrong: str) -> Call:
    """Types, layouts, and groups that do not fit."""
    x, out, scale = _wrong(draw, wrong, torch.tensor([0.1]))
    group = {"group_rows": [3, -1], "group_columns": [-1, 5], "few": [1, -1]}.get(wrong)
    given = {
        "scale_3d": torch.ones(1, 1, 1),
        "no_group": torch.ones(4),
        "group_rows": torch.ones(2),
        "group_columns": torch.ones(6),
        "scale_2d": torch.ones(3, 1),
        "few": torch.ones(3),
    }.get(wrong, scale)
    return refused(lambda: library.static_scaled_fp8_quant(out, x, given, group))


@cases(ROWS, takes=TAKES, wrong=[*WRONG, "few_scales", "bounds"])
def dynamic_per_token_scaled_fp8_quant_refused(library: Any, draw: Draw, *, wrong: str) -> Call:
    """Types, layouts, and numbers of scales that do not fit."""
    x, out, scale = _wrong(draw, wrong, draw.output((3 if wrong == "few_scales" else 4, 1), torch.float32))
    bound = torch.ones(2) if wrong == "bounds" else None
    return refused(lambda: library.dynamic_per_token_scaled_fp8_quant(out, x, scale, bound))


def _wrong(draw: Draw, wrong: str, scale: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return an input, an output and a scale of which something is wrong."""
    x, out = draw.normal((4, 32)), draw.output((4, 32), torch.float8_e4m3fn)
    match wrong:
        case "integers":
            x = x.int()
        case "one_dimension":
            x, out = x[0], out[0]
        case "columns_apart":
            x = draw.normal((32, 4)).t()
        case "out_columns":
            out = draw.output((4, 48), out.dtype)
        case "out_rows":
            out = draw.output((3, 32), out.dtype)
        case "out_type":
            out = draw.output((4, 32), torch.int8)
        case "scale_type":
            scale = scale.double()
    return x, out, scale


@cases(STATIC, takes=TAKES)
def static_scaled_fp8_quant_batches_apart(library: Any, draw: Draw) -> Call:
    """Batches of rows that are parts of larger ones, as a slice of the middle dimension has them."""
    x = draw.normal((2, 5, 32))[:, :3]
    out, scale = draw.output((6, 32), torch.float8_e4m3fn), torch.tensor([SCALE])

    def run() -> dict[str, torch.Tensor]:
        library.static_scaled_fp8_quant(out, x, scale, None)
        return {"out": out}

    return Call(run, lambda: {"out": oracle.quantise(x.double().flatten(0, 1), scale.double(), out.dtype)})


@cases(STATIC, ROWS, takes=TAKES, rows=[0, 2], bounded=[False, True])
def scaled_fp8_quant_no_columns(library: Any, draw: Draw, *, rows: int, bounded: bool) -> Call:
    """No columns give no elements, and each row the least scale, in processes of their own: it may be their end."""
    x, out = torch.empty(rows, 0), torch.empty(rows, 0, dtype=torch.float8_e4m3fn)
    scales, bound = shared(draw.output((rows, 1), torch.float32)), torch.ones(1) if bounded else None

    def run() -> dict[str, torch.Tensor]:
        bodies = (
            lambda: library.static_scaled_fp8_quant(out, x, torch.ones(1), None),
            lambda: library.dynamic_per_token_scaled_fp8_quant(out, x, scales, bound),
        )
        for body in bodies:
            run_ranks(library, [body])
        return {"out": out, "scales": scales}

    least = torch.full((rows, 1), 1 / (oracle.LARGEST[out.dtype] * 512))  # as of rows of zeros
    return Call(run, lambda: {"out": Exact(out), "scales": Exact(least)})
