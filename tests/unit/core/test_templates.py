"""The templates of pages."""

from __future__ import annotations

import pytest
from jinja2 import TemplateNotFound, UndefinedError

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


@pytest.mark.parametrize("package", ["cpuwheels.index", "cpuwheels.bisect", "cpuwheels.rebuild"])
def test_every_package_has_what_all_pages_share(package: str) -> None:
    page = (
        '{% extends "shared/base.html.j2" %}{% block title %}{{ name }}{% endblock %}{% block main %}here{% endblock %}'
    )
    text = templates(package).from_string(page).render(name="<i>")
    assert "<title>&lt;i&gt;</title>" in text
    assert text.index("--ink:") < text.index('<main id="main" tabindex="-1">\nhere</main>')


def test_only_the_shared_folder_is_shared() -> None:
    with pytest.raises(TemplateNotFound):
        templates("cpuwheels.index").get_template("base.html.j2")
    with pytest.raises(TemplateNotFound):
        templates("cpuwheels.index").get_template("shared/../templates.py")


def test_a_verdict_has_a_shape_and_words() -> None:
    text = '{% from "shared/macros.html.j2" import verdict %}{{ verdict("bad", "✗", words) }}'
    assert render(text, words="<wrong>") == (
        '<span class="verdict bad"><span aria-hidden="true">✗</span> &lt;wrong&gt;</span>'
    )


def test_a_command_is_escaped() -> None:
    text = '{% from "shared/macros.html.j2" import command %}{{ command("sh", line) }}'
    assert "<code>a &lt;b&gt; &amp; c</code><button" in render(text, line="a <b> & c")
