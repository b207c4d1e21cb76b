from __future__ import annotations

import pytest

from cpuwheels.core.errors import WheelError
from cpuwheels.wheel.requirements import sort_requirements, version_in_url

TRITON = "https://example.org/v3/triton-3.8.0%2Bcpu-cp311-cp311-manylinux_2_27_x86_64.manylinux_2_28_x86_64.whl"


@pytest.mark.parametrize(
    ("line", "extra", "written"),
    [
        ("numpy", None, "numpy"),
        ('six>=1.16; python_version > "3.11"', None, 'six>=1.16; python_version > "3.11"'),
        ('av; extra == "audio"', "audio", "av"),
        ("av ; extra == 'Audio_X'", "audio-x", "av"),
        ('a; platform_machine == "x" and extra == "e"', "e", 'a; platform_machine == "x"'),
        (
            'a; (platform_machine == "x" or os_name == "y") and extra == "e"',
            "e",
            'a; platform_machine == "x" or os_name == "y"',
        ),
        ('a[b,c]==1; extra == "e"', "e", "a[b,c]==1"),
    ],
)
def test_requirements_go_to_their_extra(line: str, extra: str | None, written: str) -> None:
    sorted_ = sort_requirements([line], [])
    assert sorted_.moved == ()
    if extra is None:
        assert sorted_.always == (written,)
    else:
        assert sorted_.extras == ((extra, (written,)),)


@pytest.mark.parametrize(
    ("line", "extra", "replacement"),
    [
        (f'triton @ {TRITON} ; python_version == "3.11"', "triton", 'triton==3.8.0+cpu; python_version == "3.11"'),
        (f"Tri_ton[x] @ {TRITON}", "tri-ton", "Tri_ton[x]==3.8.0+cpu"),
        (f'triton @ {TRITON} ; os_name == "y" and extra == "fast"', "triton", 'triton==3.8.0+cpu; os_name == "y"'),
        ("a @ https://example.org/a-1.2.tar.gz", "a", "a==1.2"),
        ("a @ git+https://example.org/a.git@main", "a", "a"),
    ],
)
def test_a_url_becomes_a_pin_under_its_own_extra(line: str, extra: str, replacement: str) -> None:
    sorted_ = sort_requirements(["numpy", line], ["bench"])
    assert sorted_.always == ("numpy",)
    assert sorted_.extras == tuple(sorted([("bench", ()), (extra, (replacement,))]))
    assert [(move.original, move.replacement, move.extra) for move in sorted_.moved] == [(line, replacement, extra)]


def test_two_urls_of_one_distribution_share_an_extra_with_what_is_there() -> None:
    lines = [
        f'triton @ {TRITON} ; python_version == "3.11"',
        'pandas; extra == "triton"',
        f'triton @ {TRITON} ; python_version >= "3.12"',
    ]
    sorted_ = sort_requirements(lines, ["triton"])
    assert sorted_.extras == (
        (
            "triton",
            ('triton==3.8.0+cpu; python_version == "3.11"', "pandas", 'triton==3.8.0+cpu; python_version >= "3.12"'),
        ),
    )


@pytest.mark.parametrize("line", ["not a requirement!", 'a; extra == "x" or os_name == "y"', 'a; extra != "x"'])
def test_a_line_that_cannot_be_placed_is_refused(line: str) -> None:
    with pytest.raises(WheelError, match=line.split(";", maxsplit=1)[0]):
        sort_requirements([line], [])


@pytest.mark.parametrize(
    ("url", "version"),
    [(TRITON, "3.8.0+cpu"), ("https://e.org/x-1.0.zip#frag", "1.0"), ("https://e.org/archive/main.zip", None)],
)
def test_the_version_comes_from_the_file_name(url: str, version: str | None) -> None:
    found = version_in_url(url)
    assert (str(found) if found else None) == version
