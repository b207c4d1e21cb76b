"""The templates of pages: one environment for reports, parity, bisections and the index."""

from __future__ import annotations

import functools

from jinja2 import Environment, PackageLoader, StrictUndefined

from cpuwheels.core.console import clock
from cpuwheels.core.units import format_size


@functools.cache
def templates(package: str) -> Environment:
    """Return the templates that lie in a package.

    Text is escaped for HTML, and an undefined name is an error. The filter ``size`` writes bytes for people, and
    ``seconds`` a duration.

    Args:
        package: Its dotted name, such as ``cpuwheels.index``.
    """
    environment = Environment(
        loader=PackageLoader(package, "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {"size": format_size, "seconds": clock}
    return environment
