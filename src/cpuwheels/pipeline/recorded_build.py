"""The build record read back: what its writer (`cpuwheels.pipeline.build_record`) put into ``record.json``."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003  (pydantic reads the annotations)

from pydantic import ConfigDict, Field, ValidationError

from cpuwheels.audit.instructions import Judged  # noqa: TC001
from cpuwheels.audit.policy import Bundled  # noqa: TC001
from cpuwheels.config.downloads import Download  # noqa: TC001
from cpuwheels.core.errors import MalformedDataError, WheelError
from cpuwheels.core.models import Sha256, Strict
from cpuwheels.core.parse import parse_json
from cpuwheels.kernels.memory.admission import MemoryUse  # noqa: TC001
from cpuwheels.kernels.memory.ledger import JobRecord  # noqa: TC001
from cpuwheels.pipeline.built_wheel import RECORD
from cpuwheels.pipeline.provenance import Provenance
from cpuwheels.verification.load.install_check import CheckedLibrary  # noqa: TC001
from cpuwheels.wheel.requirements import MovedRequirement  # noqa: TC001

OPERATORS = "operators.json"
"""Next to the record: what each library of the installed wheel registers."""

LOCAL_TREE = "local tree"
"""The source of a wheel that was built from no release and from no commit."""


class _Part(Strict):
    # A record of a later version may have more.
    model_config = ConfigDict(extra="ignore")


class WheelRecord(_Part):
    """The wheel and its audit."""

    file: str
    sha256: str
    size: int
    """Bytes."""
    tags: tuple[str, ...]
    policy: str
    versions: tuple[str, ...]
    bundled: tuple[Bundled, ...] = ()
    moved_requirements: tuple[MovedRequirement, ...] = ()
    instructions: tuple[Judged, ...] = ()
    untried: dict[str, tuple[str, ...]] = Field(default={})
    """Kernels that no CPU has run yet, by library."""
    audit: str = ""
    """Key of the audit of its binaries in the stores; empty if another wheel's audit counts."""


class CompilerRecord(_Part):
    """The compiler and its flags."""

    description: str
    compile_flags: tuple[str, ...]
    cxx_flags: tuple[str, ...]
    link_flags: tuple[str, ...]
    refused: tuple[str, ...]
    flags: dict[str, tuple[str, ...]] = Field(default={})
    """By library or CMake target; none for kernels that were built before these were kept."""


class JobsRecord(_Part):
    """How the kernels were compiled."""

    at_once: int | None = None
    reason: str = ""
    compiled_in_this_run: bool


class TestedCpu(_Part):
    """One CPU of the install check."""

    cpu: str
    emulated: bool = False
    libraries: tuple[str, ...] = ()
    chosen: str | None = None


class PrecompiledRecord(_Part):
    """The wheel whose kernels were taken."""

    origin: str = Field(alias="from")
    wheel: str
    sha256: str


class SharedRecord(_Part):
    """The shared store that the kernels come from."""

    place: str
    sha256: str
    """Of the object that was fetched."""
    signer: str = ""
    """Id of the key that signed its description; empty if nobody had to."""


class SandboxRecord(_Part):
    """What confined upstream's code."""

    mechanism: str
    reason: str = ""
    """Why it was no better one."""


class BuildParameters(_Part):
    """What the user asked for; what has no influence on the bytes of a wheel is left out."""

    target: str
    source: str
    """A version, a full commit hash, or ``local tree``."""
    toolchain: str = "auto"
    locked: bool = False
    allow_fallbacks: bool = False
    """Whether a locked build could use fallbacks that are pinned."""
    debug_symbols: bool = False
    upstream_kernels: bool = False
    upstream_speed: bool = False
    kernels_from: str = ""
    """The wheel whose kernels were taken, if any; nothing was compiled then."""
    source_date_epoch: int | None = None
    """Only if the user set it."""
    checked: bool = True
    """Whether the wheel was installed and its libraries were loaded."""


class FetchedRecord(_Part):
    """What came over the network; see `cpuwheels.core.usage.Fetched`."""

    size: dict[str, int]
    """Bytes by what fetched them: ``http`` (this program), ``git``, ``uv and pip``."""
    files: int
    """How many whole files came; git's objects are none."""
    unknown: tuple[str, ...] = ()
    """Packages that uv fetched without saying how large they are."""


class UsageRecord(_Part):
    """What a run fetched and stored until the record was written."""

    fetched: FetchedRecord
    stored: dict[str, int]
    """Bytes on disk that were added to the stores, by kind; a file with several names counts once."""


class BuildRecord(Provenance):
    """All of a ``record.json``."""

    wheel: WheelRecord
    origin: dict[str, str]
    install_check: str
    tried: tuple[TestedCpu, ...]
    tools: dict[str, str]
    machine: dict[str, str]
    built: str
    """ISO 8601, UTC."""
    seconds: dict[str, float]
    notes: tuple[str, ...]
    logs: str = ""
    """Folder of the run's logs, relative to the record's."""
    jobs: JobsRecord
    compilers: CompilerRecord | None = None
    memory: MemoryUse | None = None
    sandbox: SandboxRecord | None = None
    """None in records of earlier versions."""
    files: tuple[JobRecord, ...] = ()
    precompiled: PrecompiledRecord | None = None
    shared: SharedRecord | None = None
    kept_libraries: tuple[str, ...] = ()
    """Libraries that modules have in common and that an earlier build had made, so that none of `files` did."""
    wheel_key: str = ""
    parameters: BuildParameters | None = None
    """None in records of earlier versions, which no provenance can be made from."""
    dependencies: tuple[Download, ...] = ()
    """What was used of what a build may download; likewise."""
    byproducts: dict[str, Sha256] = Field(default={})
    """Digest of each file next to the record that does not change afterwards, and of each log."""
    usage: UsageRecord | None = None
    """None in records of earlier versions."""


class OperatorList(_Part):
    """An ``operators.json``."""

    libraries: tuple[CheckedLibrary, ...] = ()


def read_record(folder: Path) -> BuildRecord:
    """Read the record in a folder.

    Raises:
        WheelError: There is none, or it is of another version of cpuwheels.
    """
    try:
        content = (folder / RECORD).read_bytes()
    except OSError as error:
        raise WheelError(
            f"{RECORD} cannot be read: {error.strerror}", where=folder, next_step="build the wheel again"
        ) from error
    return parse_record(content, folder)


def parse_record(content: bytes, folder: Path) -> BuildRecord:
    """Return a record.

    Args:
        content: Of the file.
        folder: Where it is, for the message.

    Raises:
        WheelError: It is of another version of cpuwheels.
    """
    try:
        return BuildRecord.model_validate(parse_json(content, folder / RECORD))
    except (MalformedDataError, ValidationError) as error:
        raise WheelError(
            f"{RECORD} is not a build record of this version of cpuwheels",
            where=folder,
            output=str(error),
            next_step="build the wheel again with this version",
        ) from error


def read_operators(folder: Path) -> OperatorList | None:
    """Read the list of operators in a folder; None if there is none, as the wheel was not installed.

    Raises:
        WheelError: It is something else.
    """
    path = folder / OPERATORS
    try:
        return OperatorList.model_validate_json(path.read_bytes()) if path.is_file() else None
    except ValidationError as error:
        raise WheelError(
            f"{OPERATORS} is not a list of operators", where=folder, next_step="build the wheel again"
        ) from error
