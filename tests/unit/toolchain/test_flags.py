from __future__ import annotations

import itertools
from pathlib import Path

from cpuwheels.toolchain.flags import compile_flags, floor_flags, prefix_maps
from cpuwheels.toolchain.probe import Compiler
from cpuwheels.toolchain.requirements import Identity
from cpuwheels.toolchain.sysroot import Sysroot


def test_the_sysroot_comes_before_the_compilers_own_libraries(tmp_path: Path) -> None:
    for folder in ("usr/lib/m", "lib/m", "usr/include/python3.11", "usr/include/m/python3.11"):
        (tmp_path / folder).mkdir(parents=True)
    sysroot = Sysroot(tmp_path, "m")
    compiler = Compiler(
        cc=Path("/bin/gcc"),
        cxx=Path("/bin/g++"),
        identity=Identity("GNU", "14.2.0", "m"),
        title="",
        cxx_folders=(Path("/c++"), Path("/c++/m")),
        own_folders=(),
        static_library=Path("/c++/libstdc++.a"),
        tools={},
    )
    flags = floor_flags(sysroot, compiler, Path("/compat.a"), ("-B/tools",))
    assert flags.compile_flags == ("-B/tools", f"--sysroot={tmp_path}", "-idirafter", f"{tmp_path}/usr/include/m")
    assert flags.cxx_flags == ("-nostdinc++", "-isystem", "/c++", "-isystem", "/c++/m")
    assert [flag for flag in flags.link_flags if flag.startswith("-L")] == [
        f"-L{tmp_path}/usr/lib/m",
        f"-L{tmp_path}/lib/m",
    ]
    assert flags.cxx_libraries[-3:] == ("-Wl,--as-needed", "-lpthread", "-lrt")
    assert flags.cxx_libraries[:3] == (f"{tmp_path}/usr/lib/m/libstdc++.so.6", "/c++/libstdc++.a", "/compat.a")
    assert [path.relative_to(tmp_path).as_posix() for path in sysroot.python_include] == [
        "usr/include/python3.11",
        "usr/include/m/python3.11",
    ]


def test_a_c_library_of_the_compilers_own_is_not_seen(tmp_path: Path) -> None:
    compiler = Compiler(
        cc=Path("/bin/gcc"),
        cxx=Path("/bin/g++"),
        identity=Identity("GNU", "14.2.0", "m"),
        title="",
        cxx_folders=(Path("/c++"),),
        own_folders=(Path("/gcc/include"),),
        static_library=None,
        tools={},
        c_headers=True,
    )
    flags = compile_flags(Sysroot(tmp_path, "m"), compiler)
    assert flags[1] == "-nostdinc"
    folders = [Path(value) for flag, value in itertools.pairwise(flags) if flag == "-idirafter"]
    assert folders == [Path("/gcc/include"), tmp_path / "usr/include/m", tmp_path / "usr/include"]


def test_a_merged_sysroot_has_one_library_folder(tmp_path: Path) -> None:
    (tmp_path / "usr/lib/m").mkdir(parents=True)
    (tmp_path / "lib").symlink_to("usr/lib")
    assert Sysroot(tmp_path, "m").library_folders == (tmp_path / "usr/lib/m",)


def test_the_innermost_prefix_map_is_given_last() -> None:
    maps = prefix_maps(
        [
            (Path("/usr/include/c++/13/backward"), "/toolchain/c++/2"),
            (Path("/usr/include/c++/13"), "/toolchain/c++/0"),
            (Path("/store"), "/toolchain"),
            (Path("/store"), "/other"),
        ]
    )
    assert maps == (
        (Path("/store"), "/toolchain"),
        (Path("/usr/include/c++/13"), "/toolchain/c++/0"),
        (Path("/usr/include/c++/13/backward"), "/toolchain/c++/2"),
    )
