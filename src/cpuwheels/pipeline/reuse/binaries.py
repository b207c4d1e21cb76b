"""The binaries of a finished wheel, which were audited when it was made, ready for the next wheel."""

from __future__ import annotations

import zipfile
from typing import TYPE_CHECKING

from packaging.utils import parse_wheel_filename

from cpuwheels.audit.cache import binaries_alone, damaged_binaries
from cpuwheels.audit.policy import Audited, Bundled
from cpuwheels.core.digests import make_key
from cpuwheels.core.errors import PrecompiledError
from cpuwheels.wheel.deflate_cache import compressor_key, keep_wheel, kept_wheel

if TYPE_CHECKING:
    from pathlib import Path

    from cpuwheels.core.store import Store
    from cpuwheels.pipeline.reuse.donor import Donor

KIND = "precompiled"
_MODULES = "modules"
_ALONE = "alone"


def precompiled_binaries(donor: Donor, store: Store) -> tuple[Path, tuple[str, Audited]]:
    """Return a folder with a wheel's extension modules, at their paths in it, and the key and result of their audit.

    Args:
        donor: The wheel.
        store: Where binaries and compressed files are kept.

    Raises:
        PrecompiledError: A binary is not what the wheel's ``RECORD`` says.
        StoreError: The store cannot be written.
    """
    if damaged := damaged_binaries(donor.wheel):
        raise PrecompiledError(
            f"{donor.wheel.name} is damaged: {damaged[0]} has other bytes than its RECORD says",
            where=donor.origin,
            next_step="fetch it again",
        )
    key = make_key(layout=1, wheel=donor.sha256, compressor=compressor_key())

    def make(folder: Path) -> None:
        alone = binaries_alone(donor.wheel, folder / _ALONE)
        with zipfile.ZipFile(alone) as archive:
            modules = [name for name in archive.namelist() if name.endswith(".so") and ".libs/" not in name]
            archive.extractall(folder / _MODULES, modules)

    folder = store.get(KIND, key, make)
    if kept_wheel(store, key) is None:
        keep_wheel(store, key, donor.wheel)
    (alone,) = (folder / _ALONE).glob("*.whl")
    audited = Audited(
        path=alone,
        platforms=tuple(sorted({tag.platform for tag in parse_wheel_filename(alone.name)[3]})),
        policy=donor.note.policy,
        bundled=tuple(Bundled(soname, path) for path, soname in donor.note.bundled_libraries.items()),
        versions=donor.note.symbol_versions,
        untried=donor.note.untried,
    )
    return folder / _MODULES, (key, audited)
