from __future__ import annotations

import pytest

from cpuwheels.toolchain.requirements import Identity, identify, objections, search_list
from fake_compiler import TARGET

GNU = "#define __GNUC__ 13\n#define __GNUC_MINOR__ 3\n#define __GNUC_PATCHLEVEL__ 1\n#define __OPTIMIZE__\n"
CLANG = """\
#define __clang__ 1
#define __clang_major__ 19
#define __clang_minor__ 1
#define __clang_patchlevel__ 7
"""


@pytest.mark.parametrize(
    ("macros", "expected"),
    [
        (GNU, "GNU 13.3.1"),
        (GNU + CLANG, "Clang 19.1.7"),
        (GNU + CLANG + "#define __apple_build_version__ 17000013\n", "AppleClang 19.1.7"),
        (GNU + CLANG + "#define __INTEL_LLVM_COMPILER 20250000\n", "IntelLLVM 19.1.7"),
        ("#define __GNUC__ 5", "GNU 5.0.0"),
        ("", "None"),
        ("cc1plus: fatal error: __GNUC__ 13", "None"),
    ],
)
def test_family_and_version_come_from_macros(macros: str, expected: str) -> None:
    assert str(identify(macros, "x86_64-linux-gnu\n")) == expected


@pytest.mark.parametrize(
    ("family", "version", "machine", "reasons"),
    [
        ("GNU", "12.3.0", "x86_64-linux-gnu", []),
        ("GNU", "14.2.0", "x86_64-redhat-linux", []),
        ("GNU", "15.1.0", "x86_64-conda-linux-gnu", []),
        ("GNU", "12.2.0", "x86_64-linux-gnu", ["older than GNU 12.3, which x86 needs"]),
        ("GNU", "9.4.0", "x86_64-linux-gnu", ["older than GNU 12.3, which x86 needs"]),
        ("Clang", "19.1.7", "x86_64-pc-linux-gnu", ["x86 needs GNU 12.3 or newer"]),
        ("GNU", "14.2.0", "aarch64-linux-gnu", ["it compiles for aarch64-linux-gnu, not for x86_64 Linux"]),
        ("GNU", "14.2.0", "x86_64-w64-mingw32", ["it compiles for x86_64-w64-mingw32, not for x86_64 Linux"]),
        (
            "GNU",
            "8.1.0",
            "i686-linux-gnu",
            ["older than GNU 12.3, which x86 needs", "it compiles for i686-linux-gnu, not for x86_64 Linux"],
        ),
    ],
)
def test_gate(family: str, version: str, machine: str, reasons: list[str]) -> None:
    assert objections(Identity(family, version, machine), TARGET) == reasons


def test_search_list() -> None:
    text = (
        'ignoring nonexistent directory "/x"\n#include "..." search starts here:\n'
        "#include <...> search starts here:\n /usr/include/c++/13\n /a b/include\n"
        " /Library/Frameworks (framework directory)\nEnd of search list.\nCOMPILER_PATH=/usr\n"
    )
    assert search_list(text) == ("/usr/include/c++/13", "/a b/include", "/Library/Frameworks")
    assert search_list("g++: error: no input files\n") == ()
