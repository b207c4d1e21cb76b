from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cpuwheels.config.platform_policy import Policy
from cpuwheels.core.errors import ToolchainError
from cpuwheels.toolchain.compat_library import sources, sources_digest
from cpuwheels.toolchain.glibc_floor import apply_floor, lower_header, lower_library
from elf_writer import Elf

if TYPE_CHECKING:
    from pathlib import Path

POLICY = Policy("floor", 0, {"GLIBC": frozenset({"2.2.5", "2.28"})}, frozenset())


@pytest.mark.parametrize(("minor", "expected"), [(31, 28), (29, 28), (28, 28), (17, 17)])
def test_headers_name_the_floors_version_if_theirs_is_newer(tmp_path: Path, minor: int, expected: int) -> None:
    features = tmp_path / "features.h"
    features.write_text(f"/* __GLIBC_MINOR__ */\n#define\t__GLIBC__\t2\n#define\t__GLIBC_MINOR__\t{minor}\n")
    lower_header(features, POLICY)
    assert features.read_text().endswith(f"#define\t__GLIBC_MINOR__\t{expected}\n")


@pytest.mark.parametrize("text", [None, "", "#define __GLIBC__ 3\n#define __GLIBC_MINOR__ 0\n"])
def test_headers_of_another_c_library_are_refused(tmp_path: Path, text: str | None) -> None:
    features = tmp_path / "features.h"
    if text is not None:
        features.write_text(text)
    with pytest.raises(ToolchainError, match=r"not of a C library 2\.x"):
        lower_header(features, POLICY)


def test_files_without_versions_stay_as_they_are(tmp_path: Path) -> None:
    for name, content in {"script.so": b"GROUP ( libc.so.6 )", "plain.so.1": Elf().write()}.items():
        (tmp_path / name).write_bytes(content)
        assert lower_library(tmp_path / name, POLICY) == 0
        assert (tmp_path / name).read_bytes() == content


SYMBOLS = (("pow", "GLIBC_2.2.5", True), ("pow", "GLIBC_2.29", False), ("new", "GLIBC_2.34", False))
LOWERED = (("pow", "GLIBC_2.2.5", False), ("pow", "GLIBC_2.29", True), ("new", "GLIBC_2.34", True))
"""What is left of them at 2.28."""


def test_symbols_have_the_newest_version_that_is_allowed(tmp_path: Path) -> None:
    library = tmp_path / "libm.so.6"
    library.write_bytes(Elf(defines=SYMBOLS).write())
    assert lower_library(library, POLICY) == 3
    assert library.read_bytes() == Elf(defines=LOWERED).write()
    assert lower_library(library, POLICY) == 0
    assert library.read_bytes() == Elf(defines=LOWERED).write()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A sysroot without libraries."""
    folder = tmp_path / "root" / "usr" / "include"
    folder.mkdir(parents=True)
    (folder / "features.h").write_text("#define __GLIBC__ 2\n#define __GLIBC_MINOR__ 31\n")
    return tmp_path / "root"


@pytest.mark.parametrize("place", ["lib/libm.so.6", "lib64/libm.so", "usr/lib/x86_64-linux-gnu/libm.so.6"])
def test_every_library_of_a_root_is_lowered(root: Path, place: str) -> None:
    (root / place).parent.mkdir(parents=True)
    (root / place).write_bytes(Elf(defines=SYMBOLS).write())
    apply_floor(root, POLICY)
    assert (root / place).read_bytes() == Elf(defines=LOWERED).write()
    assert (root / "usr/include/features.h").read_text().endswith("28\n")


def test_links_are_not_followed(root: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside.so"
    outside.write_bytes(Elf(defines=SYMBOLS).write())
    (root / "usr/lib").mkdir()
    (root / "usr/lib/outside.so").symlink_to(outside)
    apply_floor(root, POLICY)
    assert outside.read_bytes() == Elf(defines=SYMBOLS).write()


def test_the_compat_sources_are_installed_with_the_package() -> None:
    assert {"arc4random.c", "clockwait.c", "isoc23.c", "single_threaded.c"} == set(sources())
    assert len(sources_digest()) == 64
