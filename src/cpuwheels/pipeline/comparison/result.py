"""``comparison.json``: how two builds differ."""

from __future__ import annotations

from typing import Literal

from cpuwheels.core.models import Strict

Change = Literal["added", "removed", "changed"]


class BuildSide(Strict):
    """One of the two builds."""

    wheel: str
    """File name."""
    sha256: str
    size: int
    """Bytes of the wheel."""
    unpacked: int
    """Bytes of its files."""
    files: int
    has_record: bool
    """Whether its build record was next to it."""


class FileChange(Strict):
    """A file of the wheels that is not the same in both."""

    path: str
    """Without the version of ``.dist-info`` and the digests in the names of ``.libs``."""
    change: Change
    before: int | None
    """Bytes, unpacked; None if it is new."""
    after: int | None
    """Bytes, unpacked; None if it is gone."""


class BinaryChange(Strict):
    """An extension module or library that at least one of the wheels has."""

    path: str
    same: bool
    """Whether both have the same bytes."""
    before: int | None
    """Bytes, unpacked."""
    after: int | None
    """Bytes, unpacked."""
    exported: tuple[int, int]
    """Symbols that others can link to, before and after."""
    undefined: tuple[int, int]
    """Symbols that it takes from others, before and after."""
    exported_added: tuple[str, ...] = ()
    exported_removed: tuple[str, ...] = ()
    undefined_added: tuple[str, ...] = ()
    """With their versions, such as ``memcpy@GLIBC_2.14``."""
    undefined_removed: tuple[str, ...] = ()
    needed_added: tuple[str, ...] = ()
    """Libraries that it is linked to."""
    needed_removed: tuple[str, ...] = ()


class ListChange(Strict):
    """A list that is not the same in both: the values of one field of the metadata, the flags of a library…."""

    name: str
    added: tuple[str, ...]
    removed: tuple[str, ...]


class InputChange(Strict):
    """An input that is not the same in both."""

    name: str
    before: str | None
    """Version and digest; None if it is new."""
    after: str | None
    """Version and digest; None if it is gone."""


class JobTime(Strict):
    """What it took to compile or link a file."""

    output: str
    before: float | None
    """CPU seconds; None if the build had no such job."""
    after: float | None
    """CPU seconds; None if the build has no such job."""
    cached: tuple[bool, bool]
    """Whether the compiler cache had the result, before and after: then the time is not a compiler's."""


class BuildTime(Strict):
    """What all jobs of one build took."""

    jobs: int
    cached: int
    """Jobs whose result came from the compiler cache."""
    seconds: float
    """From the first job's start to the last one's end."""
    cpu_seconds: float
    peak: int | None
    """Bytes that compilers and linkers used at most."""


class Times(Strict):
    """What the compilations took. Times never make builds differ."""

    before: BuildTime
    after: BuildTime
    jobs: tuple[JobTime, ...]
    """The largest difference first."""


class Comparison(Strict):
    """How two builds differ; a part that is None could not be compared."""

    format: Literal[1] = 1
    before: BuildSide
    after: BuildSide
    files: tuple[FileChange, ...]
    binaries: tuple[BinaryChange, ...]
    """All of them, the same ones too."""
    metadata: tuple[ListChange, ...]
    """By field of ``METADATA``, without the description."""
    operators: tuple[ListChange, ...] | None
    """By library: schemas as torch prints them."""
    inputs: tuple[InputChange, ...] | None
    flags: tuple[ListChange, ...] | None
    """By library or CMake target, and ``all files`` and ``all links``."""
    times: Times | None
    not_compared: dict[str, str]
    """Parts that could not be compared, with the reason."""

    @property
    def same(self) -> bool:
        """Whether nothing differs that was compared; times, and how a wheel is packed, do not count."""
        return not any((self.files, self.metadata, self.operators, self.inputs, self.flags))
