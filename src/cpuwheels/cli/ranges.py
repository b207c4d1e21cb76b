"""Numbers on the command line."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import click

from cpuwheels.core.step_limits import MOST_HOURS

if TYPE_CHECKING:
    from click import Context, Parameter


class NumberRange(click.FloatRange):
    """A range of numbers, which NaN is not in."""

    def convert(self, value: Any, param: Parameter | None, ctx: Context | None) -> float:  # noqa: ANN401  (as click has it)
        """Return the number; no comparison says that NaN is out of range."""
        number = float(super().convert(value, param, ctx))
        if math.isnan(number):
            self.fail(f"{value} is not a number.", param, ctx)
        return number


class TimeLimit(NumberRange):
    """A time limit: above 0, and no longer than `MOST_HOURS`.

    Args:
        hour: How many of the option's units an hour has.
    """

    def __init__(self, hour: float) -> None:
        super().__init__(min=0, max=MOST_HOURS * hour, min_open=True)


class SizeText(click.ParamType[str]):
    """A number of bytes as it was written, such as ``8G``; it is one that `parse_size` takes."""

    name = "size"

    def convert(self, value: Any, param: Parameter | None, ctx: Context | None) -> str:  # noqa: ANN401
        """Return the text."""
        Size().convert(value, param, ctx)
        return str(value)


class JobCount(click.ParamType[str]):
    """A number of jobs as it was written: a whole one of at least 1."""

    name = "integer"

    def convert(self, value: Any, param: Parameter | None, ctx: Context | None) -> str:  # noqa: ANN401
        """Return the text."""
        text = str(value).strip()
        if not (text.isascii() and text.isdecimal() and int(text) >= 1):
            self.fail(f"{str(value)!r} is not a whole number of at least 1.", param, ctx)
        return text


class Size(click.ParamType[int]):
    """A number of bytes, as `parse_size` takes it."""

    name = "size"

    def convert(self, value: Any, param: Parameter | None, ctx: Context | None) -> int:  # noqa: ANN401
        """Return the bytes."""
        from cpuwheels.core.units import parse_size

        try:
            return parse_size(value)
        except ValueError as error:
            self.fail(f"{error}.", param, ctx)
