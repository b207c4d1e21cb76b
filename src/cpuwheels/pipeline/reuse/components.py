"""The licences of the libraries in a wheel whose kernels are used: they come out of that wheel."""

from __future__ import annotations

import hashlib
import zipfile
from typing import TYPE_CHECKING

from cpuwheels.core.digests import make_key
from cpuwheels.core.errors import PrecompiledError
from cpuwheels.wheel.components import KIND, Component, Components
from cpuwheels.wheel.dist_info import dist_info_of

if TYPE_CHECKING:
    from pathlib import Path

    from cpuwheels.core.store import Store
    from cpuwheels.pipeline.reuse.donor import Donor


def donated_components(donor: Donor, store: Store) -> Components:
    """Return the libraries in a wheel, with a folder of their licences.

    Args:
        donor: The wheel.
        store: Where the texts are kept.

    Raises:
        PrecompiledError: It lacks one of the texts that it lists, or has another.
        StoreError: The store cannot be written.
    """
    listed = tuple(Component(**vars(facts)) for facts in donor.note.components)
    texts = {name: digest for component in listed for name, digest in component.texts.items()}

    def make(folder: Path) -> None:
        with zipfile.ZipFile(donor.wheel) as archive:
            names = archive.namelist()
            for name, digest in texts.items():
                member = f"{dist_info_of(names)}/licenses/{name}"
                content = archive.read(member) if member in names else b""
                if hashlib.sha256(content).hexdigest() != digest:
                    raise PrecompiledError(
                        f"{donor.wheel.name} does not have the licence {name} that it lists",
                        where=donor.origin,
                        next_step="fetch it again, or leave out --kernels-from",
                    )
                path = folder / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)

    return Components(listed, store.get(KIND, make_key(layout=1, of=donor.sha256), make))
