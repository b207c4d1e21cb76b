"""What a wheel is made from: written into it as ``cpuwheels.json``, and read back from there."""

from __future__ import annotations

from dataclasses import asdict
from typing import IO, TYPE_CHECKING, Annotated, Any, Literal

from pydantic import ConfigDict, Field, StringConstraints, ValidationError

from cpuwheels.core.errors import UnsafeArchiveError, WheelError
from cpuwheels.core.models import Strict
from cpuwheels.core.text import stable_json
from cpuwheels.core.zip_archive import open_zip
from cpuwheels.source.patches import fixed_faults
from cpuwheels.wheel.dist_info import NOTE, dist_info_of

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from cpuwheels.audit.policy import Audited
    from cpuwheels.source.patched import PreparedSource
    from cpuwheels.source.patches import AppliedPatch
    from cpuwheels.source.result import Source
    from cpuwheels.wheel.requirements import MovedRequirement

_ONLY_IF_KNOWN = {"commit", "chooser_key", "tcmalloc"}
"""Fields that are left out where there is nothing to write."""


ShortName = Annotated[str, StringConstraints(max_length=80)]
"""What pages show of a wheel in the midst of a line."""


class _Facts(Strict):
    # This version ignores what a later one adds; a change of meaning raises the format.
    model_config = ConfigDict(extra="ignore")


class SourceFacts(_Facts):
    """The source of a wheel."""

    version: str
    digest: str
    """Of its tree."""
    epoch: int
    """``SOURCE_DATE_EPOCH``: seconds since 1970."""
    commit: str | None = None
    sdist: bool = False
    """Whether it is an sdist; `digest` is then that archive's."""


class PatchFacts(_Facts):
    """One of our patches."""

    file: str
    sha256: str
    state: str
    """As in `cpuwheels.source.patches.AppliedPatch`."""
    fixes: tuple[str, ...] = ()
    """Likewise; empty in wheels of earlier versions."""


class VersionFacts(_Facts):
    """A compiler or a package, by version and by content."""

    version: str
    digest: str


class PackageFacts(_Facts):
    """A Debian package that something was made with."""

    name: str
    version: str
    file: str
    """Its file name, which has the architecture."""
    sha256: str


class ToolchainFacts(VersionFacts):
    """The compiler, and what is known of the files that it consists of."""

    packages: tuple[PackageFacts, ...] = ()
    """Of the pinned compiler; none of one of the building machine, or in wheels of earlier versions."""
    sysroot: tuple[PackageFacts, ...] = ()
    """With the headers and libraries that it compiles against."""


class TorchFacts(VersionFacts):
    """The torch that the kernels are compiled against."""

    packages: tuple[PackageFacts, ...] = ()
    """Debian's, if it is from there."""


class OneDnnFacts(_Facts):
    """The oneDNN in the kernels."""

    tag: str
    """What upstream pins."""
    version: str
    digest: str
    """Of its sources as they were published."""
    kind: str
    """``pinned`` or ``alternate``."""
    release: str = ""
    """The release that it is or that is being worked on; empty if its sources do not say, or in earlier wheels."""
    patches: tuple[PatchFacts, ...] = ()
    """Our patches for it; none in earlier wheels."""


class AclFacts(_Facts):
    """The Arm Compute Library in the kernels."""

    tag: str
    version: str | None
    """Its commit; None if the kernels do without."""
    kind: str


class TcmallocFacts(VersionFacts):
    """The allocator next to the kernels: gperftools by version, and by the digest of its sources."""

    key: str
    """Of the compiled library."""


class ComponentFacts(_Facts):
    """A library in the wheel; see `cpuwheels.wheel.components.Component`."""

    name: str
    version: str
    license: str
    """SPDX expression."""
    digest: str
    libraries: tuple[str, ...]
    """Sonames under which the wheel may hold it; otherwise it is linked into the modules."""
    texts: dict[str, str]
    """Licence file below ``.dist-info/licenses`` → digest."""
    package: str | None = None
    """File name of the Debian package that its bytes come from; `digest` is then that file's."""
    archive: str | None = None
    """Path below a Debian mirror of the archive of its sources; `digest` is then that file's."""


class KernelFacts(_Facts):
    """What the kernels of a wheel are compiled with."""

    toolchain: ToolchainFacts
    torch: TorchFacts
    onednn: OneDnnFacts | None
    acl: AclFacts | None = None
    alternates: tuple[str, ...]
    """What was built with something else than the matrix's first choice, or without."""
    kernel_key: str
    chooser_key: str | None = None
    """Key of the module that chooses among the kernel libraries, if there is one."""
    tcmalloc: TcmallocFacts | None = None
    components: tuple[ComponentFacts, ...] = ()
    """The libraries in the wheel with their licences."""
    tools: dict[str, str] = Field(default={})
    """Programs that compiled and repaired the binaries, besides the compiler → version."""
    tools_lock: str = ""
    """Digest of the lock of the build tools then."""


class Provenance(KernelFacts):
    """What a wheel is made from, with digests, the same for every build of the same key.

    It goes into the wheel, so it holds nothing of the machine, the time or the place of the build.
    """

    format: Literal[1] = 1
    """Raised when a field changes its meaning."""
    target: str
    source: SourceFacts
    patches: tuple[PatchFacts, ...]
    packing_tools: dict[str, str] = Field(default={})
    """Packages that wrote metadata and wheel → version."""
    upstream_kernels: bool = False
    """Whether the patches that fix faults of upstream's kernels were left out on purpose."""
    upstream_speed: bool = False
    """Whether those that make them faster were."""

    @property
    def fixed_faults(self) -> tuple[str, ...]:
        """Names of the faults of upstream's kernels that these kernels do not have, as docs/findings.md has them."""
        return tuple(sorted(fixed_faults(self.all_patches)))

    @property
    def all_patches(self) -> tuple[PatchFacts, ...]:
        """What became of all of our patches: those for vLLM, then those for its oneDNN."""
        return self.patches + (self.onednn.patches if self.onednn else ())

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        data = self.model_dump(mode="json")
        for part in (data, data["source"]):
            for name in _ONLY_IF_KNOWN & part.keys():
                if part[name] is None:
                    del part[name]
        return data


class MovedFacts(_Facts):
    """A requirement by URL that was replaced, since an index accepts none."""

    declared: str
    now: str
    extra: str


class WheelNote(Provenance):
    """The whole note in a wheel: what the wheel is made from, and what its audit found."""

    bundled_libraries: dict[str, str]
    """Path in the wheel → soname."""
    moved_requirements: tuple[MovedFacts, ...]
    policy: str
    """Platform policy that it fits."""
    symbol_versions: tuple[str, ...]
    """Highest symbol version needed of each family."""
    untried: dict[ShortName, Annotated[tuple[ShortName, ...], Field(max_length=8)]] = Field(default={}, max_length=8)
    """For each library that has some: its kernels that no CPU has run yet; empty in wheels of earlier versions."""

    def render(self) -> bytes:
        """Return the content of the file, the same for the same facts."""
        return stable_json(self.as_dict())


def provenance(
    target: str,
    source: Source,
    prepared: PreparedSource,
    kernels: KernelFacts,
    *,
    packing_tools: dict[str, str],
    upstream_kernels: bool = False,
    upstream_speed: bool = False,
) -> Provenance:
    """Return what a wheel is made from.

    Args:
        target: Target id.
        source: vLLM's source.
        prepared: The source with our patches.
        kernels: What its kernels are compiled with; those of another wheel if they are taken from there.
        packing_tools: Packages that write metadata and wheel → version.
        upstream_kernels: Whether faults of upstream's kernels were left in them.
        upstream_speed: Whether what makes them faster was left out.
    """
    facts = SourceFacts(
        version=source.version,
        digest=source.digest,
        epoch=source.epoch,
        commit=source.commit or None,
        sdist=source.released,
    )
    return Provenance(
        **{name: getattr(kernels, name) for name in KernelFacts.model_fields},
        target=target,
        source=facts,
        patches=patch_facts(prepared.patches),
        packing_tools=packing_tools,
        upstream_kernels=upstream_kernels,
        upstream_speed=upstream_speed,
    )


def patch_facts(patches: Iterable[AppliedPatch]) -> tuple[PatchFacts, ...]:
    """Return what became of patches, as a note has it."""
    return tuple(PatchFacts(**asdict(patch)) for patch in patches)


def wheel_note(facts: Provenance, audited: Audited, moved: tuple[MovedRequirement, ...]) -> WheelNote:
    """Return the note of a wheel.

    Args:
        facts: What it is made from.
        audited: What its audit found.
        moved: Requirements that were replaced.
    """
    return WheelNote(
        **{name: getattr(facts, name) for name in Provenance.model_fields},
        bundled_libraries={library.path: library.soname for library in audited.bundled},
        moved_requirements=tuple(
            MovedFacts(declared=move.original, now=move.replacement, extra=move.extra) for move in moved
        ),
        policy=audited.policy,
        symbol_versions=audited.versions,
        untried=dict(audited.untried),
    )


def read_note(wheel: Path | IO[bytes]) -> WheelNote | None:
    """Return the note of a wheel; None if it has none because somebody else built it.

    Args:
        wheel: The file, or a stream of it, of which only the end and this one member are read.

    Raises:
        ValueError: It is not a wheel, or its note is of another version of cpuwheels.
        OSError: It cannot be read.
    """
    try:
        with open_zip(wheel, members_too=False) as archive:
            name = f"{dist_info_of(archive.names)}/{NOTE}"
            if name not in archive.infos:
                return None
            return WheelNote.model_validate_json(archive.read(name))
    except ValidationError as error:
        raise ValueError(f"its {NOTE} is of another version of cpuwheels") from error
    except (UnsafeArchiveError, WheelError) as error:
        raise ValueError(f"it is not a wheel: {error.what}") from error


def note_or_none(wheel: Path) -> WheelNote | None:
    """Return the note of a wheel; None if it has none, or none that this version can read."""
    try:
        return read_note(wheel)
    except (OSError, ValueError):
        return None
