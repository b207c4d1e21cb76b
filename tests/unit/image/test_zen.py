from __future__ import annotations

from pathlib import Path

import pytest

from contexts import build_context
from cpuwheels.config.debian_lock import DebianLock
from cpuwheels.config.image_pins import ImagePins
from cpuwheels.core.errors import ImageError, LockedError
from cpuwheels.image import zen
from cpuwheels.image.zen import zen_lock, zen_requirement
from cpuwheels.wheel.kernel_wheel import KernelWheel

WHEEL = Path("vllm.whl")
EXTRA = 'zentorch==2.13.0.1; extra == "zen"'


def test_the_extra_of_the_wheels_torch_is_taken() -> None:
    assert str(zen_requirement(["demo", EXTRA], "2.13.0", WHEEL).specifier) == "==2.13.0.1"


@pytest.mark.parametrize(
    ("requires", "torch", "why"),
    [
        ([EXTRA], "2.14.0", r"zentorch==2\.13\.0\.1 is for torch 2\.13\.0, and the wheel requires torch 2\.14\.0"),
        (['zentorch; extra == "zen"'], "2.13.0", "for torch of any version"),
        (["demo"], "2.13.0", "has no extra zen"),
        (['zentorch==2.13.0.1; extra == "other"'], "2.13.0", "has no extra zen"),
    ],
)
def test_another_is_refused_with_the_reason(requires: list[str], torch: str, why: str) -> None:
    with pytest.raises(ImageError, match=why):
        zen_requirement(requires, torch, WHEEL)


def test_it_has_to_be_locked_in_the_version_that_the_wheel_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = build_context(tmp_path, root=tmp_path)
    wheel = KernelWheel(WHEEL, "", "0.32.0+cpu", "2.13.0", {}, requires=(EXTRA,))
    others = tmp_path / "x86-0.32.0-py3.11.txt"
    others.write_text("numpy==2.0 \\\n    --hash=sha256:aa\n")
    arguments = (
        context,
        wheel,
        ImagePins(root="base", python="3.11"),
        others,
        DebianLock(suites={}, architecture="amd64"),
    )
    lock = tmp_path / "locks" / "image" / "x86-0.32.0-py3.11-zen.txt"
    with pytest.raises(LockedError, match=r"zentorch==2\.13\.0\.1 is not locked"):
        zen_lock(*arguments, relock=False)

    def resolve(wanted: list[str], *_: object) -> None:
        lock.parent.mkdir(parents=True)
        lock.write_text(f"numpy==2.0 \\\n    --hash=sha256:aa\n{wanted[0]} \\\n    --hash=sha256:bb\n")

    monkeypatch.setattr(zen, "resolve", resolve)
    assert zen_lock(*arguments, relock=True) == lock
    assert lock.read_text() == "zentorch==2.13.0.1 \\\n    --hash=sha256:bb\n"
    assert zen_lock(*arguments, relock=False) == lock
    lock.write_text("zentorch==2.13.0.0 \\\n    --hash=sha256:bb\n")
    with pytest.raises(LockedError):
        zen_lock(*arguments, relock=False)
