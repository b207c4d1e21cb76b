"""An image of a wheel composed from its layers, each of them in the store: base, requirements, torch, compiler, wheel.

The order is that of change, the rarest first: the next wheel of the same release brings one new layer.
"""

from __future__ import annotations

import shutil
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cpuwheels.config.debian_lock import load_lock
from cpuwheels.config.host import is_foreign, markers
from cpuwheels.core.digests import text_digest
from cpuwheels.core.errors import ImageError
from cpuwheels.environment.torch_install import offer_environment
from cpuwheels.fetch.uv import uv_environment
from cpuwheels.image.base import choose_base, same_python
from cpuwheels.image.contents import Contents, debian_packages, locked, wheel_in
from cpuwheels.image.labels import labels
from cpuwheels.image.layers import EARLIEST, Member, stored_layer
from cpuwheels.image.oci import Image, Settings
from cpuwheels.image.python_packages import emulated_python, install, unpacked_python, without
from cpuwheels.image.requirements import locked_requirements, uv_platform
from cpuwheels.image.root_filesystem import HOME, USER, base_members, base_root, compiler_members
from cpuwheels.image.zen import zen_lock
from cpuwheels.pipeline.provenance import note_or_none
from cpuwheels.verification.emulation.cpus import plainest_cpu
from cpuwheels.verification.emulation.qemu import find_emulator
from cpuwheels.wheel.kernel_wheel import read_wheel

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from cpuwheels.config.context import BuildContext
    from cpuwheels.config.image_pins import ImagePins
    from cpuwheels.config.options import ImageOptions
    from cpuwheels.environment.sealed_env import Environment
    from cpuwheels.image.base import Base
    from cpuwheels.image.contents import Locked
    from cpuwheels.image.layers import Layer
    from cpuwheels.image.python_packages import ImagePython
    from cpuwheels.pipeline.provenance import WheelNote
    from cpuwheels.wheel.kernel_wheel import KernelWheel

PORT = 8000
_DEBIAN_PYTHON = "usr/lib/python3/dist-packages"
"""Where a base has packages such as Debian's torch."""

EAGER = ("sh", "-c", 'exec vllm serve "$@" --enforce-eager', "vllm")
"""The entrypoint without a compiler, which torch.compile needs at run time. The option is put behind the user's
arguments: with --served-model-name vLLM accepts no option in front of the model."""

COMPILING = ("vllm", "serve")
"""The entrypoint with a compiler."""

_HEALTH = (
    "python3",
    "-c",
    f"import urllib.request; urllib.request.urlopen('http://127.0.0.1:{PORT}/health', timeout=8)",
)
_PATH = "/usr/local/bin:/usr/bin:/bin"


@dataclass(frozen=True)
class _Packing:
    """What all layers of Python packages share.

    Attributes:
        context: The run.
        python: The image's Python.
        interpreter: One that runs here, for uv; of the same version, if no platform is named.
        platform: uv's options for packages of another machine.
    """

    context: BuildContext
    python: ImagePython
    interpreter: Path
    platform: tuple[str, ...] = ()

    def layer(
        self,
        name: str,
        epoch: int,
        what: Callable[[Path], Sequence[str | Path]],
        env: Mapping[str, str],
        **inputs: object,
    ) -> Layer:
        """Return the layer of some packages.

        Args:
            name: What it holds.
            epoch: Time of its files.
            what: Returns uv's arguments; gets a folder for files that they name.
            env: uv's variables.
            inputs: What the packages are named by.
        """
        context = self.context
        log = context.logs / "image-packages.log"
        with context.store.scratch("image") as work:

            def make() -> Mapping[str, Member]:
                context.reporter.info(f"packing {name}")
                return install([*self.platform, *what(work)], self.python, self.interpreter, work, log, env)

            return stored_layer(context.store, name, epoch, make, python=self.python.key, **inputs)


def compose(context: BuildContext, wheel: Path, options: ImageOptions) -> tuple[Image, Contents]:
    """Return the image of a wheel, its layers packed and in the store, and what it is composed of.

    Args:
        context: The run; its target names what the image is made from.
        wheel: The wheel; one that this project built.
        options: The flavour, and whether requirements are resolved anew.

    Raises:
        ImageError: The target has no image, or not of this flavour, or the wheel is somebody else's, or some of its
            requirements have no wheels for the target's machine.
        LockedError: The wheel's requirements are not locked for the image's Python; or the run is locked, and the
            image's torch cannot be had.
        CpuwheelsError: A part's own error.
    """
    target, pins = context.target, _pins(context)
    found = read_wheel(wheel, target, markers(target, pins.python))
    note = _note(wheel)
    base = choose_base(context, pins, found.torch, compiler=options.compiler)
    pins = base.pins
    # Where wheels are served with the same torch and Python, serving writes the lock.
    relock = options.relock and base.locked_by == "image"
    requirements = locked_requirements(context, found, pins, base.lock, base.locked_by, relock=relock)
    zen = _zen(context, found, base, requirements, relock=options.relock) if options.zen else None
    root, key = base_root(context, base.lock)
    platform = "" if base.environment else uv_platform(target.machine, base.lock)
    packing = _Packing(
        context,
        _python(context, base, root, key),
        base.environment.python if base.environment else Path(sys.executable),
        ("--python-platform", platform, "--python-version", pins.python) if platform else (),
    )
    layers = [_base(packing, root, key), _locked_layer(packing, "requirements", requirements, pins)]
    debian, locks = [base.lock], [_locked(requirements, pins)]
    if base.environment:
        layers.append(_torch_layer(packing, base.environment))
    if zen:
        layers.append(_locked_layer(packing, "zentorch", zen, pins))
        locks.append(_locked(zen, pins))
    if options.compiler and pins.compiler is not None:
        members, of_compiler = compiler_members(context, pins.root, pins.compiler)
        layers.append(stored_layer(context.store, "C++ compiler", EARLIEST, lambda: members, compiler=of_compiler))
        debian.append(load_lock(context.root, pins.compiler))
    epoch = note.source.epoch
    layers.append(
        packing.layer(found.path.name, epoch, lambda _: [wheel.resolve()], uv_environment(), wheel=found.sha256)
    )
    about = labels(found, note, _metadata(wheel), requirements, base)
    contents = Contents(
        debian_packages(debian),
        tuple(locks),
        base.environment.torch_version if base.environment else "",
        wheel_in(wheel, found.version, found.sha256),
    )
    return Image(target.machine, epoch, _settings(about, compiler=options.compiler), tuple(layers)), contents


def _pins(context: BuildContext) -> ImagePins:
    if context.target.image is None:
        raise ImageError(
            f"no image is described for target {context.target.id}",
            where="matrix.yaml: the target has no `image`",
            next_step=f"targets with one: {', '.join(one.id for one in context.matrix.targets if one.image)}",
        )
    return context.target.image


def _zen(context: BuildContext, wheel: KernelWheel, base: Base, requirements: Path, *, relock: bool) -> Path:
    if base.environment is None:
        raise ImageError(
            f"zentorch is made for PyTorch's torch, and the image's is Debian's {base.torch}",
            where=f"locks/{base.pins.root}.yaml",
            next_step=f"leave --zen out, or make a CPU wheel of torch {wheel.torch} reachable",
        )
    return zen_lock(context, wheel, base.pins, requirements, base.lock, relock=relock)


def _python(context: BuildContext, base: Base, root: Path, key: str) -> ImagePython:
    """Return the Python that compiles the image's packages: its own, or the same one for this machine."""
    version = base.pins.python
    if not is_foreign(context.target):
        return unpacked_python(root, version, key)
    if lock := same_python(context, base):
        return unpacked_python(base_root(context, lock)[0], version, key)
    emulator = find_emulator(context, context.target.machine)
    return emulated_python(emulator, plainest_cpu(context.target.libraries), root, version, key)


def _note(wheel: Path) -> WheelNote:
    note = note_or_none(wheel)
    if note is None:
        raise ImageError(
            f"{wheel.name} does not say what it was made from",
            where=wheel,
            next_step="give a wheel that this version of cpuwheels has built",
        )
    return note


def _metadata(wheel: Path) -> str:
    with zipfile.ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return archive.read(name).decode()


def _base(packing: _Packing, root: Path, key: str) -> Layer:
    context, python = packing.context, packing.python
    # Debian makes bytecode when a package is installed.
    folders = [name for name in (f"usr/lib/python{python.version}", _DEBIAN_PYTHON) if (root / name).is_dir()]

    def make() -> Mapping[str, Member]:
        context.reporter.info("packing the base")
        members = base_members(root)
        for name in folders:
            with context.store.scratch("image") as work:
                members |= _compiled(packing, root / name, work, name)
        return members

    return stored_layer(context.store, "Debian packages", EARLIEST, make, base=key, compiled=folders)


def _compiled(packing: _Packing, library: Path, work: Path, place: str) -> dict[str, Member]:
    """Return the bytecode of a folder of a base, whose packages hold none."""
    copy = work / "library"
    shutil.copytree(library, copy, symlinks=True)
    packing.python.compile(copy, place, packing.context.logs / "image-packages.log")
    return {f"{place}/{path.relative_to(copy).as_posix()}": Member(path.read_bytes()) for path in copy.rglob("*.pyc")}


def _installed(lock: Path, pins: ImagePins) -> str:
    """Return what is installed of a lock."""
    return without(lock.read_text(encoding="utf-8"), pins.without)


def _locked(lock: Path, pins: ImagePins) -> Locked:
    return locked(lock, _installed(lock, pins))


def _locked_layer(packing: _Packing, name: str, lock: Path, pins: ImagePins) -> Layer:
    text = _installed(lock, pins)

    def what(work: Path) -> Sequence[str | Path]:
        (work / "requirements.txt").write_text(text, encoding="utf-8")
        return ["--require-hashes", "-r", work / "requirements.txt"]

    return packing.layer(name, EARLIEST, what, uv_environment(), requirements=text_digest(text))


def _torch_layer(packing: _Packing, environment: Environment) -> Layer:
    version, digest = environment.torch_version, environment.torch_digest

    def what(_: Path) -> Sequence[str | Path]:
        return [*environment.offer().uv_options(), f"torch=={version}"]

    return packing.layer(f"torch {version}", EARLIEST, what, offer_environment(), torch=digest)


def _settings(about: Mapping[str, str], *, compiler: bool) -> Settings:
    return Settings(
        user=f"{USER}:{USER}",
        env={"PATH": _PATH, "LANG": "C.UTF-8", "HOME": f"/{HOME}"},
        entrypoint=COMPILING if compiler else EAGER,
        folder=f"/{HOME}",
        port=PORT,
        health=_HEALTH,
        labels=about,
    )
