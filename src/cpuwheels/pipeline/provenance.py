"""What a wheel is made from: written into it as ``cpuwheels.json``, and read back from there."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import IO, TYPE_CHECKING, Annotated, Any, Literal

from pydantic import ConfigDict, Field, StringConstraints, ValidationError

from cpuwheels.core.errors import UnsafeArchiveError, WheelError
from cpuwheels.core.models import Strict
from cpuwheels.core.zip_archive import open_zip
from cpuwheels.source.acl import NAME as ACL_NAME
from cpuwheels.source.patches import fixed_faults
from cpuwheels.wheel.dist_info import dist_info_of

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from cpuwheels.audit.policy import Audited
    from cpuwheels.environment.sealed_env import Environment
    from cpuwheels.kernels.tcmalloc import Tcmalloc
    from cpuwheels.source.acl import Acl
    from cpuwheels.source.onednn import OneDnn
    from cpuwheels.source.patched import PreparedSource
    from cpuwheels.source.patches import AppliedPatch
    from cpuwheels.source.result import Source
    from cpuwheels.toolchain.result import Toolchain
    from cpuwheels.wheel.components import Component
    from cpuwheels.wheel.requirements import MovedRequirement

NOTE = "cpuwheels.json"
"""File below ``.dist-info`` that holds it."""

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


class KernelFacts(_Facts):
    """What the kernels of a wheel are compiled with."""

    toolchain: VersionFacts
    torch: VersionFacts
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


class Provenance(KernelFacts):
    """What a wheel is made from, with digests, the same for every build of the same key.

    It goes into the wheel, so it holds nothing of the machine, the time or the place of the build.
    """

    format: Literal[1] = 1
    """Raised when a field changes its meaning."""
    target: str
    source: SourceFacts
    patches: tuple[PatchFacts, ...]
    upstream_kernels: bool = False
    """Whether the patches that fix faults of upstream's kernels were left out on purpose."""

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
        return (json.dumps(self.as_dict(), indent=1, sort_keys=True, ensure_ascii=False) + "\n").encode()


def provenance(
    target: str, source: Source, prepared: PreparedSource, kernels: KernelFacts, *, upstream_kernels: bool = False
) -> Provenance:
    """Return what a wheel is made from.

    Args:
        target: Target id.
        source: vLLM's source.
        prepared: The source with our patches.
        kernels: What its kernels are compiled with; those of another wheel if they are taken from there.
        upstream_kernels: Whether faults of upstream's kernels were left in them.
    """
    facts = SourceFacts(version=source.version, digest=source.digest, epoch=source.epoch, commit=source.commit or None)
    return Provenance(
        **{name: getattr(kernels, name) for name in KernelFacts.model_fields},
        target=target,
        source=facts,
        patches=_patch_facts(prepared.patches),
        upstream_kernels=upstream_kernels,
    )


def kernel_facts(
    *,
    toolchain: Toolchain,
    environment: Environment,
    onednn: OneDnn | None,
    acl: Acl | None,
    kernels: str,
    chooser: str | None = None,
    tcmalloc: Tcmalloc | None = None,
    components: Iterable[Component] = (),
) -> KernelFacts:
    """Return what kernels are compiled with.

    Args:
        toolchain: The compiler.
        environment: With torch.
        onednn: Linked into them, if at all.
        acl: Likewise.
        kernels: Their key.
        chooser: Key of the module that chooses among them, if there is one.
        tcmalloc: The allocator in the same wheel, if there is one.
        components: The libraries in that wheel.
    """
    return KernelFacts(
        toolchain=VersionFacts(version=f"{toolchain.family} {toolchain.version}", digest=toolchain.digest),
        torch=VersionFacts(version=environment.torch_version, digest=environment.torch_digest),
        onednn=_onednn_facts(onednn),
        acl=None if acl is None else AclFacts(tag=acl.tag, version=acl.commit, kind=acl.kind),
        alternates=alternates(onednn, acl, environment),
        kernel_key=kernels,
        chooser_key=chooser,
        tcmalloc=_tcmalloc_facts(tcmalloc),
        components=tuple(ComponentFacts.model_validate(vars(each)) for each in components),
    )


def _patch_facts(patches: Iterable[AppliedPatch]) -> tuple[PatchFacts, ...]:
    return tuple(PatchFacts(**asdict(patch)) for patch in patches)


def _onednn_facts(onednn: OneDnn | None) -> OneDnnFacts | None:
    if onednn is None:
        return None
    return OneDnnFacts(
        tag=onednn.tag,
        version=onednn.version,
        digest=onednn.digest,
        kind=onednn.kind,
        release=onednn.release,
        patches=_patch_facts(onednn.patches),
    )


def _tcmalloc_facts(tcmalloc: Tcmalloc | None) -> TcmallocFacts | None:
    if tcmalloc is None:
        return None
    return TcmallocFacts(version=tcmalloc.version, digest=tcmalloc.digest, key=tcmalloc.key)


def alternates(onednn: OneDnn | None, acl: Acl | None, environment: Environment) -> tuple[str, ...]:
    """Return what was built with something else than the matrix's first choice, or without."""
    found = [f"torch {environment.torch_version} from {environment.torch_from}"] if environment.torch_alternate else []
    if onednn is not None and onednn.kind == "alternate":
        found.append(f"oneDNN {onednn.version} in place of {onednn.tag}")
    if acl is not None and acl.kind == "absent":
        found.append(f"no {ACL_NAME} in place of {acl.tag}")
    return tuple(found)


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
