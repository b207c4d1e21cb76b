"""An image of a wheel composed from its layers, each of them in the store: base, requirements, torch, compiler, wheel.

The order is that of change, the rarest first: the next wheel of the same release brings one new layer.
"""

from __future__ import annotations

import shutil
import zipfile
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from cpuwheels.config.host import is_foreign, markers
from cpuwheels.core.digests import text_digest
from cpuwheels.core.errors import ImageError, LockedError
from cpuwheels.environment.torch_environment import torch_environment
from cpuwheels.environment.torch_install import offer_environment
from cpuwheels.fetch.uv import uv_environment
from cpuwheels.image.labels import labels
from cpuwheels.image.layers import EARLIEST, Member, stored_layer
from cpuwheels.image.oci import Image, Settings
from cpuwheels.image.python_packages import install, unpacked_python, without
from cpuwheels.image.root_filesystem import HOME, USER, base_members, base_root, compiler_members
from cpuwheels.pipeline.provenance import read_note
from cpuwheels.verification.serving.environment import LOCKS, own_name
from cpuwheels.verification.serving.requirements import lock_fits, requirements_of
from cpuwheels.wheel.kernel_wheel import read_wheel

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from cpuwheels.config.context import BuildContext
    from cpuwheels.config.image_pins import ImagePins
    from cpuwheels.environment.build_env import Environment
    from cpuwheels.image.layers import Layer
    from cpuwheels.image.python_packages import ImagePython
    from cpuwheels.pipeline.provenance import WheelNote
    from cpuwheels.wheel.kernel_wheel import KernelWheel

PORT = 8000
EAGER = "--enforce-eager"
"""What the flavour without a compiler adds to its entrypoint: torch.compile needs a C++ compiler at run time."""

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
        interpreter: One of the same version that runs here.
    """

    context: BuildContext
    python: ImagePython
    interpreter: Path

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
                return install(what(work), self.python, self.interpreter, work, log, env)

            return stored_layer(context.store, name, epoch, make, python=self.python.key, **inputs)


def compose(context: BuildContext, wheel: Path, *, compiler: bool) -> Image:
    """Return the image of a wheel, its layers packed and in the store.

    Args:
        context: The run; its target names what the image is made from.
        wheel: The wheel; one that this project built.
        compiler: Whether it is the flavour with a C++ compiler.

    Raises:
        ImageError: The target has no image, or not of this flavour, or the wheel is somebody else's.
        LockedError: The wheel's requirements are not locked for the image's Python.
        CpuwheelsError: A part's own error.
    """
    target, pins = context.target, _pins(context)
    if compiler and pins.compiler is None:
        raise ImageError(
            f"the image of {target.id} has no flavour with a compiler",
            where="matrix.yaml: image.compiler",
            next_step="leave --compile out",
        )
    found = read_wheel(wheel, target, markers(target, pins.python))
    note = _note(wheel)
    epoch = note.source.epoch
    requirements = _requirements(context, found, pins)
    # The build environment's Python has to be the image's: torch is a wheel of one Python.
    own = replace(context, matrix=context.matrix.model_copy(update={"python": (pins.python,)}))
    environment = torch_environment(own, found.torch)
    root, key = base_root(context, pins.root)
    packing = _Packing(context, unpacked_python(root, pins.python, key), environment.python)
    layers = [
        _base(packing, root, key),
        _requirements_layer(packing, requirements, pins),
        _torch_layer(packing, environment),
    ]
    if compiler and pins.compiler is not None:
        members, of_compiler = compiler_members(context, pins.root, pins.compiler)
        layers.append(stored_layer(context.store, "C++ compiler", EARLIEST, lambda: members, compiler=of_compiler))
    layers.append(
        packing.layer(found.path.name, epoch, lambda _: [wheel.resolve()], uv_environment(), wheel=found.sha256)
    )
    about = labels(found, note, _metadata(wheel), requirements, environment.torch_version, pins)
    return Image(target.machine, epoch, _settings(about, compiler=compiler), tuple(layers))


def _pins(context: BuildContext) -> ImagePins:
    target = context.target
    if target.image is None:
        raise ImageError(
            f"no image is described for target {target.id}",
            where="matrix.yaml: the target has no `image`",
            next_step=f"targets with one: {', '.join(one.id for one in context.matrix.targets if one.image)}",
        )
    if is_foreign(target):
        raise ImageError(
            f"an image of {target.id} is composed on a machine with {target.system} {target.machine}",
            where="this machine",
            next_step="run it there: its Python compiles the bytecode",
        )
    return target.image


def _note(wheel: Path) -> WheelNote:
    try:
        note = read_note(wheel)
    except (ValueError, OSError):
        note = None
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


def _requirements(context: BuildContext, wheel: KernelWheel, pins: ImagePins) -> Path:
    """Return the lock of what a wheel requires.

    Raises:
        LockedError: There is none that fits.
    """
    lock = context.root / "locks" / LOCKS / own_name(context.target.id, wheel.version, pins.python)
    wanted = requirements_of(wheel.requires, markers(context.target, pins.python))
    misfits = lock_fits(lock.read_text(encoding="utf-8"), wanted) if lock.is_file() else ["a lock"]
    if misfits:
        raise LockedError(
            f"the wheel's requirements are not locked for Python {pins.python}: {', '.join(misfits)} is missing",
            where=lock,
            next_step=f"write it with nox -s serve-{context.target.id} -- --relock",
        )
    return lock


def _base(packing: _Packing, root: Path, key: str) -> Layer:
    context, python = packing.context, packing.python

    def make() -> Mapping[str, Member]:
        context.reporter.info("packing the base")
        members = base_members(root)
        with context.store.scratch("image") as work:
            library = f"usr/lib/python{python.version}"
            return members | _compiled(packing, root / library, work, library)

    return stored_layer(context.store, "Debian packages", EARLIEST, make, base=key)


def _compiled(packing: _Packing, library: Path, work: Path, place: str) -> dict[str, Member]:
    """Return the bytecode of the standard library, whose packages hold none."""
    copy = work / "library"
    shutil.copytree(library, copy, symlinks=True)
    packing.python.compile(copy, place, packing.context.logs / "image-packages.log")
    return {f"{place}/{path.relative_to(copy).as_posix()}": Member(path.read_bytes()) for path in copy.rglob("*.pyc")}


def _requirements_layer(packing: _Packing, lock: Path, pins: ImagePins) -> Layer:
    text = without(lock.read_text(encoding="utf-8"), pins.without)

    def what(work: Path) -> Sequence[str | Path]:
        (work / "requirements.txt").write_text(text, encoding="utf-8")
        return ["--require-hashes", "-r", work / "requirements.txt"]

    return packing.layer("requirements", EARLIEST, what, uv_environment(), requirements=text_digest(text))


def _torch_layer(packing: _Packing, environment: Environment) -> Layer:
    version, digest = environment.torch_version, environment.torch_digest

    def what(_: Path) -> Sequence[str | Path]:
        return [*environment.offer().uv_options(), f"torch=={version}"]

    return packing.layer(f"torch {version}", EARLIEST, what, offer_environment(), torch=digest)


def _settings(about: Mapping[str, str], *, compiler: bool) -> Settings:
    return Settings(
        user=f"{USER}:{USER}",
        env={"PATH": _PATH, "LANG": "C.UTF-8", "HOME": f"/{HOME}"},
        entrypoint=["vllm", "serve", *([] if compiler else [EAGER])],
        folder=f"/{HOME}",
        port=PORT,
        health=_HEALTH,
        labels=about,
    )
