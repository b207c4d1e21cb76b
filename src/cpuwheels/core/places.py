"""Facts that others read: without the folders of the machine where they were found, and without credentials in URLs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from cpuwheels.core.urls import without_userinfo

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_PATH = re.compile(r"(?<![\w.:/~+*$}>)\]-])/[\w.+@~%-]+(?:/+[\w.+@~%*\[\]-]+)+/?")
"""An absolute path of at least two parts; not the path of a URL, nor the end of a relative one."""

_OF_EVERY_MACHINE = ("/usr/", "/bin/", "/sbin/", "/lib/", "/lib64/", "/dev/", "/proc/self/", "/etc/ssl/")


def without_places(value: Any, places: Mapping[Path, str] | None = None) -> Any:  # noqa: ANN401  (of any JSON value)
    """Return a value as JSON has it, in whose texts no absolute path is of one machine, and no URL has a user name.

    Args:
        value: The value; it is not changed.
        places: Folders with what is written for each, such as ``$CPUWHEELS_CACHE``. Of any other absolute path the
            last part is left.
    """
    longest = sorted(((str(folder), name) for folder, name in (places or {}).items()), key=lambda one: -len(one[0]))
    patterns = [(re.compile(rf"{re.escape(folder)}(?![\w.+-])"), name) for folder, name in longest if len(folder) > 1]
    return _without(value, patterns)


def _without(value: Any, patterns: list[tuple[re.Pattern[str], str]]) -> Any:  # noqa: ANN401
    if isinstance(value, str):
        return _text(value, patterns)
    if isinstance(value, dict):
        return {_text(str(key), patterns): _without(one, patterns) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without(one, patterns) for one in value]
    return value


def _text(text: str, patterns: list[tuple[re.Pattern[str], str]]) -> str:
    text = without_userinfo(text)
    if "/" not in text:
        return text
    for pattern, name in patterns:
        text = pattern.sub(lambda _, name=name: name, text)  # type: ignore[misc]  # mypy cannot infer the lambda's type
    return _PATH.sub(lambda found: found[0] if found[0].startswith(_OF_EVERY_MACHINE) else _last(found[0]), text)


def _last(path: str) -> str:
    return f"\N{HORIZONTAL ELLIPSIS}/{path.rstrip('/').rpartition('/')[2]}"
