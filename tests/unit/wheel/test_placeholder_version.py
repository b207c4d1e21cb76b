from __future__ import annotations

import warnings
from pathlib import Path

import pytest
import setuptools_scm

from cpuwheels.wheel.placeholder_version import PLACEHOLDER, placeholder_for, with_version
from cpuwheels.wheel.setup_py_cache import Answers

VERSION = "0.32.1.dev38+g6985e51b4"
METADATA = "Metadata-Version: 2.4\nName: vllm\nVersion: {}.cpu\nRequires-Dist: torch==2.13.0\n"


def written_by_setuptools_scm(folder: Path, version: str) -> bytes:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        setuptools_scm.dump_version(folder, version, "_version.py")
    return (folder / "_version.py").read_bytes()


def answers(folder: Path, version: str, **others: str) -> Answers:
    info = folder / "metadata" / f"vllm-{version}.dist-info"
    (info / "licenses").mkdir(parents=True)
    (info / "METADATA").write_text(METADATA.format(version))
    (info / "licenses" / "LICENSE").write_text("as you like\n")
    own = folder / "own" / "vllm"
    own.mkdir(parents=True)
    written_by_setuptools_scm(own, version)
    for name, text in others.items():
        (own / f"{name}.py").write_text(text)
    source = folder / "source"
    source.mkdir()
    (source / "a.py").write_text(f"mentioned = '{PLACEHOLDER}'\n")
    files = {f"vllm/{path.name}": path for path in own.iterdir()} | {"vllm/a.py": source / "a.py"}
    return Answers(folder / "metadata", files)


def replaced(folder: Path, given: Answers, version: str = VERSION) -> Answers | None:
    return with_version(given, version, "cpu", source=folder / "source", work=folder / "work")


@pytest.mark.parametrize("version", [VERSION, "0.32.0.dev0+g0", "1.0.12.dev1234+gabcdef0123456789"])
def test_the_answers_are_those_that_the_version_itself_gives(tmp_path: Path, version: str) -> None:
    found = replaced(tmp_path, answers(tmp_path, PLACEHOLDER), version)
    assert found is not None
    (metadata,) = found.metadata.glob("*.dist-info/METADATA")
    assert metadata.read_text() == METADATA.format(version)
    assert (metadata.parent / "licenses" / "LICENSE").read_text() == "as you like\n"
    (tmp_path / "real").mkdir()
    assert found.files["vllm/_version.py"].read_bytes() == written_by_setuptools_scm(tmp_path / "real", version)
    assert found.files["vllm/a.py"] == tmp_path / "source" / "a.py"


@pytest.mark.parametrize(
    "text", [f"tag = 'v{PLACEHOLDER}'\n", "release = (98765, 43210, 56789)\n", "short = '98765.43210.56789'\n"]
)
def test_where_it_stands_otherwise_setup_py_has_to_be_asked(tmp_path: Path, text: str) -> None:
    assert replaced(tmp_path, answers(tmp_path, PLACEHOLDER, other=text)) is None


def test_nor_is_it_replaced_in_other_metadata(tmp_path: Path) -> None:
    given = answers(tmp_path, PLACEHOLDER)
    (metadata,) = given.metadata.glob("*.dist-info/METADATA")
    metadata.write_text(f"{METADATA.format(PLACEHOLDER)}Requires-Dist: vllm-kernels=={PLACEHOLDER}\n")
    assert replaced(tmp_path, given) is None


def test_only_versions_of_commits_have_a_stand_in() -> None:
    assert placeholder_for(VERSION) == PLACEHOLDER
    for version in ("0.32.0", "0.32.0rc1", "0.32.0.post1", "0.32.0.dev5", "0.32.1.dev5+g0.d20261123", "1.dev5+g0"):
        assert placeholder_for(version) == version
