"""Tiny libraries, compiled and then judged by the real toolchain."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from cpuwheels.audit.binutils import Binutils
from cpuwheels.audit.instructions import check_instructions
from cpuwheels.audit.isa_limits import Limit
from cpuwheels.config.matrix import load_matrix
from cpuwheels.core.errors import AuditError
from layout import ROOT

if TYPE_CHECKING:
    from cpuwheels.audit.instructions import Judged
    from cpuwheels.toolchain.result import Toolchain

AVX2 = "generic64+avx2+fma+f16c"
NAME = "vllm/_C_AVX2.abi3.so"
SOURCE = """
#include <immintrin.h>
#define SHOWN __attribute__((visibility("default"), noinline))
#ifndef NOTHING_PLANTED
__attribute__((target("avx512f"))) SHOWN void planted(float *x) { _mm512_storeu_ps(x, _mm512_set1_ps(x[1])); }
__attribute__((target("avx512f"), noinline)) static void unseen(float *x) { _mm512_storeu_ps(x, _mm512_set1_ps(x[1])); }
#endif
SHOWN void harmless(float *x) { _mm256_storeu_ps(x, _mm256_sqrt_ps(_mm256_loadu_ps(x))); }
SHOWN int entry(float *x, int n) {
  for (int i = 0; i < n; i++) x[i] *= 3;
  harmless(x);
  switch (n) { case 1: return 7; case 2: return 9; case 3: return 1; case 4: return -5; case 5: return 44; }
  asm volatile("data16; data16; data16; cs nopw 0x0(%rax,%rax,1)");
  asm volatile("jmp 1f; .byte 0x06, 0x06; 1:");
  @PLANT@
  return 0;
}
"""


def library(toolchain: Toolchain, folder: Path, plant: str) -> Path:
    source, path = folder / "demo.c", folder / "demo.so"
    source.write_text(SOURCE.replace("@PLANT@", plant))
    flags = ["-mavx2", "-O2", "-shared", "-fPIC", "-fvisibility=hidden", "-nostdlib", "-s"]
    if "planted" not in plant:
        flags.append("-DNOTHING_PLANTED")
    subprocess.run([toolchain.cc, *toolchain.compile_flags, *flags, "-o", path, source], check=True)
    return path


def check(toolchain: Toolchain, path: Path, march: str = AVX2, guarded: tuple[str, ...] = (), **more: Any) -> Judged:
    (judged,) = check_instructions(
        {NAME: path},
        [Limit("_C_AVX2", march, guarded, **more)],
        Binutils.of(toolchain),
        work=path.parent,
        where=path,
        log=path.with_name("log"),
    )
    return judged


def test_a_library_that_keeps_to_its_instruction_sets_passes(toolchain: Toolchain, tmp_path: Path) -> None:
    judged = check(toolchain, library(toolchain, tmp_path, ""))
    assert judged.forms > 20
    assert judged.guarded == ()
    assert judged.unjudged == ("(bad)",)  # data between instructions is told and not called an instruction


def test_one_instruction_beyond_is_found_with_its_function(toolchain: Toolchain, tmp_path: Path) -> None:
    with pytest.raises(AuditError, match="beyond what their library may hold, in 1 function") as caught:
        check(toolchain, library(toolchain, tmp_path, "planted(x);"))
    (line,) = caught.value.output.splitlines()
    assert line.startswith(f"{NAME}: planted: 0x")
    assert "%zmm0" in line
    assert line.endswith(f"(not in {AVX2})")


def test_a_function_without_a_name_is_found_by_its_unwind_entry(toolchain: Toolchain, tmp_path: Path) -> None:
    with pytest.raises(AuditError) as caught:
        check(toolchain, library(toolchain, tmp_path, "planted(x); unseen(x);"), guarded=("planted",))
    (line,) = caught.value.output.splitlines()
    assert line.startswith(f"{NAME}: function at 0x")


@pytest.mark.parametrize("pattern", ["planted", "plan*", "_C_AVX2:v*"])
def test_what_asks_the_cpu_first_may_use_more_and_is_told(toolchain: Toolchain, tmp_path: Path, pattern: str) -> None:
    judged = check(toolchain, library(toolchain, tmp_path, "planted(x);"), guarded=(pattern,))
    assert [text.partition(" ")[0] for text in judged.guarded] == ["planted"]


def test_an_instruction_is_guarded_in_its_own_module_only(toolchain: Toolchain, tmp_path: Path) -> None:
    path = library(toolchain, tmp_path, "planted(x); unseen(x);")
    judged = check(toolchain, path, guarded=("_C_AVX2:vbroadcastss", "_C_AVX2:vmovup[sd]"))
    assert [text.partition(" ")[0] for text in judged.guarded] == ["function", "planted"]
    with pytest.raises(AuditError, match="in 2 functions"):
        check(toolchain, path, guarded=("_C:*",))


def test_the_same_library_passes_where_the_instruction_set_is_there(toolchain: Toolchain, tmp_path: Path) -> None:
    judged = check(toolchain, library(toolchain, tmp_path, "planted(x); unseen(x);"), march=f"{AVX2}+avx512f")
    assert judged.guarded == ()


def test_registers_that_only_a_newer_encoding_has_are_found(toolchain: Toolchain, tmp_path: Path) -> None:
    """The mnemonic is AVX's own; the register is not."""
    with pytest.raises(AuditError) as caught:
        check(toolchain, library(toolchain, tmp_path, 'asm volatile("vaddps %xmm17,%xmm1,%xmm2");'))
    assert "vaddps %xmm17,%xmm1,%xmm2" in caught.value.output


def test_an_architecture_that_the_assembler_does_not_know_is_told(toolchain: Toolchain, tmp_path: Path) -> None:
    with pytest.raises(AuditError, match="cannot check"):
        check(toolchain, library(toolchain, tmp_path, ""), march="generic64+avx3000")


def test_instructions_of_untried_kernels_are_known_and_held_by_their_names(
    toolchain: Toolchain, tmp_path: Path
) -> None:
    """Those of the matrix are beyond every library's limit, and the disassembler writes them so."""
    (library_of_all, *_) = load_matrix(ROOT).target("x86").libraries
    texts = {
        "tdphf8ps": "%tmm2,%tmm1,%tmm0",
        "tdpbf8ps": "%tmm2,%tmm1,%tmm0",
        "vcvtph2hf8": "%ymm1,%xmm0",
        "vcvtph2bf8": "%ymm1,%xmm0",
    }
    assert {name for kernels in library_of_all.untried for name in kernels.instructions} == texts.keys()
    path = library(toolchain, tmp_path, " ".join(f'asm volatile("{name} {of}");' for name, of in texts.items()))
    untried = tuple((kernels.name, kernels.instructions) for kernels in library_of_all.untried)
    march = str(library_of_all.march)
    assert check(toolchain, path, march, untried=untried).untried == ("AMX-FP8", "AVX10.2")
    with pytest.raises(AuditError, match="in 1 function") as caught:
        check(toolchain, path, march, untried=untried[:1])
    assert "vcvtph2" in caught.value.output
