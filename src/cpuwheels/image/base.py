"""The base of an image and its torch: PyTorch's wheel on a base without one, or Debian's, which is part of its base."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from cpuwheels.config.debian_lock import load_lock
from cpuwheels.config.host import is_foreign
from cpuwheels.core.errors import ImageError, LockedError, MatrixError, TorchError
from cpuwheels.environment.torch_environment import wheel_environment
from cpuwheels.environment.torch_index import torch_pin

if TYPE_CHECKING:
    from cpuwheels.config.context import BuildContext
    from cpuwheels.config.debian_lock import DebianLock
    from cpuwheels.config.image_pins import ImagePins
    from cpuwheels.environment.sealed_env import Environment

_TORCH = "python3-torch"


@dataclass(frozen=True)
class Base:
    """What an image stands on.

    Attributes:
        pins: What the image is made from; the alternate base's in place of the first one's, if that is used.
        lock: The base's Debian packages.
        environment: With the torch of the image; None if it is Debian's.
        fallback: What replaces what, if the alternate base is used; else empty.
    """

    pins: ImagePins
    lock: DebianLock
    environment: Environment | None
    fallback: str = ""

    @property
    def torch(self) -> str:
        """Version of torch, local label included."""
        return self.environment.torch_version if self.environment else _debian_torch(self.lock)

    @property
    def locked_by(self) -> str:
        """Which sessions write the locks of its requirements: ``image``, or ``serve`` where wheels are served, too."""
        return "image" if self.environment is None and not self.fallback else "serve"


def choose_base(context: BuildContext, pins: ImagePins, torch: str, *, compiler: bool) -> Base:
    """Return the base of a target's image, or the alternate one, if the first needs a torch that cannot be had.

    Args:
        context: The run.
        pins: What the target's image is made from.
        torch: Version that the wheel requires, without local label.
        compiler: Whether the flavour has a compiler.

    Raises:
        ImageError: The base's own torch is another one, or the machine is of another kind and the base has none, or
            the base has no flavour with a compiler.
        LockedError: The first base's torch cannot be had, and the run is locked and may take no fallback.
        TorchError: It cannot be had, and there is no alternate.
    """
    _require_compiler(context, pins, compiler=compiler)
    lock = load_lock(context.root, pins.root)
    if _debian_torch(lock):
        _require_torch(context, pins.root, lock, torch)
        return Base(pins, lock, None)
    try:
        return Base(pins, lock, _environment(context, torch, pins))
    except TorchError as error:
        return _alternate(context, pins, torch, error, compiler=compiler)


def same_python(context: BuildContext, base: Base) -> DebianLock | None:
    """Return the lock of a base for this kind of machine with the very Python of another machine's.

    Bytecode does not depend on the machine, so its Python compiles for the other, ten times as fast as an emulated one.

    Args:
        context: The run; the matrix's images are looked at.
        base: Of an image for another machine.
    """
    python = base.pins.python
    wanted = _python_versions(base.lock, python)
    for target in context.matrix.targets:
        if target.image and not is_foreign(target):
            for pins in (target.image, target.image.alternate):
                if pins and pins.python == python:
                    lock = load_lock(context.root, pins.root)
                    if wanted and _python_versions(lock, python) == wanted:
                        return lock
    return None


def _alternate(context: BuildContext, pins: ImagePins, torch: str, reason: TorchError, *, compiler: bool) -> Base:
    """Return the alternate base, or raise why not."""
    if pins.alternate is None or torch_pin(context.matrix, torch).alternate(context.target.machine) is None:
        raise reason
    if context.options.locked and not context.options.allow_fallbacks:
        raise LockedError(
            f"torch {torch} for {context.target.machine} cannot be reached and --locked refuses the alternate base",
            where=reason.where,
            output=reason.output,
            next_step=f"make {torch_pin(context.matrix, torch).index} reachable; or take the alternate base with "
            "--allow-fallbacks, or leave --locked out",
        ) from reason
    other = pins.on(pins.alternate)
    _require_compiler(context, other, compiler=compiler)
    lock = load_lock(context.root, other.root)
    _require_torch(context, other.root, lock, torch)
    fallback = f"torch {_debian_torch(lock)} with Python {other.python} from locks/{other.root}.yaml"
    context.reporter.announce(
        f"no wheel of torch {torch} for {context.target.machine} can be reached; the image has Debian's {fallback} "
        "instead. Its labels say so."
    )
    return Base(other, lock, None, f"{fallback} in place of {torch}")


def _environment(context: BuildContext, torch: str, pins: ImagePins) -> Environment:
    """Return the environment with the wheel's torch, for the image's Python.

    Raises:
        ImageError: The machine is of another kind: torch is fetched by an installer that runs there.
    """
    if is_foreign(context.target):
        raise ImageError(
            f"an image of {context.target.id} with PyTorch's torch is composed on {context.target.machine}",
            where="this machine",
            next_step="run it there, or name a base with Debian's torch in matrix.yaml: image.root",
        )
    # The build environment's Python has to be the image's: torch is a wheel of one Python.
    matrix = context.matrix.model_copy(update={"python": (pins.python,)})
    return wheel_environment(replace(context, matrix=matrix), torch)


def _require_compiler(context: BuildContext, pins: ImagePins, *, compiler: bool) -> None:
    if compiler and pins.compiler is None:
        raise ImageError(
            f"the image of {context.target.id} on locks/{pins.root}.yaml has no flavour with a compiler",
            where="matrix.yaml: image.compiler",
            next_step="leave --compile out",
        )


def _require_torch(context: BuildContext, root: str, lock: DebianLock, torch: str) -> None:
    """Check that a base's torch is the one that the wheel requires, or may replace it."""
    version = _debian_torch(lock)
    if not version:
        raise MatrixError(f"the base has no {_TORCH}", where=f"locks/{root}.yaml", next_step="add it to its suites")
    # Debian's version has a suffix and a revision: 2.14.1+dfsg-1.
    found = re.split("[^0-9.]", version)[0]
    alternate = torch_pin(context.matrix, torch).alternate(context.target.machine)
    if found not in {torch, alternate.version if alternate else torch}:
        raise ImageError(
            f"the base has torch {found}, and the wheel requires {torch}",
            where=f"locks/{root}.yaml",
            next_step=f"give a wheel for torch {found}, or one that matrix.yaml names it an alternate for",
        )


def _python_versions(lock: DebianLock, python: str) -> dict[str, str]:
    """Return the versions of the packages with Python itself."""
    names = {f"python{python}-minimal", f"libpython{python}-minimal"}
    return {package.name: package.version for package in lock.packages if package.name in names}


def _debian_torch(lock: DebianLock) -> str:
    """Return the version of a base's torch; empty if it has none."""
    return next((package.version for package in lock.packages if package.name == _TORCH), "")
