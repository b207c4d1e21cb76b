"""What the backend wrote of a wheel serves another version of the same, and nothing else."""

from __future__ import annotations

import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from cpuwheels.core.store import Store
from cpuwheels.wheel.core_metadata import read_project
from cpuwheels.wheel.dist_info_cache import DistInfoCache
from cpuwheels.wheel.overlay import Parts
from cpuwheels.wheel.pep517 import check_complete

METADATA = b"Metadata-Version: 2.4\nName: demo\nVersion: %s\nLicense-Expression: MIT\nLicense-File: LICENSE\n%s\nText\n"
TYPE = b"Description-Content-Type: text/markdown\n"
OLD, NEW = "1.0.dev1+gabc.cpu", "1.0.dev22+gdef.cpu"


def parts(folder: Path, version: str, *, text: str = "Text", terms: str = "terms") -> Parts:
    for name, content in (("kernel", "code"), ("LICENSE", terms)):
        (folder / name).write_text(content)
    (folder / "kernel").chmod(0o755)
    metadata = METADATA.replace(b"Text", text.encode()) % (version.encode(), TYPE)
    return Parts(
        read_project(metadata), {"demo/__init__.py": folder / "LICENSE"}, {"demo/_C.so": folder / "kernel"}, folder
    )


def written(folder: Path, version: str) -> Path:
    """Return a wheel as a backend would write it."""
    path = folder / f"demo-{version}-cp38-abi3-linux_x86_64.whl"
    info = f"demo-{version}.dist-info"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("demo/_C.so", "code")
        archive.writestr(f"{info}/METADATA", METADATA % (version.encode(), TYPE))
        archive.writestr(f"{info}/WHEEL", "Tag: cp38-abi3-linux_x86_64\n")
        archive.writestr(f"{info}/licenses/LICENSE", "terms")
        archive.writestr(f"{info}/RECORD", "")
    return path


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = Store(tmp_path / "cache")
    DistInfoCache(parts(tmp_path, OLD), "b", store).keep(written(tmp_path, OLD))
    return store


def test_another_version_of_the_same(tmp_path: Path, store: Store) -> None:
    wanted = parts(tmp_path, NEW)
    wheel = DistInfoCache(wanted, "b", store).wheel(tmp_path / "raw")
    assert wheel is not None
    assert wheel.name == f"demo-{NEW}-cp38-abi3-linux_x86_64.whl"
    check_complete(wheel, frozenset(wanted.kernels), wanted.project)
    with zipfile.ZipFile(wheel) as archive:
        assert archive.read(f"demo-{NEW}.dist-info/METADATA") == METADATA % (NEW.encode(), TYPE)
        assert archive.read(f"demo-{NEW}.dist-info/licenses/LICENSE") == b"terms"
        assert archive.getinfo("demo/_C.so").external_attr >> 16 & 0o111
        assert f"demo-{NEW}.dist-info/RECORD" not in archive.namelist()


@pytest.mark.parametrize(
    "changes", [{"text": "Other"}, {"terms": "other"}, {"backend": "c"}], ids=["readme", "licence", "backend"]
)
def test_anything_else_is_asked_of_the_backend(tmp_path: Path, store: Store, changes: dict[str, str]) -> None:
    backend = changes.pop("backend", "b")
    assert DistInfoCache(parts(tmp_path, NEW, **changes), backend, store).wheel(tmp_path / "raw") is None


def test_other_metadata_is_asked_of_the_backend(tmp_path: Path, store: Store) -> None:
    wanted = parts(tmp_path, NEW)
    for project in (replace(wanted.project, requirements=("numpy",)), replace(wanted.project, summary="s")):
        assert DistInfoCache(replace(wanted, project=project), "b", store).wheel(tmp_path / "raw") is None
    more = replace(wanted, package=wanted.package | {"other/__init__.py": tmp_path / "LICENSE"})
    assert DistInfoCache(more, "b", store).wheel(tmp_path / "raw") is None


def test_a_version_that_the_backend_wrote_in_another_way_is_not_kept(tmp_path: Path) -> None:
    store = Store(tmp_path / "cache")
    wanted = parts(tmp_path, "1.0.dev1+GABC.cpu")
    DistInfoCache(wanted, "b", store).keep(written(tmp_path, "1.0.dev1+gabc.cpu"))
    assert DistInfoCache(wanted, "b", store).wheel(tmp_path / "raw") is None
