"""The table of a chooser, read from files of both byte orders."""

from __future__ import annotations

import io

import pytest

from chooser_elf import chooser_elf
from cpuwheels.doctor.runtime.chooser_table import Choosable, read_table
from elf_writer import Elf

ARM = {"_C_BF16": ("asimd", "bf16"), "_C_NEON": ("asimd",)}


def table(data, module="_C"):
    return read_table(io.BytesIO(data), module)


@pytest.mark.parametrize("order", ["<", ">"])
def test_names_and_needs_in_the_choosers_order(order):
    assert table(chooser_elf(ARM, order)) == tuple(Choosable(name=name, needs=needs) for name, needs in ARM.items())


def test_a_library_may_need_nothing_else():
    assert table(chooser_elf({"_C_A": ("x",), "_C_B": ()}))[0] == Choosable(name="_C_A", needs=("x",))


def test_other_modules_have_no_table():
    assert table(chooser_elf(ARM), "_D") == ()
    assert table(Elf(text=b"_C_AVX2 is a name").write()) == ()


@pytest.mark.parametrize("data", [b"", b"\x7fELF", b"not an ELF file"])
def test_what_is_no_elf_file_is_refused(data):
    with pytest.raises(ValueError, match="not a readable ELF file"):
        table(data)
