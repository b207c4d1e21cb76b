"""Links of a report that lead to nothing."""

from __future__ import annotations

import pytest

from cpuwheels.index.links import dead_links

FILES = {"parity.json", "a b.whl", "vllm-1+cpu.whl"}


@pytest.mark.parametrize(
    ("page", "dead"),
    [
        ('<a href="parity.json">a</a>', []),
        ('<a href="a%20b.whl#x">a</a> <a href="vllm-1%2Bcpu.whl?x=1">b</a> <a href="vllm-1+cpu.whl">c</a>', []),
        ('<a href="#top">a</a> <a href="https://example.org/x">b</a> <a href="//example.org/x">c</a>', []),
        ('<a href="data:text/plain,x">a</a> <a>b</a> <a href>c</a> <a href="">d</a>', []),
        ('<a href="parity.html">a</a> <img src="x.png"> <a href="parity.html#x">b</a>', ["parity.html", "x.png"]),
        ('<link rel="icon" href="../icon.svg"> <a href="parity.json/">a</a>', ["../icon.svg", "parity.json/"]),
        ('<a href="no', []),
        ("", []),
    ],
)
def test_links(page: str, dead: list[str]) -> None:
    assert dead_links(page, FILES) == dead
