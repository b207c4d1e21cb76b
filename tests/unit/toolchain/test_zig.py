"""zig's installation: from its lock alone, once, and only what runs here."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from contexts import build_context
from cpuwheels.config.matrix import load_matrix
from cpuwheels.core.errors import ToolchainError
from cpuwheels.toolchain import zig as module
from cpuwheels.toolchain.zig import Zig, installed_zig, is_needed

ZIG = """\
#!/bin/sh
case " $* " in
" version ") echo 0.99.1 ;;
*" -dM "*) [ "$2 $3" = "-target aarch64-macos.14.0" ] || exit 1
  printf '#define %s\\n' '__clang__ 1' '__clang_major__ 20' '__clang_minor__ 1' '__clang_patchlevel__ 2' ;;
*) exit 1 ;;
esac
"""
UV = f"""\
#!{sys.executable}
import os, shutil, sys
with open({{given!r}}, "a") as stream:
    stream.write(" ".join(sys.argv[1:]) + "\\n")
folder = os.path.join(sys.argv[sys.argv.index("--target") + 1], "ziglang")
os.makedirs(folder)
shutil.copy({{zig!r}}, os.path.join(folder, "zig"))
"""
"""Stands for uv: installs a zig that answers questions, and writes down how it is started."""

Install = Callable[..., Zig]


@pytest.fixture
def uv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    program = tmp_path / "uv"
    zig = tmp_path / "zig"
    program.write_text(UV.format(given=str(tmp_path / "given"), zig=str(zig)))
    zig.write_text(ZIG)
    for path in (program, zig):
        path.chmod(0o755)
    monkeypatch.setattr(module, "find_uv_bin", lambda: program)
    return program


@pytest.fixture
def install(uv: Path, tmp_path: Path) -> Install:
    assert uv.is_file()

    def install(lock: str = "ziglang==0.99.1\n") -> Zig:
        (tmp_path / "zig.txt").write_text(lock)
        return installed_zig(build_context(tmp_path / "store", "macos"), tmp_path / "zig.txt")

    return install


def installations(base: Path) -> list[str]:
    return (base / "given").read_text().splitlines()


def test_it_comes_from_its_lock_alone(install: Install, tmp_path: Path) -> None:
    found = install()
    (given,) = installations(tmp_path)
    assert given.startswith("pip install --target ")
    assert given.endswith(
        f"/packages --only-binary :all: --no-deps --link-mode copy --require-hashes -r {tmp_path / 'zig.txt'}"
    )
    compiler = found.compiler
    assert (str(compiler.identity), compiler.title) == ("Clang 20.1.2", "zig 0.99.1")
    assert (compiler.cc, compiler.cxx) == (found.folder / "bin/cc", found.folder / "bin/c++")
    assert compiler.tools["ar"] == found.folder / "bin/ar"
    assert all(path.stat().st_mode & 0o111 for path in (found.folder / "bin").iterdir())


def test_it_is_installed_once_for_each_lock(install: Install, tmp_path: Path) -> None:
    first = install()
    assert install() == first
    assert len(installations(tmp_path)) == 1
    other = install("ziglang==0.99.2\n")
    assert other.folder != first.folder
    assert other.digest != first.digest
    assert len(installations(tmp_path)) == 2


def test_what_it_makes_does_not_depend_on_the_machine(install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    first = install()
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    second = install()
    assert second.folder != first.folder
    assert second.digest == first.digest


@pytest.mark.parametrize("zig", ["#!/bin/sh\nexit 1\n", "#!/bin/sh\necho 1\n", ZIG.replace("2' ;;", "2'; exit 3 ;;")])
def test_one_that_does_not_run_here_or_is_no_compiler_is_refused(install: Install, tmp_path: Path, zig: str) -> None:
    (tmp_path / "zig").write_text(zig)
    with pytest.raises(ToolchainError, match="zig does not run on this machine, or is no compiler"):
        install()


def test_one_that_cannot_be_installed_is_told(install: Install, uv: Path, tmp_path: Path) -> None:
    uv.write_text("#!/bin/sh\necho 'error: no such package'\nexit 1\n")
    with pytest.raises(ToolchainError, match="zig cannot be installed") as raised:
        install()
    assert raised.value.output == "error: no such package"
    assert not list((tmp_path / "store" / "toolchains").glob("*"))


@pytest.mark.parametrize(
    ("target", "system", "needed"),
    [("macos", "Linux", True), ("macos", "Darwin", False), ("x86", "Darwin", False), ("x86", "Linux", False)],
)
def test_a_mac_has_its_own_compiler(
    project_root: Path, monkeypatch: pytest.MonkeyPatch, target: str, system: str, *, needed: bool
) -> None:
    monkeypatch.setattr("platform.system", lambda: system)
    assert is_needed(load_matrix(project_root).target(target)) is needed
