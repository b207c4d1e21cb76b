"""Products of int8 matrices by oneDNN, with scales, zero points of the inputs, and a bias."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from cases.joined import flat, flat_near
from cases.onednn import ALL, CACHED, DTYPES, ROWS, SCALED, SCALED_SHAPES, released
from harness.case import Call, cases, refusal, refused
from harness.draw import Draw
from harness.expected import Exact, Near
from oracles import onednn as oracle

# These are tried with the type of most models, a scale for each column, and any values.
PLAIN_SHAPES = [shape for shape in SCALED_SHAPES if shape not in [(1, 1), (15, 17), (101, 491)]]


def integers(draw: Draw, shape: list[int], *, extreme: bool) -> torch.Tensor:
    """Return any integers of 8 bits, or the largest of both signs, which sums of 16 bits cannot hold."""
    if extreme:
        return (draw.integers(shape, 0, 2) * 255 - 128).to(torch.int8)
    return draw.integers(shape, -128, 128, torch.int8)


def narrow(draw: Draw, shape: list[int]) -> torch.Tensor:
    """Return weights that CPUs without VNNI multiply rightly.

    They add two products in 16 bits, after oneDNN has made the inputs unsigned: 2 * 255 * 64 is less than 2**15
    (oneDNN Developer Guide, Nuances of int8 Computations).
    """
    return draw.integers(shape, -64, 65, torch.int8)


def _rows(shape: tuple[int, int], *, by_row: bool) -> list[int]:
    """Return how many rows the inputs have; with one scale for all an input without rows is not supported."""
    rows = ROWS if shape[0] * shape[1] < 99999 else (1, 4)
    return [m for m in rows if m > 0 or by_row]


@cases(
    *SCALED,
    dtype=ALL,
    shape=SCALED_SHAPES,
    # Whether each row of the inputs has a scale, or one that was known before is for all.
    by_row=[False, True],
    with_zero_point=[False, True],
    # Whether each column of the weights has a scale.
    by_column=[False, True],
    extreme=[False, True],
    where=lambda dtype, shape, by_row, by_column, extreme, **_: (
        (by_row or dtype in DTYPES)
        and (shape not in PLAIN_SHAPES or (dtype == torch.bfloat16 and by_column))
        and extreme <= (shape not in [*PLAIN_SHAPES, (1, 1), (15, 17)])
    ),
    deep={"shape": lambda st: st.tuples(st.integers(1, 300), st.integers(1, 300))},
)
def onednn_scaled_mm(
    library: Any,
    draw: Draw,
    *,
    dtype: torch.dtype,
    shape: tuple[int, int],
    by_row: bool,
    with_zero_point: bool,
    by_column: bool,
    extreme: bool,
) -> Call:
    """One handler for several inputs, with bias and without."""
    weight = integers(draw, list(shape), extreme=extreme).t()
    return _product(library, draw, weight, dtype, by_row, with_zero_point, by_column, extreme)


@cases(
    *SCALED,
    dtype=[torch.bfloat16],
    shape=[(16, 16), (15, 17), (101, 491), (576, 1000)],
    by_row=[False, True],
    with_zero_point=[False, True],
)
def onednn_scaled_mm_narrow(
    library: Any, draw: Draw, *, dtype: torch.dtype, shape: tuple[int, int], by_row: bool, with_zero_point: bool
) -> Call:
    """Weights whose products are right without VNNI, too."""
    return _product(library, draw, narrow(draw, list(shape)).t(), dtype, by_row, with_zero_point)


def _product(
    library: Any,
    draw: Draw,
    weight: torch.Tensor,
    dtype: torch.dtype,
    by_row: bool,
    with_zero_point: bool,
    by_column: bool = True,
    extreme: bool = False,
) -> Call:
    k, n = weight.shape
    exact = weight.double()
    b_scale = draw.guarded(draw.uniform([1, n if by_column else 1], 0.001, 0.01))
    bias = draw.guarded(draw.normal([n], dtype))
    # What vLLM computes once: the sums that zero points are multiplied by, with the scales of the weights.
    sums = draw.guarded(weight.sum(0, keepdim=True, dtype=torch.float32) * b_scale)
    # Scales of rows are applied by the library itself, all others by oneDNN, which always rounds.
    calls = []
    for place, m in enumerate(_rows((n, k), by_row=by_row)):
        scales = m if by_row else 1
        calls.append(
            (
                draw.guarded(integers(draw, [m, k], extreme=extreme)),
                draw.uniform([scales, 1], 0.001, 0.01),
                draw.integers([scales, 1], -300, 300, torch.int32) if with_zero_point else None,
                bias if place % 2 else None,
                draw.output((m, n), dtype),
            )
        )

    def run() -> dict[str, torch.Tensor]:
        made = library.create_onednn_scaled_mm_handler(weight, b_scale, dtype, by_row, with_zero_point, CACHED)
        with released(library, made) as handler:
            weight.zero_()
            for a, a_scale, zero_point, added, out in calls:
                library.onednn_scaled_mm(out, a, a_scale, zero_point, sums if with_zero_point else None, added, handler)
        return {"out": flat([out for *_, out in calls])}

    def expected() -> dict[str, Near]:
        parts = [
            oracle.scaled_product(
                a.double(),
                exact,
                a_scale.double(),
                b_scale.double(),
                None if zero_point is None else zero_point.double(),
                None if added is None else added.double(),
            )
            for a, a_scale, zero_point, added, _ in calls
        ]
        return {"out": flat_near(parts)}

    return Call(run, expected)


@cases(*SCALED, dtype=ALL, outputs=[5, 17, 31], rows=[1, 40])
def onednn_scaled_mm_edge(library: Any, draw: Draw, *, dtype: torch.dtype, outputs: int, rows: int) -> Call:
    """A bias, and what zero points are multiplied by, behind which nothing may be read."""
    weight, a = narrow(draw, [outputs, 16]).t(), draw.integers([rows, 16], -128, 128, torch.int8)
    a_scale, b_scale = draw.uniform([rows, 1], 0.001, 0.01), draw.uniform([1, outputs], 0.001, 0.01)
    zero_point, bias = draw.integers([rows, 1], -300, 300, torch.int32), draw.at_edge(draw.normal([outputs], dtype))
    sums = draw.at_edge(weight.sum(0, keepdim=True, dtype=torch.float32) * b_scale)
    out = draw.output((rows, outputs), dtype)

    def run() -> dict[str, torch.Tensor]:
        made = library.create_onednn_scaled_mm_handler(weight, b_scale, dtype, True, True, CACHED)
        with released(library, made) as handler:
            library.onednn_scaled_mm(out, a, a_scale, zero_point, sums, bias, handler)
        return {"out": out}

    def expected() -> dict[str, Near]:
        exact = (part.double() for part in (a, weight, a_scale, b_scale, zero_point, bias))
        return {"out": oracle.scaled_product(*exact)}

    return Call(run, expected, alone=True)


@cases(*SCALED, by_row=[False, True], cached=[1, 2])
def onednn_scaled_mm_two_handlers(library: Any, draw: Draw, *, by_row: bool, cached: int) -> Call:
    """Handlers of one shape have weights and scales of their own, though they share primitives."""
    k, n = 40, 50 + cached
    weights = [narrow(draw, [n, k]).t() for _ in range(2)]
    scales = [draw.uniform([1, n], 0.001, 0.01) for _ in range(2)]
    inputs = [draw.integers([m, k], -128, 128, torch.int8) for m in (1, 5, 3, 5)]
    a_scales = [draw.uniform([len(a) if by_row else 1, 1], 0.001, 0.01) for a in inputs]
    outs = [draw.output((len(a), n), torch.float32) for a in inputs]

    def handler(which: int) -> int:
        return library.create_onednn_scaled_mm_handler(
            weights[which], scales[which], torch.float32, by_row, False, cached
        )

    def run() -> dict[str, torch.Tensor]:
        with released(library, handler(0)) as one, released(library, handler(1)) as other:
            for place, out in enumerate(outs):
                library.onednn_scaled_mm(out, inputs[place], a_scales[place], None, None, None, (one, other)[place % 2])
        return {f"out{place}": out for place, out in enumerate(outs)}

    def expected() -> dict[str, Near]:
        return {
            f"out{place}": oracle.scaled_product(
                a.double(), weights[place % 2].double(), a_scales[place].double(), scales[place % 2].double()
            )
            for place, a in enumerate(inputs)
        }

    return Call(run, expected)


@cases(
    "create_onednn_scaled_mm_handler", what=["by_row", "one_dimension", "too_few_scales", "scales_apart", "integers"]
)
def create_onednn_scaled_mm_handler_refused(library: Any, draw: Draw, *, what: str) -> Call:
    """Weights have to lie column by column, with a scale for all or for each column; results are no integers."""
    weight = draw.integers([16, 32], -128, 128, torch.int8).t()
    scales = draw.uniform([1, 16], 0.01, 0.1)
    if what == "by_row":
        weight = weight.contiguous()
    elif what == "one_dimension":
        weight = weight[:, 0]
    elif what == "too_few_scales":
        scales = scales[:, :15].contiguous()
    elif what == "scales_apart":
        scales = draw.uniform([1, 32], 0.01, 0.1)[:, ::2]
    dtype = torch.int32 if what == "integers" else torch.float32
    return refused(lambda: library.create_onednn_scaled_mm_handler(weight, scales, dtype, True, False, CACHED))


@cases(*SCALED, what=["a_three_dimensions", "a_apart", "c_apart", "two_scales"])
def onednn_scaled_mm_refused(library: Any, draw: Draw, *, what: str) -> Call:
    """Layouts that are not supported, and more scales than one where one was known before, are refused."""
    a, c = draw.integers([4, 32], -128, 128, torch.int8), draw.output((4, 16), torch.float32)
    weight = draw.integers([16, 32], -128, 128, torch.int8).t()
    b_scale, a_scale = torch.ones(1), torch.ones(4 if what == "two_scales" else 1)
    if what == "a_three_dimensions":
        a = a[None]
    elif what == "a_apart":
        a = draw.integers([4, 64], -128, 128, torch.int8)[:, :32]
    elif what == "c_apart":
        c = draw.output((4, 32), torch.float32)[:, :16]

    def run() -> Mapping[str, torch.Tensor]:
        made = library.create_onednn_scaled_mm_handler(weight, b_scale, torch.float32, False, False, CACHED)
        with released(library, made) as handler:
            return refusal(lambda: library.onednn_scaled_mm(c, a, a_scale, None, None, None, handler))

    return Call(run, lambda: {"refused": Exact(torch.tensor(True))})
