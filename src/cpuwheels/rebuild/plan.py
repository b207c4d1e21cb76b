"""What a rebuild does, from what a published wheel says: nothing but what this list of parameters has.

The wheel and its statement are somebody else's. So only values of known forms are taken from them, no address and no
option, and what they say twice has to be the same.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Literal

from packaging.version import InvalidVersion, Version
from pydantic import ConfigDict, Field, StringConstraints, ValidationError
from pydantic.alias_generators import to_camel

from cpuwheels.core.digests import COMMIT, SHA256
from cpuwheels.core.errors import RebuildError
from cpuwheels.core.models import Identifier, Strict
from cpuwheels.pipeline.recorded_build import LOCAL_TREE
from cpuwheels.wheel.dist_info import NOTE

if TYPE_CHECKING:
    from cpuwheels.pipeline.in_toto import ProvenanceStatement, ResourceDescriptor
    from cpuwheels.pipeline.provenance import WheelNote

_LATEST = 1 << 33
"""Seconds since 1970 that a file system can write: the year 2242."""


class Asked(Strict):
    """The parameters of a build from outside, of which docs/provenance.md has the meaning."""

    model_config = ConfigDict(alias_generator=to_camel, strict=True)

    target: Annotated[Identifier, StringConstraints(max_length=64)]
    source: Annotated[str, StringConstraints(max_length=128)]
    toolchain: Literal["auto", "host", "debian"] = "auto"
    locked: bool = False
    allow_fallbacks: bool = False
    debug_symbols: bool = False
    upstream_kernels: bool = False
    upstream_speed: bool = False
    kernels_from: Annotated[str, StringConstraints(max_length=255)] = ""
    source_date_epoch: int | None = Field(default=None, ge=0, lt=_LATEST)
    checked: bool = True


@dataclass(frozen=True)
class ProgramFacts:
    """Which cpuwheels built a wheel.

    Attributes:
        commit: Its commit.
        code: Digest of its code; empty if only the commit is known.
        matrix: Digest of its matrix.yaml; likewise.
        version: As it was installed; likewise.
    """

    commit: str
    code: str = ""
    matrix: str = ""
    version: str = ""


@dataclass(frozen=True)
class RebuildPlan:
    """How a wheel is rebuilt.

    Attributes:
        asked: The parameters of its build.
        program: Which cpuwheels built it.
        sdist: Digest of the sdist of a release; empty for a commit.
        toolchain: Which compiler it was in the end.
        locked: Whether the rebuild refuses everything that is not pinned by content.
        remarks: What limits what the rebuild says, for people.
        dependencies: What the wheel was made from, as its statement has it.
    """

    asked: Asked
    program: ProgramFacts
    sdist: str
    toolchain: Literal["auto", "host", "debian"]
    locked: bool
    remarks: tuple[str, ...] = ()
    dependencies: tuple[ResourceDescriptor, ...] = field(default=(), repr=False)

    def arguments(self) -> list[str]:
        """Return the command of that cpuwheels which builds the wheel, without its folders."""
        given = ["build", self.asked.target, "--source", self.asked.source, "--toolchain", self.toolchain]
        given += ["--sha256", self.sdist] if self.sdist else []
        flags = {
            "--locked": self.locked,
            "--allow-fallbacks": self.asked.allow_fallbacks,
            "--debug-symbols": self.asked.debug_symbols,
            "--upstream-kernels": self.asked.upstream_kernels,
            "--upstream-speed": self.asked.upstream_speed,
        }
        given += [name for name, wanted in flags.items() if wanted]
        # Objects of other builds are not taken, and nothing of upstream's runs unconfined.
        return [*given, "--compiler-cache", "off", "--sandbox-required", "--no-summary"]


def plan_rebuild(note: WheelNote, statement: ProvenanceStatement | None, commit: str | None, where: str) -> RebuildPlan:
    """Return how a wheel is rebuilt.

    Args:
        note: In the wheel.
        statement: Its provenance, which is about this wheel; None if there is none.
        commit: The cpuwheels that built it, if the user says that.
        where: The wheel, for messages.

    Raises:
        RebuildError: It does not say enough, or says what no build of cpuwheels says.
    """
    asked = _asked(note, statement, where)
    dependencies = statement.predicate.build_definition.resolved_dependencies if statement else ()
    _check_source(asked, note, where)
    host = not note.toolchain.packages and any(one.stage == "toolchain" and not one.digest for one in dependencies)
    pinned = "debian" if note.toolchain.packages else "host" if host else asked.toolchain
    loose = [one.name or "" for one in dependencies if not one.digest and one.stage != "cpuwheels"]
    locked = asked.locked or (statement is not None and not note.alternates and not loose)
    return RebuildPlan(
        asked=asked,
        program=_program(dependencies, commit, where),
        sdist=note.source.digest if note.source.sdist else "",
        toolchain=pinned,
        locked=locked,
        remarks=tuple(_remarks(note, asked, loose, locked=locked, host=host, stated=statement is not None)),
        dependencies=dependencies,
    )


def _asked(note: WheelNote, statement: ProvenanceStatement | None, where: str) -> Asked:
    source = note.source
    own = {
        "target": note.target,
        "source": source.version if source.sdist else source.commit or LOCAL_TREE,
        "upstreamKernels": note.upstream_kernels,
        "upstreamSpeed": note.upstream_speed,
    }
    given = dict(statement.predicate.build_definition.external_parameters) if statement else own
    try:
        asked = Asked.model_validate(given)
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        raise _refused(
            f"the parameter {'.'.join(map(str, fault['loc']))} of its build: {fault['msg']}", where
        ) from error
    said = asked.model_dump(by_alias=True)
    for name, value in own.items():
        same = _same_version(said[name], value) if name == "source" and source.sdist else said[name] == value
        if not same:
            raise _refused(f"its statement has the {name} {said[name]!r:.100}, its {NOTE} {value!r:.100}", where)
    return asked


def _same_version(one: object, other: object) -> bool:
    try:
        return Version(str(one)) == Version(str(other))
    except InvalidVersion:
        return False


def _check_source(asked: Asked, note: WheelNote, where: str) -> None:
    """Refuse a source that others cannot get, and one whose name could be read as something else."""
    if asked.source == LOCAL_TREE:
        raise RebuildError(
            "the wheel was built from a folder of somebody's machine, which nobody else has",
            where=where,
            next_step="rebuild a wheel of a release or of a commit",
        )
    if note.source.sdist:
        if not SHA256.fullmatch(note.source.digest):
            raise _refused(f"its {NOTE} names the sdist by {note.source.digest!r:.100}, which is no sha256", where)
    elif not COMMIT.fullmatch(asked.source):
        raise _refused(f"its source {asked.source!r:.100} is no full hash", where)
    if not 0 <= note.source.epoch < _LATEST:
        raise _refused(f"its {NOTE} has a source of {note.source.epoch} seconds after 1970", where)


def _program(dependencies: tuple[ResourceDescriptor, ...], commit: str | None, where: str) -> ProgramFacts:
    own = {one.name: one for one in dependencies if one.stage == "cpuwheels"}
    program, matrix = own.get("cpuwheels"), own.get("matrix.yaml")
    said = (program.digest or {}).get("gitCommit", "") if program else ""
    if said and commit and said != commit:
        raise RebuildError(
            f"its statement says that the cpuwheels of commit {said} built it, not of {commit}",
            where="--cpuwheels",
            next_step="leave --cpuwheels out",
        )
    known = said or commit or ""
    if not COMMIT.fullmatch(known):
        raise RebuildError(
            f"nothing says which commit of cpuwheels built the wheel{': it was a changed checkout' if program else ''}",
            where=where,
            next_step="put its .provenance.json next to it, or name the commit with --cpuwheels",
        )
    facts = (program.annotations or {}) if program else {}
    return ProgramFacts(
        commit=known,
        code=str(facts.get("contentKey", "")),
        matrix=((matrix.digest or {}) if matrix else {}).get("sha256", ""),
        version=str(facts.get("version", "")),
    )


def _remarks(note: WheelNote, asked: Asked, loose: list[str], *, locked: bool, host: bool, stated: bool) -> list[str]:
    found = []
    if not stated:
        found.append("there is no statement of its build: its options are taken for the usual ones")
    if host:
        found.append(
            f"a compiler of the building machine compiled it ({note.toolchain.version}): the same bytes need that one"
        )
    if not locked:
        what = ", ".join([*note.alternates, *loose]) or "what is not known"
        found.append(f"it was built without --locked, from what is not pinned: {what}; so is the rebuild")
    if asked.kernels_from:
        found.append(f"its kernels were taken from {asked.kernels_from}; the rebuild compiles them")
    return found


def _refused(why: str, where: str) -> RebuildError:
    return RebuildError(
        f"the wheel is refused: {why}",
        where=where,
        next_step="get wheel and statement again from where they are published",
    )
