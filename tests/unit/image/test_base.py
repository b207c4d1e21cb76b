"""The base of an image: the first one, or the alternate one where the first one's torch cannot be had."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from contexts import build_context
from cpuwheels.config.debian_lock import DebianLock, DebianPackage, load_lock
from cpuwheels.config.image_pins import ImageBase, ImagePins
from cpuwheels.config.options import BuildOptions
from cpuwheels.core.errors import ImageError, LockedError, MatrixError, TorchError
from cpuwheels.fetch.debian.resolve import lock_text
from cpuwheels.image import base as module
from cpuwheels.image.base import Base, choose_base, same_python

if TYPE_CHECKING:
    from cpuwheels.config.context import BuildContext

PINS = ImagePins(
    root="plain",
    compiler="compiler",
    python="3.11",
    without=("triton",),
    alternate=ImageBase(root="with-torch", python="3.14"),
)


def write_lock(root: Path, name: str, **versions: str) -> None:
    packages = tuple(
        DebianPackage(name=package, version=version, path=package, size=1, sha256="a" * 64)
        for package, version in versions.items()
    )
    lock = DebianLock(suites={}, architecture="amd64", packages=packages)
    (root / "locks").mkdir(exist_ok=True)
    (root / "locks" / f"{name}.yaml").write_text(lock_text(lock))


@pytest.fixture
def context(tmp_path: Path) -> BuildContext:
    write_lock(tmp_path, "plain", libc6="2.36-9")
    write_lock(tmp_path, "with-torch", **{"libc6": "2.43-7", "python3-torch": "2.14.1+dfsg-1"})
    return build_context(tmp_path, root=tmp_path)


def offering(monkeypatch: pytest.MonkeyPatch, *offered: str) -> list[tuple[str, ...]]:
    """Let CPU wheels of some versions of torch be there, and return for which Pythons one is asked for."""
    asked: list[tuple[str, ...]] = []

    def environment(context: BuildContext, torch: str) -> object:
        asked.append(context.matrix.python)
        if torch not in offered:
            raise TorchError(f"no CPU build of torch {torch}", where="PyTorch", output="no route")
        return SimpleNamespace(torch_version=f"{torch}+cpu")

    monkeypatch.setattr(module, "wheel_environment", environment)
    return asked


def choose(context: BuildContext, torch: str = "2.14.0", pins: ImagePins = PINS, *, compiler: bool = False) -> Base:
    return choose_base(context, pins, torch, compiler=compiler)


def test_a_torch_that_can_be_had_is_taken_for_the_bases_python(
    context: BuildContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = offering(monkeypatch, "2.14.0")
    found = choose(context, compiler=True)
    assert (found.pins, found.torch, found.fallback, found.locked_by) == (PINS, "2.14.0+cpu", "", "serve")
    assert asked == [("3.11",)]
    assert context.reporter.announcements == []


def test_the_alternate_base_is_announced_and_named(context: BuildContext, monkeypatch: pytest.MonkeyPatch) -> None:
    offering(monkeypatch)
    found = choose(context)
    assert (found.pins.root, found.pins.python, found.pins.without) == ("with-torch", "3.14", ("triton",))
    assert found.environment is None
    assert (found.torch, found.locked_by) == ("2.14.1+dfsg-1", "serve")
    assert found.fallback == "torch 2.14.1+dfsg-1 with Python 3.14 from locks/with-torch.yaml in place of 2.14.0"
    (said,) = context.reporter.announcements
    assert said.startswith("no wheel of torch 2.14.0 for x86_64 can be reached; the image has Debian's torch 2.14.1")


def test_locked_refuses_it(context: BuildContext, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    offering(monkeypatch)
    locked = build_context(tmp_path, root=context.root, options=BuildOptions(locked=True))
    with pytest.raises(LockedError, match="--locked refuses the alternate base") as caught:
        choose(locked)
    assert caught.value.output == "no route"
    assert "--allow-fallbacks" in caught.value.next_step


def test_locked_takes_it_if_fallbacks_are_allowed(
    context: BuildContext, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    offering(monkeypatch)
    options = BuildOptions(locked=True, allow_fallbacks=True)
    assert choose(build_context(tmp_path, root=context.root, options=options)).pins.root == "with-torch"


@pytest.mark.parametrize(
    ("torch", "pins"),
    [
        pytest.param("2.14.0", PINS.model_copy(update={"alternate": None}), id="no alternate base"),
        pytest.param("2.13.0", PINS, id="Debian's torch does not replace this one"),
    ],
)
def test_what_has_no_alternate_is_not_composed(
    torch: str, pins: ImagePins, context: BuildContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    offering(monkeypatch)
    with pytest.raises(TorchError, match="no CPU build of torch"):
        choose(context, torch, pins)


def test_the_alternate_base_has_to_have_a_compiler_for_that_flavour(
    context: BuildContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    offering(monkeypatch)
    with pytest.raises(ImageError, match=r"on locks/with-torch\.yaml has no flavour with a compiler"):
        choose(context, compiler=True)


def test_the_alternate_base_has_to_have_the_torch_that_the_matrix_names(
    context: BuildContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    offering(monkeypatch)
    write_lock(context.root, "with-torch", **{"python3-torch": "2.15.0+dfsg-1"})
    with pytest.raises(ImageError, match=r"the base has torch 2\.15\.0, and the wheel requires 2\.14\.0"):
        choose(context)
    write_lock(context.root, "with-torch", libc6="2.43-7")
    with pytest.raises(MatrixError, match="the base has no python3-torch"):
        choose(context)


def test_a_base_with_torch_is_for_wheels_of_that_torch(context: BuildContext) -> None:
    pins = ImagePins(root="with-torch", python="3.14")
    found = choose(context, "2.14.1", pins)
    assert (found.pins, found.torch, found.fallback, found.locked_by) == (pins, "2.14.1+dfsg-1", "", "image")
    assert choose(context, "2.14.0", pins).torch == "2.14.1+dfsg-1", "the matrix names it as the alternate"
    with pytest.raises(ImageError, match=r"the base has torch 2\.14\.1, and the wheel requires 2\.13\.0"):
        choose(context, "2.13.0", pins)


def test_another_machine_needs_a_base_with_torch(context: BuildContext, tmp_path: Path) -> None:
    arm = build_context(tmp_path, "arm", root=context.root)
    with pytest.raises(ImageError, match="an image of arm with PyTorch's torch is composed on aarch64"):
        choose(arm)


def test_another_machines_bytecode_is_compiled_by_the_same_python(context: BuildContext, tmp_path: Path) -> None:
    def write(name: str, version: str) -> None:
        write_lock(context.root, name, **{"python3.14-minimal": version, "libpython3.14-minimal": version})

    def found() -> str:
        lock = same_python(arm, Base(pins, load_lock(context.root, "of-arm"), None))
        return lock.packages[0].version if lock else ""

    x86 = context.target.model_copy(update={"image": PINS})
    arm = build_context(tmp_path, context.matrix.target("arm"), root=context.root, targets=(x86,))
    pins = ImagePins(root="of-arm", python="3.14")
    write("of-arm", "3.14.10-1")
    write("with-torch", "3.14.10-1")
    assert found() == "3.14.10-1"
    write("with-torch", "3.14.11-1")
    assert found() == "", "another release may write other bytecode"
    write("of-arm", "3.14.11-1")
    assert found() == "3.14.11-1"
    pins = pins.model_copy(update={"python": "3.13"})
    assert found() == ""
