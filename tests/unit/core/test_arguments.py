"""Options with their values, as a command line has them."""

from __future__ import annotations

from cpuwheels.core.arguments import named_arguments


def test_what_has_no_value_is_left_out_and_an_empty_one_is_not() -> None:
    assert named_arguments({"--memory": "8G", "--jobs": None, "--name": ""}) == ["--memory", "8G", "--name", ""]
    assert named_arguments({}) == []
