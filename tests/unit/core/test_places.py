"""What others read has no folders of this machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from cpuwheels.core.places import without_places

PLACES = {Path("/home/me/.cache/cpuwheels"): "$CPUWHEELS_CACHE", Path("/home/me"): "~", Path("/srv/project"): "$ROOT"}


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("/home/me/.cache/cpuwheels/work/a/b.cpp", "$CPUWHEELS_CACHE/work/a/b.cpp"),
        ("--sysroot=/home/me/.cache/cpuwheels/sysroots/x", "--sysroot=$CPUWHEELS_CACHE/sysroots/x"),
        ("-I/home/me/.cache/cpuwheels/x -L/home/me/lib", "-I$CPUWHEELS_CACHE/x -L~/lib"),
        ("/home/me", "~"),
        ("/home/men/secret/file", "…/file"),
        ("/srv/project/patches/a.patch:3: fuzz", "$ROOT/patches/a.patch:3: fuzz"),
        ("/opt/company/gcc/bin/g++ is too old", "…/g++ is too old"),
        ("a (/opt/company/x/), '/opt/b/c'", "a (…/x), '…/c'"),
        ("/usr/bin/g++-14", "/usr/bin/g++-14"),
        ("vllm/_C.abi3.so", "vllm/_C.abi3.so"),
        ("../../logs/x86/a", "../../logs/x86/a"),
        ("https://example.org/a/b/c.whl#sha256=1", "https://example.org/a/b/c.whl#sha256=1"),
        ("file:///home/me/wheels/a.whl", "file://~/wheels/a.whl"),
        ("https://u:geheim@example.org/a/b", "https://example.org/a/b"),
        ("1/2 and/or 3 / 4", "1/2 and/or 3 / 4"),
        ("1.0+cpu", "1.0+cpu"),
    ],
)
def test_texts(text: str, wanted: str) -> None:
    assert without_places(text, PLACES) == wanted
    assert without_places(wanted, PLACES) == wanted


def test_everything_in_a_value() -> None:
    value = {"/home/me/a": [1, None, True, 1.5, ("/home/me/b", {"c": "/x/y/z"})]}
    assert without_places(value, PLACES) == {"~/a": [1, None, True, 1.5, ["~/b", {"c": "…/z"}]]}
    assert list(value) == ["/home/me/a"]


def test_without_known_places_names_are_left() -> None:
    assert without_places("/home/me/.cache/b.cpp") == "…/b.cpp"
