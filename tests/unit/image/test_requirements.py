from __future__ import annotations

from pathlib import Path

import pytest

from contexts import build_context
from cpuwheels.config.debian_lock import DebianLock, DebianPackage
from cpuwheels.config.image_pins import ImagePins
from cpuwheels.core.errors import ImageError, LockedError
from cpuwheels.image import requirements
from cpuwheels.image.requirements import locked_requirements, uv_platform
from cpuwheels.wheel.kernel_wheel import KernelWheel


@pytest.mark.parametrize(("glibc", "platform"), [(36, "aarch64-manylinux_2_36"), (43, "aarch64-manylinux_2_40")])
def test_uv_is_asked_for_a_platform_that_it_knows(glibc: int, platform: str) -> None:
    assert uv_platform("aarch64", base(glibc)) == platform


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """What is resolved in place of asking an index; every machine has all wheels."""
    found: list[tuple[str, ...]] = []
    monkeypatch.setattr(requirements, "refuse_missing", lambda wanted, *_: found.append(tuple(wanted)))
    return found


def base(glibc: int, *names: str) -> DebianLock:
    """Return the lock of a base with a C library and some packages."""
    versions = {"libc6": f"2.{glibc}-1"} | dict.fromkeys(names, "1")
    packages = tuple(
        DebianPackage(name=name, version=version, path=name, size=1, sha256="a" * 64)
        for name, version in versions.items()
    )
    return DebianLock(suites={}, architecture="amd64", packages=packages)


def wheel(path: Path, *needs: str) -> KernelWheel:
    return KernelWheel(path, "", "0.32.0+cpu", "2.13.0", {}, requires=needs)


def test_a_lock_has_to_fit(tmp_path: Path, asked: list[tuple[str, ...]]) -> None:
    context = build_context(tmp_path, root=tmp_path)
    pins = ImagePins(root="base", python="3.11")
    needs = wheel(tmp_path / "x.whl", "torch==2.13.0", "demo>=2", "other; platform_machine == 's390x'")
    with pytest.raises(LockedError, match="a lock is missing") as caught:
        locked_requirements(context, needs, pins, base(36), "serve", relock=False)
    assert caught.value.next_step == "write it with nox -s serve-x86 -- --relock"
    assert asked == [("torch==2.13.0", "demo>=2")]
    lock = tmp_path / "locks" / "serve" / "x86-0.32.0-py3.11.txt"
    lock.parent.mkdir(parents=True)
    lock.write_text("demo==1.0 \\\n    --hash=sha256:aa\n")
    with pytest.raises(LockedError, match="demo>=2 is missing"):
        locked_requirements(context, needs, pins, base(36), "serve", relock=False)
    lock.write_text("demo==2.0 \\\n    --hash=sha256:aa\n")
    assert locked_requirements(context, needs, pins, base(36), "serve", relock=False) == lock


def test_what_has_no_wheels_ends_the_image_with_all_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    context = build_context(tmp_path, "s390x", root=tmp_path)
    found = ["native==2.0", "newer==3.0", "source==4.0"]
    asked: list[dict[str, object]] = []
    monkeypatch.setattr(requirements, "missing_wheels", lambda *_, **about: asked.append(about) or found)
    pins = ImagePins(root="b", python="3.14")
    with pytest.raises(
        ImageError, match=r"2 requirements have no wheel for s390x and Python 3\.14: native==2\.0, source"
    ):
        locked_requirements(context, wheel(tmp_path / "x.whl"), pins, base(41, "python3-newer"), "image", relock=False)
    assert [each["glibc"] for each in asked] == [41]
