"""Quantisation of activations to int8: with a scale that is given, and with one for each row."""

from __future__ import annotations

from typing import Any

import torch

from harness.case import Call, cases, refused
from harness.draw import Draw
from harness.expected import Exact, Expected
from oracles import int8_quantisation as oracle

DTYPES = [torch.float32, torch.bfloat16, torch.float16]
# Kernels take 16 elements at a time, and the rest with a mask. 4096 and 14336 are Llama 3 8B's, 5120 Qwen 3 32B's.
SHAPES = [(0, 16), (1, 1), (3, 15), (2, 16), (3, 17), (5, 31), (4, 32), (3, 33), (7, 97), (3, 5120), (2, 14336)]
# These of them do not have every combination of the other parameters.
PLAIN = [shape for shape in SHAPES if shape not in [(2, 16), (3, 17), (7, 97)]]
# Rows of ordinary values, and so small and so large that a product of two of them is no number of float32.
SCALES = {torch.float32: [1.0, 1e-30, 1e30], torch.bfloat16: [1.0, 1e-30, 1e30], torch.float16: [1.0, 1e-3, 1e3]}
REFUSED = ["out_apart", "columns_apart", "three_dimensions", "integers"]


def place(draw: Draw, x: torch.Tensor, *, padded: bool) -> torch.Tensor:
    """Return the input where a kernel may look at, but not use, what lies behind each row."""
    return draw.strided(x, padding=19) if padded else draw.guarded(x)


def wide(out: torch.Tensor) -> torch.Tensor:
    """Return int8 as int16, so that -128 and 127 are numbers like others, which -127 is not as good as."""
    return out.to(torch.int16)


@cases(
    "static_scaled_int8_quant",
    dtype=DTYPES,
    shape=SHAPES,
    zero_point=[None, -128, 3, 127],
    scale=[0.0231, 1e-5, 3.7],
    padded=[False, True],
    where=lambda shape, zero_point, scale, padded, **_: (
        (scale != 0.0231) + padded + (zero_point not in (None, 3)) <= (shape not in PLAIN)
    ),
    deep={"shape": lambda st: st.tuples(st.integers(0, 9), st.integers(1, 300))},
)
def static_scaled_int8_quant(
    library: Any,
    draw: Draw,
    *,
    dtype: torch.dtype,
    shape: tuple[int, int],
    zero_point: int | None,
    scale: float,
    padded: bool,
) -> Call:
    """One scale for all: ordinary, so small that nearly all is limited, and large."""
    x = place(draw, draw.normal(shape, dtype), padded=padded)
    out = draw.output(shape, torch.int8)
    step = torch.tensor([scale])
    offset = None if zero_point is None else torch.tensor([zero_point], dtype=torch.int32)

    def run() -> dict[str, torch.Tensor]:
        library.static_scaled_int8_quant(out, x, step, offset)
        return {"out": wide(out)}

    return Call(run, lambda: {"out": oracle.quantise(x.double(), step.double(), zero_point or 0.0)})


@cases("static_scaled_int8_quant", dtype=DTYPES, zero_point=[None, -100])
def static_scaled_int8_quant_extreme(library: Any, draw: Draw, *, dtype: torch.dtype, zero_point: int | None) -> Call:
    """All magnitudes, and infinity."""
    x = draw.extremes((3, 80), dtype)
    x[1, 3], x[2, 79] = torch.inf, -torch.inf
    out = draw.output(x.shape, torch.int8)
    scale = torch.tensor([0.5])
    offset = None if zero_point is None else torch.tensor([zero_point], dtype=torch.int32)

    def run() -> dict[str, torch.Tensor]:
        library.static_scaled_int8_quant(out, x, scale, offset)
        return {"out": wide(out)}

    return Call(run, lambda: {"out": oracle.quantise(x.double(), scale.double(), zero_point or 0.0)})


def halves(dtype: torch.dtype) -> torch.Tensor:
    """Return the multiples of 1/2 from -127 to 127, in one row."""
    return (torch.arange(-254, 255) / 2).to(dtype)[None]


@cases("static_scaled_int8_quant", dtype=DTYPES)
def static_scaled_int8_quant_ties(library: Any, draw: Draw, *, dtype: torch.dtype) -> Call:
    """What lies between two integers becomes the even one (IEEE 754, 4.3.1), as with every other vLLM backend."""
    x = halves(dtype) / 4
    out = draw.output(x.shape, torch.int8)

    def run() -> dict[str, torch.Tensor]:
        library.static_scaled_int8_quant(out, draw.guarded(x), torch.tensor([0.25]), None)
        return {"out": out}

    return Call(run, lambda: {"out": Exact((x * 4).double().round().to(torch.int8))})


@cases(
    "dynamic_scaled_int8_quant",
    dtype=DTYPES,
    shape=SHAPES,
    scale=sorted({scale for scales in SCALES.values() for scale in scales}),
    padded=[False, True],
    where=lambda dtype, shape, scale, padded: (
        scale in SCALES[dtype] and (scale != 1.0) + padded <= (shape not in PLAIN)
    ),
    deep={"shape": lambda st: st.tuples(st.integers(0, 9), st.integers(1, 300))},
)
def dynamic_scaled_int8_quant(
    library: Any, draw: Draw, *, dtype: torch.dtype, shape: tuple[int, int], scale: float, padded: bool
) -> Call:
    """A scale for each row, from its largest absolute value."""
    x = place(draw, draw.normal(shape, dtype, scale), padded=padded)
    out, scales = draw.output(shape, torch.int8), draw.output((shape[0], 1), torch.float32)

    def run() -> dict[str, torch.Tensor]:
        library.dynamic_scaled_int8_quant(out, x, scales, None)
        return {"out": wide(out), "scale": scales}

    def expected() -> dict[str, Expected]:
        exact = oracle.symmetric_scale(x.double())
        return {"out": oracle.quantise(x.double(), exact.value), "scale": exact}

    return Call(run, expected)


def without_ties(x: torch.Tensor) -> torch.Tensor:
    """Leave out rows whose zero point is so close to the middle of two integers that it may be either."""
    exact = oracle.range_zero_point(x.double()).value
    return x[((exact - exact.floor() - 0.5).abs() > 1e-3).flatten()]


@cases(
    "dynamic_scaled_int8_quant",
    dtype=DTYPES,
    shape=[shape for shape in SHAPES if shape[1] > 1],
    # Means of rows, in standard deviations: with 9 the zero point is far below -128.
    mean=[0.0, -1.5, 9.0],
    padded=[False, True],
    where=lambda shape, mean, padded, **_: (mean != 0.0) + padded <= (shape not in PLAIN),
    deep={"shape": lambda st: st.tuples(st.integers(0, 9), st.integers(2, 300))},
)
def dynamic_scaled_int8_quant_with_zero_points(
    library: Any, draw: Draw, *, dtype: torch.dtype, shape: tuple[int, int], mean: float, padded: bool
) -> Call:
    """A scale and a zero point for each row, from its smallest and its largest value."""
    x = place(draw, without_ties((draw.normal(shape) + mean).to(dtype)), padded=padded)
    out = draw.output(x.shape, torch.int8)
    scales, offsets = draw.output((len(x), 1), torch.float32), draw.output((len(x), 1), torch.int32)

    def run() -> dict[str, torch.Tensor]:
        library.dynamic_scaled_int8_quant(out, x, scales, offsets)
        return {"out_with_zero_point": wide(out), "range_scale": scales, "zero_point": offsets}

    def expected() -> dict[str, Expected]:
        exact, offset = oracle.range_scale(x.double()), oracle.range_zero_point(x.double())
        return {
            "out_with_zero_point": oracle.quantise(x.double(), exact.value, offset.value.round()),
            "range_scale": exact,
            "zero_point": offset,
        }

    return Call(run, expected)


@cases("dynamic_scaled_int8_quant", dtype=DTYPES)
def dynamic_scaled_int8_quant_ties(library: Any, draw: Draw, *, dtype: torch.dtype) -> Call:
    """With 127 in the row the scale is 1, and what lies between two integers becomes the even one."""
    x = halves(dtype)
    out, scales = draw.output(x.shape, torch.int8), draw.output((1, 1), torch.float32)

    def run() -> dict[str, torch.Tensor]:
        library.dynamic_scaled_int8_quant(out, draw.guarded(x), scales, None)
        return {"out": out, "scale": scales}

    return Call(run, lambda: {"out": Exact(x.double().round().to(torch.int8)), "scale": Exact(torch.ones(1, 1))})


@cases("dynamic_scaled_int8_quant", dtype=DTYPES)
def dynamic_scaled_int8_quant_zeros(library: Any, draw: Draw, *, dtype: torch.dtype) -> Call:
    """A row of zeros has no scale, and stays zero whatever its integers are; rows beside it do not notice."""
    x = draw.guarded(draw.normal((3, 33), dtype))
    x[1] = 0
    out, scales = draw.output(x.shape, torch.int8), draw.output((3, 1), torch.float32)

    def run() -> dict[str, torch.Tensor]:
        library.dynamic_scaled_int8_quant(out, x, scales, None)
        return {"out": wide(out[::2]), "scale": scales, "zeros": (out[1] * scales[1]).abs()}

    def expected() -> dict[str, Expected]:
        exact = oracle.symmetric_scale(x.double())
        return {
            "out": oracle.quantise(x[::2].double(), exact.value[::2]),
            "scale": exact,
            "zeros": Exact(torch.zeros(33)),
        }

    return Call(run, expected)


def _refused(draw: Draw, what: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Return an output and an input that are not supported."""
    out, x = draw.output((4, 32), torch.int8), draw.normal((4, 32))
    if what == "out_apart":
        return out[:, :16], x[:, :16]
    if what == "columns_apart":
        return out.view(8, 16), draw.normal((8, 32))[:, ::2]
    if what == "three_dimensions":
        return out.view(4, 4, 8), x.view(4, 4, 8)
    return out, x.to(torch.int32)


@cases("static_scaled_int8_quant", what=[*REFUSED, "two_scales", "two_zero_points"])
def static_scaled_int8_quant_refused(library: Any, draw: Draw, *, what: str) -> Call:
    """Layouts and types that are not supported are refused."""
    out, x = _refused(draw, what) if what in REFUSED else (draw.output((4, 32), torch.int8), draw.normal((4, 32)))
    scale = torch.ones(2 if what == "two_scales" else 1)
    offset = torch.ones(2 if what == "two_zero_points" else 1, dtype=torch.int32)
    return refused(lambda: library.static_scaled_int8_quant(out, x, scale, offset))


@cases("dynamic_scaled_int8_quant", what=REFUSED)
def dynamic_scaled_int8_quant_refused(library: Any, draw: Draw, *, what: str) -> Call:
    """Layouts and types that are not supported are refused."""
    out, x = _refused(draw, what)
    scales = draw.output((8, 1), torch.float32)
    return refused(lambda: library.dynamic_scaled_int8_quant(out, x, scales, None))


@cases("static_scaled_int8_quant", dtype=DTYPES, shape=[(3, 5), (2, 17), (1, 31)], zero_point=[None, 3])
def static_scaled_int8_quant_edge(
    library: Any, draw: Draw, *, dtype: torch.dtype, shape: tuple[int, int], zero_point: int | None
) -> Call:
    """Rows that are no multiple of vectors, where nothing may be read behind the last one."""
    x, out, step = draw.at_edge(draw.normal(shape, dtype)), draw.output(shape, torch.int8), torch.tensor([0.0231])
    offset = None if zero_point is None else torch.tensor([zero_point], dtype=torch.int32)

    def run() -> dict[str, torch.Tensor]:
        library.static_scaled_int8_quant(out, x, step, offset)
        return {"out": wide(out)}

    return Call(run, lambda: {"out": oracle.quantise(x.double(), step.double(), zero_point or 0.0)}, alone=True)


@cases("dynamic_scaled_int8_quant", dtype=DTYPES, shape=[(3, 5), (2, 17), (1, 31)], with_zero_point=[False, True])
def dynamic_scaled_int8_quant_edge(
    library: Any, draw: Draw, *, dtype: torch.dtype, shape: tuple[int, int], with_zero_point: bool
) -> Call:
    """Rows that are no multiple of vectors, where nothing may be read behind the last one."""
    x, out = draw.at_edge(draw.normal(shape, dtype)), draw.output(shape, torch.int8)
    scales = draw.output((shape[0], 1), torch.float32)
    offsets = draw.output((shape[0], 1), torch.int32) if with_zero_point else None

    def run() -> dict[str, torch.Tensor]:
        library.dynamic_scaled_int8_quant(out, x, scales, offsets)
        return {"scale" if offsets is None else "range_scale": scales}

    def expected() -> dict[str, Expected]:
        if with_zero_point:
            return {"range_scale": oracle.range_scale(x.double())}
        return {"scale": oracle.symmetric_scale(x.double())}

    return Call(run, expected, alone=True)
