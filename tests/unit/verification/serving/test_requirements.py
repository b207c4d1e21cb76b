from __future__ import annotations

from pathlib import Path

import pytest
from packaging.requirements import Requirement

from cpuwheels.config.host import markers
from cpuwheels.config.matrix import load_matrix
from cpuwheels.verification.serving.requirements import lock_fits, moved_requirements, requirements_of, unmet

LINES = [
    'torch==2.13.0+cpu; platform_machine == "x86_64"',
    'numba==0.65.0; platform_machine == "s390x"',
    "Pillow>=12",
    'six>=1.16; python_version > "3.11"',
    'triton==3.8.0+cpu; platform_machine == "x86_64" and python_version == "3.11" and extra == "triton"',
    'fastsafetensors>=0.2; extra == "fastsafetensors"',
]


@pytest.fixture
def about(project_root: Path) -> dict[str, str]:
    return markers(load_matrix(project_root).target("x86"), "3.11")


def test_only_what_applies_is_required(about: dict[str, str]) -> None:
    assert [one.name for one in requirements_of(LINES, about)] == ["torch", "Pillow"]


def test_what_upstream_names_by_url_is_told_apart_from_its_own_extras(about: dict[str, str]) -> None:
    assert moved_requirements(LINES, about) == ["triton==3.8.0+cpu"]
    assert moved_requirements(LINES, about | {"python_version": "3.12"}) == []


@pytest.mark.parametrize(
    ("lock", "misfits"),
    [
        ("pillow==12.1 \\\n    --hash=sha256:0\n", []),
        ("pillow==13.0rc1\n", []),
        ("pillow==11.9\n", ["Pillow>=12"]),
        ("pillows==12.1\n", ["Pillow>=12"]),
        ("", ["Pillow>=12"]),
    ],
)
def test_a_lock_fits_if_it_has_a_version_that_does(lock: str, misfits: list[str]) -> None:
    wanted = [Requirement("Pillow>=12"), Requirement("torch==2.13.0+cpu"), Requirement("torchvision")]
    assert lock_fits(lock, wanted) == misfits


def test_what_is_not_there_or_in_another_version_is_unmet(about: dict[str, str], tmp_path: Path) -> None:
    site = tmp_path / "site"
    for name, version, needs in (("a", "1", ["b>=2", "c", "a"]), ("b", "1", [])):
        info = site / f"{name}-{version}.dist-info"
        info.mkdir(parents=True)
        lines = "".join(f"Requires-Dist: {need}\n" for need in needs)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{lines}")
    assert [(one.name, one.requirement, one.by) for one in unmet(site, about)] == [("b", "b>=2", "a"), ("c", "c", "a")]
