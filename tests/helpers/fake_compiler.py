"""Writes fake compilers: shell scripts that answer the questions asked of a compiler."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cpuwheels.config.matrix import CompilerRequirements, Library, Target

if TYPE_CHECKING:
    from pathlib import Path

GATE = CompilerRequirements(family="GNU", minimum="12.3", commands=("g++-14", "g++-13", "g++"))

TARGET = Target(
    id="x86",
    description="x86-64",
    status="ready",
    system="Linux",
    machine="x86_64",
    floor="manylinux_2_28",
    compiler=GATE,
    toolchain="compiler",
    sysroot="sysroot",
    libraries=(Library(name="_C", isa=("avx2",)),),
    worst_peak=1 << 30,
    worst_peak_debug=1 << 30,
)

_SCRIPT = """\
#!/bin/sh
case " $* " in
*" --version "*) echo '{name} ({title}) {version}'; echo 'Copyright' ;;
*" -dumpmachine "*) echo {machine} ;;
*" -dumpspecs "*) echo '*link: -m elf' ;;
*" -dM "*) cat {parts}/macros ;;
*" -print-file-name=libstdc++.a "*) echo {static} ;;
*" -print-file-name="*) for last; do :; done; echo {parts}/"${{last#-print-file-name=}}" ;;
*" -print-prog-name="*) for last; do :; done; echo {parts}/"${{last#-print-prog-name=}}" ;;
*" -v "*)
  echo '#include <...> search starts here:' >&2
  case " $* " in *" --sysroot=/nonexistent "*) echo ' {parts}/include' >&2
    test {c_headers} = False || echo ' {parts}/c' >&2; echo 'End of search list.' >&2; exit ;; esac
  case " $* " in *" c++ "*) printf ' %s\\n' {parts}/c++/{version} {parts}/c++/{version}/backward >&2 ;; esac
  echo ' {parts}/include' >&2; echo ' /usr/include' >&2; echo 'End of search list.' >&2 ;;
*) echo "unexpected: $*" >&2; exit 9 ;;
esac
"""


@dataclass
class Fake:
    """A compiler to write into a folder."""

    version: str = "13.3.0"
    machine: str = "x86_64-linux-gnu"
    title: str = "Fake"
    clang: bool = False
    static: bool = True
    objcopy: bool = True
    c_headers: bool = False

    def write(self, folder: Path, name: str, *, c_name: str = "") -> Path:
        """Write C++ and C compiler and their parts; return the C++ compiler."""
        parts = folder / f"{name}.parts"
        parts.mkdir(parents=True)
        for folder_name in (f"c++/{self.version}/backward", "include"):
            (parts / folder_name).mkdir(parents=True)
        for file in ("cc1", "cc1plus", "ar", "ranlib", "strip", "objcopy", "objdump", "as", "ld", "libstdc++.a"):
            (parts / file).write_text(f"{file} {self.version}\n")
            (parts / file).chmod(0o755)
        (parts / "c").mkdir()
        (parts / "c/features.h").write_text("")
        if not self.objcopy:
            (parts / "objcopy").unlink()
        major, minor, patch = self.version.split(".")
        macros = {"__GNUC__": major, "__GNUC_MINOR__": minor, "__GNUC_PATCHLEVEL__": patch}
        if self.clang:
            macros |= {"__clang__": "1", "__clang_major__": major, "__clang_minor__": minor}
        (parts / "macros").write_text("".join(f"#define {key} {value}\n" for key, value in macros.items()))
        answers = vars(self) | {"static": parts / "libstdc++.a" if self.static else "libstdc++.a"}
        for program in (name, c_name or name.replace("g++", "gcc")):
            text = _SCRIPT.format(parts=parts, name=program, **answers)
            (folder / program).write_text(text)
            (folder / program).chmod(0o755)
        return folder / name
