"""A Debian root whose Python runs on this machine: made here of this machine's own programs."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cpuwheels.core.errors import ToolchainError
from cpuwheels.environment.debian_root import DebianRoot, compile_root, read_root
from cpuwheels.fetch.uv import install_alone
from small_wheels import write_wheel

ASK = "import sys; print(sys.executable); print(sys.argv[1:])"
LOADER = """\
#!/bin/sh
# Stands for the dynamic loader of the root: this machine's Python runs under the name that it is given.
echo "$@" > {told}
while [ "$1" != --argv0 ]; do shift; done
name="$2"; shift 3
exec -a "$name" {python} "$@"
"""


@pytest.fixture
def root(tmp_path: Path) -> DebianRoot:
    """A root; its Python is this machine's, and starts as the root's does."""
    folder = tmp_path / "a root"
    name = f"python{sys.version_info.major}.{sys.version_info.minor}"
    base = Path(sys.base_prefix)
    (folder / "usr/bin").mkdir(parents=True)
    (folder / "usr/bin" / name).write_bytes(b"")
    (folder / "usr/bin/python3").symlink_to(name)
    (folder / "usr/lib").mkdir()
    (folder / "usr/lib" / name).symlink_to(base / "lib" / name)
    packages = folder / "usr/lib/python3/dist-packages"
    for path, text in {
        "torch/__init__.py": "here = __file__\n",
        "torchgen/__init__.py": "",
        "functorch/__init__.py": "",
        "other/__init__.py": "",
        "torch-2.14.1+debian.dist-info/METADATA": "Name: torch\nVersion: 2.14.1+debian\nRequires-Dist: sympy>=1\n",
    }.items():
        (packages / path).parent.mkdir(parents=True, exist_ok=True)
        (packages / path).write_text(text)
    loader = folder / "usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2"
    loader.parent.mkdir()
    python = shutil.which(name, path=f"{base}/bin") or sys.executable
    loader.write_text(LOADER.format(told=tmp_path / "told", python=python).replace("/bin/sh", "/bin/bash"))
    loader.chmod(0o755)
    return read_root(folder, "x86", "root-x")


def said(python: Path, code: str, *words: str) -> list[str]:
    done = subprocess.run([python, "-c", code, *words], check=True, capture_output=True, text=True)
    return done.stdout.splitlines()


def test_what_a_root_holds(root: DebianRoot) -> None:
    assert root.torch_version == "2.14.1+debian"
    assert root.python_version == f"{sys.version_info.major}.{sys.version_info.minor}"
    assert root.torch_requirements() == ["sympy>=1"]


def test_every_library_is_the_roots_and_python_takes_the_script_for_itself(root: DebianRoot, tmp_path: Path) -> None:
    python = root.environment(tmp_path / "venv", packages=True)
    assert said(python, ASK, "a b") == [str(python), "['a b']"]
    told = (tmp_path / "told").read_text()
    libraries = f"{root.folder}/usr/lib/x86_64-linux-gnu:{root.folder}/usr/lib"
    assert told.startswith(f"--inhibit-cache --library-path {libraries} --argv0 {python} {root.python} ")


def test_an_environment_has_torch_alone_or_finds_all_packages(root: DebianRoot, tmp_path: Path) -> None:
    alone = root.environment(tmp_path / "alone", packages=False)
    ask = "import importlib.metadata, torch; print(torch.here, importlib.metadata.version('torch'))"
    site = tmp_path / "alone" / "lib" / root.python.name / "site-packages"
    assert said(alone, ask) == [f"{site}/torch/__init__.py 2.14.1+debian"]
    assert said(alone, "import importlib.util as u; print(u.find_spec('other'))") == ["None"]
    root.environment(tmp_path / "all", packages=True)
    found = [(tmp_path / name / "pyvenv.cfg").read_text().splitlines()[1] for name in ("alone", "all")]
    assert found == ["include-system-site-packages = false", "include-system-site-packages = true"]


def test_wheels_are_installed_next_to_the_roots_torch_and_never_into_the_root(root: DebianRoot, tmp_path: Path) -> None:
    before = sorted(root.folder.rglob("*"))
    python = root.environment(tmp_path / "venv", packages=False)
    wheel = write_wheel(tmp_path, "vllm", "1.0", {"vllm/__init__.py": ""})
    install_alone(wheel, python, tmp_path / "log")
    assert said(python, "import torch, vllm; print(vllm.__file__)")[0].startswith(f"{tmp_path / 'venv'}/")
    assert [path for path in sorted(root.folder.rglob("*")) if "__pycache__" not in str(path)] == before


def test_bytecode_names_the_place_where_the_root_will_be(root: DebianRoot, tmp_path: Path) -> None:
    library = root.folder / "usr/lib" / root.python.name
    library.unlink()
    library.mkdir()
    compile_root(root.folder, tmp_path / "final", tmp_path / "log")
    (made,) = (root.packages / "torch" / "__pycache__").iterdir()
    assert f"{tmp_path / 'final'}/usr/lib/python3/dist-packages/torch/__init__.py".encode() in made.read_bytes()


def test_a_root_that_does_not_run_here_is_told(root: DebianRoot, tmp_path: Path) -> None:
    next(root.folder.glob("usr/lib/*/ld-linux*")).write_text("#!/bin/sh\necho 'libz.so.1: no such file'\nexit 127\n")
    with pytest.raises(ToolchainError, match="Debian's Python does not run on this machine") as caught:
        compile_root(root.folder, tmp_path / "final", tmp_path / "log")
    assert "libz.so.1" in caught.value.output


@pytest.mark.parametrize(
    ("gone", "message", "step"),
    [("usr/bin/python3", "has no Python", "python3"), ("torch-2.14.1+debian.dist-info", "has no torch", "root-x.yaml")],
)
def test_what_a_root_lacks_is_named(root: DebianRoot, gone: str, message: str, step: str) -> None:
    path = next(root.folder.rglob(gone)) if "/" not in gone else root.folder / gone
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    with pytest.raises(ToolchainError, match=message) as caught:
        read_root(root.folder, "x86", "root-x")
    assert step in caught.value.next_step


def test_a_root_without_a_loader_is_named(root: DebianRoot, tmp_path: Path) -> None:
    next(root.folder.glob("usr/lib/*/ld-linux*")).unlink()
    with pytest.raises(ToolchainError, match="no dynamic loader"):
        root.environment(tmp_path / "venv", packages=True)
