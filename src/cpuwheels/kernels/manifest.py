"""A wheel's record of what its kernels were made from, so that another source can be compared with it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Literal

from cpuwheels.core.direct_mode import ABSENT
from cpuwheels.core.models import Strict
from cpuwheels.kernels.depfile import Reads
from cpuwheels.kernels.executed import counted_files

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from cpuwheels.kernels.request import KernelInputs
    from cpuwheels.kernels.result import Kernels

FILE = "cpuwheels-kernels.json"
"""File below ``.dist-info`` that holds it."""

_LONGEST = 60
"""Characters of a value that are shown."""


class KernelManifest(Strict):
    """The inputs of a wheel's kernels, as digests."""

    format: Literal[1] = 1
    kernels: str
    """Their key."""
    modules: tuple[str, ...]
    """Names of the extension modules among them."""
    chooser: str | None
    """Digest of the sources of the module that chooses among them, if they have one."""
    tcmalloc: str | None = None
    """Digest of what the allocator next to them is compiled from, if there is one."""
    beside: dict[str, Any]
    """Everything that is neither upstream's nor the compiler; see `KernelInputs.beside_source`."""
    files: dict[str, str]
    """Digest of each of upstream's files that was read, with our patches."""
    folders: dict[str, tuple[str, ...] | None]
    """Names in each folder that a file was read from."""

    def render(self) -> bytes:
        """Return the content of the file, the same for the same inputs."""
        return (json.dumps(self.model_dump(mode="json"), indent=1, sort_keys=True) + "\n").encode()

    def differences(self, inputs: KernelInputs, chooser: str | None, tcmalloc: str | None) -> list[str]:
        """Return how a source and its other inputs differ from this; nothing if its binaries are these.

        The compiler is not compared: none is needed.

        Args:
            inputs: What kernels would be made from.
            chooser: As the attribute.
            tcmalloc: As the attribute.
        """
        source = inputs.source.folder
        now = json.loads(json.dumps(inputs.beside_source()))
        found = [f"{name}: {_shown(now.get(name))}, not {_shown(old)}" for name, old in _changed(self.beside, now)]
        if chooser != self.chooser:
            found.append("the chooser's sources")
        if tcmalloc != self.tcmalloc:
            found.append("tcmalloc's sources")
        return found + list(self._changed_files(source))

    def _changed_files(self, source: Path) -> Iterator[str]:
        reads = Reads(files=tuple(self.files), folders=tuple(self.folders))
        yield from (f"{name} is new" for name in sorted(set(counted_files(source)) - self.files.keys()))
        for name, digest in reads.contents(source).items():
            if digest != self.files[name]:
                what = (
                    "is new" if self.files[name] == ABSENT else "is gone" if digest == ABSENT else "has other content"
                )
                yield f"{name} {what}"
        for name, names in reads.names(source).items():
            before, now = set(self.folders[name] or ()), set(names or ())
            told = {path.removeprefix(f"{name}/") for path in self.files}
            yield from (f"{name}/{new} is new, where headers were looked for" for new in sorted(now - before - told))
            yield from (f"{name}/{old} is gone, where headers were looked for" for old in sorted(before - now - told))


def kernel_manifest(
    inputs: KernelInputs, kernels: Kernels, chooser: str | None, tcmalloc: str | None
) -> KernelManifest:
    """Return what finished kernels were made from.

    Args:
        inputs: The inputs that they were requested with.
        kernels: The kernels.
        chooser: Digest of the sources of the module that chooses among them.
        tcmalloc: Digest of what the allocator next to them is compiled from.
    """
    source = inputs.source.folder
    reads = kernels.reads.with_files(counted_files(source))
    return KernelManifest(
        kernels=kernels.key,
        modules=kernels.modules,
        chooser=chooser,
        tcmalloc=tcmalloc,
        beside=inputs.beside_source(),
        files=reads.contents(source),
        folders=reads.names(source),
    )


def _changed(before: dict[str, Any], now: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for name in sorted(before.keys() | now.keys()):
        if before.get(name) != now.get(name):
            yield name, before.get(name)


def _shown(value: object) -> str:
    text = json.dumps(value, sort_keys=True)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
