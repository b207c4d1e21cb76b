from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import pytest

from cpuwheels.errors import WheelError
from cpuwheels.wheel.metadata import local_version, upstream_package

if TYPE_CHECKING:
    from pathlib import Path

# Stands in for the build environment's interpreter: writes what the PEP 517 hook and build_py would write,
# and keeps what it was given.
FAKE_PYTHON = """\
#!/bin/sh
env | sort > "{seen}/env"
cp -r . "{seen}/source"
case "$1" in
-c)
    info="$3/vllm-{version}.dist-info"
    mkdir -p "$info/licenses"
    printf 'Metadata-Version: 2.4\\nName: vllm\\nVersion: {version}\\n' > "$info/METADATA"
    ;;
*)
    {fault}
    mkdir -p "$5/vllm"
    echo "code" > "$5/vllm/__init__.py"
    ;;
esac
"""


def fake_python(folder: Path, *, version: str = "0.32.0+cpu", fault: str = ":") -> Path:
    seen = folder / "seen"
    seen.mkdir()
    python = folder / "bin" / "python"
    python.parent.mkdir()
    python.write_text(textwrap.dedent(FAKE_PYTHON).format(seen=seen, version=version, fault=fault))
    python.chmod(0o755)
    return python


def source_tree(folder: Path) -> Path:
    source = folder / "source"
    for name in (
        "vllm/__init__.py",
        "vllm/data.json",
        "vllm/_C.abi3.so",
        "vllm/__pycache__/a.pyc",
        ".git/HEAD",
    ):
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_text("")
    (source / "pyproject.toml").write_text('[project]\nname = "vllm"\n')
    return source


@pytest.mark.parametrize(
    ("version", "local"),
    [("0.32.0", "0.32.0+cpu"), ("0.32.1.dev5+gabc.dirty", "0.32.1.dev5+gabc.dirty.cpu")],
)
def test_the_label_follows_a_local_part(version: str, local: str) -> None:
    assert local_version(version, "cpu") == local


def test_the_source_is_asked_in_a_private_copy_and_a_closed_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VLLM_USE_PRECOMPILED", "1")
    source = source_tree(tmp_path)
    package = upstream_package(
        source, version="0.32.0", python=fake_python(tmp_path), work=tmp_path / "work", log=tmp_path / "log"
    )
    assert package.project.version == "0.32.0+cpu"
    assert (package.package / "vllm/__init__.py").read_text() == "code\n"
    seen = (tmp_path / "seen/env").read_text()
    assert "VLLM_TARGET_DEVICE=cpu" in seen
    assert "SETUPTOOLS_SCM_PRETEND_VERSION=0.32.0\n" in seen
    assert "VLLM_USE_PRECOMPILED" not in seen
    assert not (source / "vllm.egg-info").exists()
    copied = tmp_path / "seen/source"
    assert not (copied / ".git").exists()
    # What an sdist would list; a built module that lies in the tree is none of it.
    assert (copied / "vllm.egg-info/SOURCES.txt").read_text().split() == [
        "pyproject.toml",
        "vllm/__init__.py",
        "vllm/data.json",
    ]


def test_an_sdists_own_list_is_kept(tmp_path: Path) -> None:
    source = source_tree(tmp_path)
    (source / "vllm.egg-info").mkdir()
    (source / "vllm.egg-info/SOURCES.txt").write_text("own\n")
    upstream_package(
        source, version="0.32.0", python=fake_python(tmp_path), work=tmp_path / "work", log=tmp_path / "log"
    )
    assert (tmp_path / "seen/source/vllm.egg-info/SOURCES.txt").read_text() == "own\n"


def test_another_version_is_refused(tmp_path: Path) -> None:
    python = fake_python(tmp_path, version="0.32.0")
    with pytest.raises(WheelError, match=r"gives version 0\.32\.0, expected 0\.32\.0\+cpu"):
        upstream_package(
            source_tree(tmp_path),
            version="0.32.0",
            python=python,
            work=tmp_path / "work",
            log=tmp_path / "log",
        )


def test_a_failing_setup_is_told_in_its_own_words(tmp_path: Path) -> None:
    python = fake_python(tmp_path, fault="echo no module named torch; exit 3")
    with pytest.raises(WheelError) as caught:
        upstream_package(
            source_tree(tmp_path),
            version="0.32.0",
            python=python,
            work=tmp_path / "work",
            log=tmp_path / "log",
        )
    assert "no module named torch" in caught.value.output
    assert caught.value.log == tmp_path / "log"
