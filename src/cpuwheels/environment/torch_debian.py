"""Debian's torch, the fallback where no CPU wheel of the pinned version can be had: its headers and libraries.

Kernels are built and audited against them. They are laid out, and named, as in a wheel, so the modules name the
libraries that PyTorch's own wheel has.
"""

from __future__ import annotations

import shutil
from functools import partial
from typing import TYPE_CHECKING

from cpuwheels.config.debian_lock import load_lock
from cpuwheels.config.host import is_foreign
from cpuwheels.core.errors import CommandError, LockedError, TorchError
from cpuwheels.core.filesystem import link_or_copy
from cpuwheels.core.process import run
from cpuwheels.environment.debian_root import compile_root, read_root
from cpuwheels.environment.foreign_torch import KIND, ForeignTorch, torch_key
from cpuwheels.fetch.debian.mirrors import debian_mirrors
from cpuwheels.fetch.debian.root import content_key, unpacked_root
from cpuwheels.toolchain.debian_compiler import patchelf

if TYPE_CHECKING:
    from pathlib import Path

    from cpuwheels.config.context import BuildContext
    from cpuwheels.config.pins import TorchPin

ROOTS = "roots"

LIBRARIES = ("libtorch", "libtorch_cpu", "libc10")
"""What upstream's modules are linked to, by PyTorch's names; distributors add a version to them."""

PARTS = "parts"
"""Folder next to those libraries: what PyTorch's wheels have inside them, and Debian in libraries of their own."""

_LOG = "torch.log"
_COMPILED = "bytecode 1"
"""Names a root with the bytecode of its packages."""

_HEADERS = ("ATen", "c10", "caffe2", "torch")
_SLEEF = "libsleef.so.3"
"""Vector functions. PyTorch's ``libtorch_cpu.so`` exports them, and its wheels have their header."""


def debian_torch(context: BuildContext, torch: str, pin: TorchPin, reason: TorchError | LockedError) -> ForeignTorch:
    """Return the torch of the Debian root that the matrix names for a target, fetching it if the store lacks it.

    Args:
        context: The run.
        torch: Version that the source pins, without a local label.
        pin: Names the root.
        reason: Why there is no wheel.

    Raises:
        TorchError: ``reason``, if no fallback is named; or the root lacks a part of torch.
        LockedError: ``reason``, likewise; or the run is locked and takes no fallbacks.
        DownloadError: The root cannot be fetched.
    """
    alternate = pin.alternate(context.target.machine)
    if alternate is None:
        raise reason
    if context.options.locked and not context.options.allow_fallbacks:
        if isinstance(reason, LockedError):
            raise reason
        raise LockedError(
            f"{reason.what}, and --locked refuses its fallback",
            where=reason.where,
            output=reason.output,
            next_step=f"{reason.next_step}; or take the fallback with --allow-fallbacks, or build without --locked",
        ) from reason
    lock = load_lock(context.root, alternate.root)
    content = content_key(lock)
    native = not is_foreign(context.target)

    def unpacked() -> Path:
        mirrors, log = debian_mirrors(context), context.logs / _LOG
        finish = partial(compile_root, log=log) if native else None
        return unpacked_root(
            lock,
            ROOTS,
            mirrors=mirrors,
            store=context.store,
            reporter=context.reporter,
            finish=finish,
            finish_key=_COMPILED if native else "",
        )

    def make(folder: Path) -> None:
        _lay_out(unpacked(), folder / "torch", alternate.root, context.logs / _LOG)

    folder = context.store.get(KIND, torch_key(content), make)
    unpinned = isinstance(reason, LockedError)
    why = reason.what if unpinned else f"no wheel of torch {torch} for {context.target.machine} can be reached"
    note = f"{why}; Debian's {alternate.version} is used instead. The build record and the wheel's metadata say so."
    if note not in context.reporter.announcements:
        context.reporter.announce(note)
    return ForeignTorch(
        version=alternate.version,
        folder=folder / "torch",
        digest=content,
        origin=f"locks/{alternate.root}.yaml",
        pinned=True,
        alternate=True,
        root=read_root(unpacked(), context.target.id, alternate.root) if native else None,
    )


def _lay_out(root: Path, folder: Path, lock: str, log: Path) -> None:
    """Lay out a distribution's torch as the package of a wheel."""
    for name in _HEADERS:
        if (headers := root / "usr/include" / name).is_dir():
            shutil.copytree(headers, folder / "include" / name, copy_function=link_or_copy)
    (folder / "lib").mkdir(parents=True)
    for header in root.glob("usr/include/*/sleef.h"):
        shutil.copyfile(header, folder / "include" / header.name)
    for sleef in root.glob(f"usr/lib/*/{_SLEEF}"):
        (folder / "lib" / PARTS).mkdir()
        shutil.copyfile(sleef.resolve(), folder / "lib" / PARTS / sleef.name)
    for name in LIBRARIES:
        found = sorted(root.glob(f"usr/lib/*/{name}.so*"))
        if not found or not (folder / "include").is_dir():
            raise TorchError(
                f"the packages hold no {name}.so, or none of its headers",
                where=f"locks/{lock}.yaml",
                next_step="add libtorch-dev to its suites and run `nox -s lock`",
            )
        # By PyTorch's name inside, too: it is what the linker writes into a module.
        library = folder / "lib" / f"{name}.so"
        shutil.copyfile(found[-1].resolve(), library)
        try:
            run([patchelf(), "--set-soname", library.name, library], log=log)
        except CommandError as error:
            raise TorchError(
                f"{library.name} cannot be given PyTorch's name",
                where=f"locks/{lock}.yaml",
                output=error.output,
                log=error.log,
                next_step="the package is damaged or not for this target: run `nox -s lock`",
            ) from error
    for openmp in root.glob("usr/lib/*/libgomp.so.1"):
        shutil.copyfile(openmp.resolve(), folder / "lib" / openmp.name)
