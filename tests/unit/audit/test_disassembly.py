"""What objdump writes, as binutils 2.40 and 2.44 wrote it of real libraries, and what becomes of it."""

from __future__ import annotations

import pytest

from cpuwheels.audit.disassembly import Located, apart, collect, is_decoded, locate

HEAD = b"\ndemo.so:     file format elf64-x86-64\n\n\nDisassembly of section .text:\n\n<_ZN1aIiEC1Ev>:\n"


@pytest.mark.parametrize(
    ("line", "key", "text"),
    [
        (b"mov    0x40(%rax,%rcx,4),%r9d", b"mov    N(%rax,%rcx,N),%r9d", b"mov    0x40(%rax,%rcx,4),%r9d"),
        (b"mov    -0x8(%rbp),%rax", b"mov    -N(%rbp),%rax", b"mov    -0x8(%rbp),%rax"),
        (b"mov    %fs:0x28,%rax", b"mov    %fs:N,%rax", b"mov    %fs:0x28,%rax"),
        (b"jne    <_ZN1aIiEC1Ev+0x60>", b"jne    .", b"jne    ."),
        (b"loopne <x>", b"loopne .", b"loopne ."),
        (b"jmp    *0x2(%rip)        # <memcpy@GLIBC_2.14>", b"jmp    *N(%rip)        ", b"jmp    *0x2(%rip)"),
        (b"call   <operator<(int)>", b"call   .", b"call   ."),
        (b"vaddps %zmm17,%zmm1,%zmm2{%k1}{z}", b"vaddps %zmm17,%zmm1,%zmm2{%k1}{z}", None),
        (b"ldr\tq0, [x1, #32]", b"ldr\tq0, [x1, #N]", None),
        (b"adrp\tx0, <x>", b"adrp\tx0, .", b"adrp\tx0, ."),
        (b"mov\tx0, #0xffffffffffffffff    \t// #-1", b"mov\tx0, #N    \t", b"mov\tx0, #0xffffffffffffffff"),
        (b"bfdot\tv1.4s, v2.8h, v3.2h[1]", b"bfdot\tv1.4s, v2.8h, v3.2h[N]", None),
        (b"fmov\tv0.4s, #1.000000000000000000e+00", b"fmov\tv0.4s, #N.000000000000000000e+N", None),
        (b"tbz\tw0, #3, <x+0x8>", b"tbz\tw0, #N, .", b"tbz\tw0, #3, ."),
        (b"brasl\t%r14,<cos@plt>", b"brasl\t%r14,.", b"brasl\t%r14,."),
        (b"vlm\t%v20,%v21,16(%r3)", b"vlm\t%v20,%v21,N(%r3)", None),
    ],
)
def test_the_shape_has_no_numbers_and_the_text_can_be_assembled(line: bytes, key: bytes, text: bytes | None) -> None:
    assert collect([HEAD + b"\t" + line + b"\n"]) == {b"\t" + key: text or line}


def test_one_instruction_stands_for_each_shape_and_filling_for_none() -> None:
    lines = [b"mov    0x8(%rax),%rbx", b"mov    0x10(%rax),%rbx", b"mov    0x10(%rax),%rcx", b"..."]
    found = collect([HEAD + b"".join(b"\t" + line + b"\n" for line in lines), HEAD, b""])
    assert list(map(bytes.split, sorted(found))) == [[b"mov", b"N(%rax),%rbx"], [b"mov", b"N(%rax),%rcx"]]


@pytest.mark.parametrize(
    ("plain", "addressed"),
    [
        (b"jne    <_ZN1aIiEC1Ev+0x60>", b"jne    1a3f60 <_ZN1aIiEC1Ev+0x60>"),
        (b"xbegin <x>", b"xbegin e0 <x>"),
        (b"vmovaps 0x40(%rip),%zmm1        # <x>", b"vmovaps 0x40(%rip),%zmm1        # 4010 <x>"),
        (b"endbr64", b"endbr64"),
        (b"cbz\tx0, <x>", b"cbz\tx0, 96930 <x>"),
        (b"brasl\t%r14,<cos@plt>", b"brasl\t%r14,a0f0 <cos@plt>"),
    ],
)
def test_an_instruction_is_found_again_where_addresses_are_written(plain: bytes, addressed: bytes) -> None:
    (shape,) = collect([b"\t" + plain + b"\n"])
    listing = b"0000000000001000 <x>:\n    1000:\tnop\n    100f:\t" + addressed + b"\n    1010:\tret\n"
    assert list(locate([listing], frozenset({shape}))) == [Located(0x100F, shape)]
    assert list(locate([listing], frozenset({b"\tjnp    ."}))) == []


@pytest.mark.parametrize(
    ("text", "known"),
    [
        (b"vaddps %xmm1,%xmm2,%xmm3", True),
        (b"(bad)", False),
        (b"jmp    (bad)", False),
        (b".inst\t0x00000201 ", False),
        (b".long\t0x00000300", False),
        (b"udf\t#0", False),
    ],
)
def test_data_and_the_unknown_are_not_taken_for_instructions(text: bytes, known: bool) -> None:
    assert is_decoded(text) is known


def test_leading_words_get_lines_of_their_own() -> None:
    assert apart(b"data16 data16 cs nopw 0x0(%rax,%rax,1)") == [b"data16", b"data16", b"cs", b"nopw 0x0(%rax,%rax,1)"]
    assert apart(b"lock cmpxchg %ecx,(%rdx)") == [b"lock", b"cmpxchg %ecx,(%rdx)"]
    assert apart(b"vaddps %xmm1,%xmm2,%xmm3") == [b"vaddps %xmm1,%xmm2,%xmm3"]
