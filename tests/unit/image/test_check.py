from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cpuwheels.core.errors import ImageError
from cpuwheels.image.check import judged
from cpuwheels.wheel.kernel_wheel import Preloads

MAPS = """\
7f00 r-xp 00000000 08:01 1 /usr/local/lib/python3.11/dist-packages/vllm/_C.abi3.so
7f01 r-xp 00000000 08:01 2 /usr/local/lib/python3.11/dist-packages/torch/lib/libgomp.so.1
7f02 r-xp 00000000 08:01 3 /usr/local/lib/python3.11/dist-packages/vllm/libs/libtcmalloc_minimal.so.4
"""


def result(**changes: Any) -> dict[str, Any]:
    """Return what the script in a good image writes."""
    good = {"failure": "", "user": 1000, "started": 3.0, "tokens": 8, "chosen": "negative", "compiled": 0}
    return good | {"processes": {"2": [MAPS, ""], "3": [MAPS, ""]}, "first": "2"} | changes


def second(maps: str) -> dict[str, Any]:
    """Return what is found if the process that computes has mapped something else."""
    return {"processes": {"2": [MAPS, ""], "3": [maps, ""]}}


def judge(found: dict[str, Any], log: Path, *, eager: bool = True) -> None:
    judged(found, chooser="", preloads=Preloads(allocator=True), eager=eager, log=log)


def test_an_image_that_serves_is_told_with_what_it_loaded(tmp_path: Path) -> None:
    found = judged(result(), chooser="", preloads=Preloads(allocator=True), eager=True, log=tmp_path / "log")
    assert (found.started, found.libraries) == (3.0, ("_C",))
    assert found.runtimes == ("libgomp.so.1", "libtcmalloc_minimal.so.4")


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"failure": "the server ended", "processes": {}}, "the server ended"),
        ({"processes": {}}, "no kernel library"),
        (second(MAPS.replace("libtcmalloc_minimal", "libnothing")), "no allocator"),
        (second(MAPS.replace("libgomp", "libother")), "no OpenMP runtime"),
        ({"tokens": 7}, "7 of 8 tokens"),
        ({"chosen": "words"}, "chose 'words', and not one of affirmative, negative"),
        ({"user": 0}, "as user 0"),
        ({"compiled": 1}, "without a compiler"),
    ],
)
def test_an_image_with_a_fault_is_refused(changes: dict[str, Any], why: str, tmp_path: Path) -> None:
    (tmp_path / "log").write_text("first\n" * 20 + "last line\n")
    with pytest.raises(ImageError, match=why) as caught:
        judge(result(**changes), tmp_path / "log")
    assert caught.value.output.endswith("last line")


def test_the_flavour_with_a_compiler_has_to_use_it(tmp_path: Path) -> None:
    judge(result(compiled=2), tmp_path / "log", eager=False)
    with pytest.raises(ImageError, match="compiled nothing"):
        judge(result(), tmp_path / "log", eager=False)
