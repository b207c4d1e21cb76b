"""The templates of pages."""

from __future__ import annotations

import pytest
from jinja2 import UndefinedError

from cpuwheels.core.templates import templates


def render(text: str, **values: object) -> str:
    return templates("cpuwheels.index").from_string(text).render(**values)


def test_text_is_escaped_and_blocks_leave_no_lines() -> None:
    assert render("{% if x %}\n<b>{{ x }}</b>\n{% endif %}\n", x="<i>") == "<b>&lt;i&gt;</b>\n"


def test_numbers_are_written_for_people() -> None:
    assert render("{{ 3221225472 | size }}, {{ 61 | seconds }}") == "3 GiB, 1:01"


def test_an_undefined_name_is_an_error() -> None:
    with pytest.raises(UndefinedError):
        render("{{ nothing }}")
