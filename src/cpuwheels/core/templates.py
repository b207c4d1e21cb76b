"""The templates of pages: one environment, one frame and one style for reports, parity, bisections and the index."""

from __future__ import annotations

import functools

from jinja2 import ChoiceLoader, Environment, PackageLoader, PrefixLoader, StrictUndefined

from cpuwheels.core.progress import clock
from cpuwheels.core.units import format_size


@functools.cache
def templates(package: str) -> Environment:
    """Return the templates that lie in a package, and below ``shared/`` those that all pages have.

    Text is escaped for HTML, and an undefined name is an error. The filter ``size`` writes bytes for people, and
    ``seconds`` a duration.

    Args:
        package: Its dotted name, such as ``cpuwheels.index``.
    """
    environment = Environment(
        loader=ChoiceLoader([PrefixLoader({"shared": _shared()}), PackageLoader(package, ".")]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {"size": format_size, "seconds": clock}
    return environment


@functools.cache
def _shared() -> PackageLoader:
    """Return what loads the frame of pages, their style, macros and scripts."""
    return PackageLoader("cpuwheels.core", "pages")
