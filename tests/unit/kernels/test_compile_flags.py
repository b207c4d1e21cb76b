"""The flags of each target, as CMake's compilation database has them."""

from __future__ import annotations

import json
from pathlib import Path

from cpuwheels.config.matrix import Library
from cpuwheels.kernels.compile_flags import common_flags, flags_of, read_flags, write_flags
from cpuwheels.kernels.request import configurations
from cpuwheels.kernels.workspace import Workspace
from kernel_request import TARGET

BUILD = "/cache/work/build"


def entry(target: str, file: str, flags: str, build: str = BUILD) -> dict[str, str]:
    return {
        "command": f"/tc/g++ -DX=1 -I/torch -isystem /x {flags} -ffile-prefix-map=/cache=. -o a.o -c {file}",
        "output": f"{build}/CMakeFiles/{target}.dir/{file}.o",
    }


def test_what_all_files_of_a_target_have_in_common() -> None:
    found = common_flags(
        [
            entry("_C", "a.cpp", "-O3 -mavx512f -std=c++20 -mamx-tile"),
            entry("_C", "b.cpp", "-O3 -std=c++20 -mavx512f"),
            entry("_C_AVX2", "a.cpp", "-O2 -mavx2"),
        ],
        BUILD,
    )
    assert found == {"_C": ("-DX=1", "-O3", "-mavx512f", "-std=c++20"), "_C_AVX2": ("-DX=1", "-O2", "-mavx2")}


def test_quoted_words_are_read_as_a_shell_does() -> None:
    quoted = entry("_C", "a.cpp", r"""-DTEXT=\"a\" '-DONE="1"' "-O2" """)
    assert common_flags([quoted], BUILD) == {"_C": ("-DX=1", '-DTEXT="a"', '-DONE="1"', "-O2")}


def test_a_library_has_the_name_that_it_has_in_the_wheel(tmp_path: Path) -> None:
    libraries = (Library(name="_C", isa=()), Library(name="_C_NEWER", module="_C", isa=(), cpuinfo="newer"))
    target = TARGET.model_copy(update={"libraries": libraries})
    spaces = [Workspace(tmp_path / "work", configuration) for configuration in configurations(target)]
    for space, flag in zip(spaces, ("-mavx2", "-mavx512f"), strict=True):
        space.build.mkdir(parents=True)
        entries = [entry("_C", "a.cpp", flag, str(space.build)), entry("spinloop", "s.cpp", flag, str(space.build))]
        (space.build / "compile_commands.json").write_text(json.dumps(entries))
    (tmp_path / "kept").mkdir()
    write_flags(flags_of(spaces), tmp_path / "kept")
    assert read_flags(tmp_path / "kept") == {
        "_C": ("-DX=1", "-mavx2"),
        "_C_NEWER": ("-DX=1", "-mavx512f"),
        "spinloop": ("-DX=1", "-mavx2"),
    }


def test_older_kernels_have_none(tmp_path: Path) -> None:
    assert read_flags(tmp_path) == {}
