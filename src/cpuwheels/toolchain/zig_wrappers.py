"""The programs that replace a compiler and its tools where zig makes Mach-O files. Pure.

CMake wants one path for each program, and zig is one program with commands. Its driver also knows a few things by
other names than Apple's: those are translated here, one argument at a time, so that upstream's flags stay as they
are.
"""

from __future__ import annotations

RECIPE = 1
"""Increased when the same zig would compile or link otherwise through these programs."""

TOOLS = ("ar", "ranlib", "strip", "objcopy")

PACKAGES = "packages"
"""Folder next to the programs that zig's package is installed into."""

_START = f"""\
here=$(cd "${{0%/*}}" && pwd -P) || exit 1
zig=${{here%/*}}/{PACKAGES}/ziglang/zig
# Without these zig would write into the current folder. The entry of the store that this file is in is sealed, so the
# caches lie with the unfinished work beside it.
ZIG_GLOBAL_CACHE_DIR=${{CPUWHEELS_ZIG_CACHE:-${{here%/*/*/*}}/work/zig}}
ZIG_LOCAL_CACHE_DIR=$ZIG_GLOBAL_CACHE_DIR
export ZIG_GLOBAL_CACHE_DIR ZIG_LOCAL_CACHE_DIR
"""

_DRIVER = """\
left=$#
output=a.out
module=
while [ "$left" -gt 0 ]; do
  argument=$1
  shift
  left=$((left - 1))
  case $argument in
    -march=armv*)
      # zig takes the value of -march for the name of a CPU.
      argument=$(printf '%s\\n' "$argument" | sed \\
        -e 's/^-march=armv\\([0-9]*\\)\\.\\([0-9]*\\)-a/-mcpu=generic+v\\1_\\2a/' \\
        -e 's/^-march=armv\\([0-9]*\\)-a/-mcpu=generic+v\\1a/' \\
        -e 's/+fp16+/+fullfp16+/' -e 's/+fp16$/+fullfp16/')
      ;;
    -bundle)
      # zig's linker makes no bundles; Python loads a library just as well.
      argument=-shared
      module=yes
      ;;
    -o)
      set -- "$@" -o
      argument=$1
      output=$1
      shift
      left=$((left - 1))
      ;;
  esac
  set -- "$@" "$argument"
done
# Else the library would be named after the path that it is linked to.
[ -z "$module" ] || set -- "$@" "-Wl,-install_name,@rpath/${output##*/}"
"""

_BODIES = {
    "cc": f'{_DRIVER}exec "$zig" cc "$@"\n',
    "c++": f'{_DRIVER}exec "$zig" c++ "$@"\n',
    "ar": 'exec "$zig" ar "$@"\n',
    "ranlib": 'exec "$zig" ranlib "$@"\n',
    # zig removes symbols while it links and has no programs for finished Mach-O files, whose signature another would
    # break.
    **dict.fromkeys(
        ("strip", "objcopy", "objdump", "as"), "echo 'Mach-O files are made by linking alone' >&2\nexit 1\n"
    ),
}


def programs() -> dict[str, str]:
    """Return the shell scripts by file name."""
    return {name: f"#!/bin/sh\n{_START}{body}" for name, body in _BODIES.items()}
