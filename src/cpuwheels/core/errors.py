"""Every way a build can end early: one class per kind of fault, each with its own exit code.

A message has three parts, always in this order: what is wrong (with the offending value), where it was
found, and the next step for the person who reads it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from cpuwheels.core.text import printable
from cpuwheels.core.urls import without_userinfo

if TYPE_CHECKING:
    from pathlib import Path


class CpuwheelsError(Exception):
    """A fault that ends the run with one message.

    Credentials in URLs are taken out of all its parts, and what a terminal would obey is escaped where it is shown.

    Args:
        what: The fault and the value that caused it.
        where: File, option, URL or stage the value came from.
        next_step: What the reader can do about it.
        log: Log file of the step that failed, if it has one.
        output: Last lines of the failed step's output, shown indented under the message.
    """

    exit_code: ClassVar[int] = 1

    def __init__(
        self, what: str, *, where: str | Path = "", next_step: str = "", log: Path | None = None, output: str = ""
    ) -> None:
        self.what = without_userinfo(what)
        super().__init__(self.what)
        self.where = without_userinfo(str(where))
        self.next_step = without_userinfo(next_step)
        self.log = log
        self.output = without_userinfo(output)

    def __str__(self) -> str:
        """Return the message as shown to a person."""
        lines = [self.what]
        if self.where:
            lines.append(f"  where: {self.where}")
        if self.output:
            lines.extend(f"    | {line.expandtabs()}" for line in self.output.rstrip().splitlines())
        if self.log is not None:
            lines.append(f"  log:   {self.log}")
        if self.next_step:
            lines.append(f"  next:  {self.next_step}")
        return "\n".join(map(printable, lines))


def reason(error: Exception) -> str:
    """Return what is wrong, in a form that fits into the message of another error."""
    return error.what if isinstance(error, CpuwheelsError) else str(error)


class UsageError(CpuwheelsError):
    """An option or argument on the command line is wrong."""

    exit_code = 2


class CheckoutError(CpuwheelsError):
    """The command writes into the project's files, and there is no checkout of the project to write into."""

    exit_code = 50


class MatrixError(CpuwheelsError):
    """A configuration file (matrix, patch series, lock) does not fit its model."""

    exit_code = 10


class UnknownTargetError(CpuwheelsError):
    """The requested target is not in the matrix."""

    exit_code = 11


class TargetNotBuiltError(CpuwheelsError):
    """The target is in the matrix but cannot be built yet, or not on this machine."""

    exit_code = 12


class SourceError(CpuwheelsError):
    """The requested vLLM source cannot be identified or read."""

    exit_code = 13


class UnsuitableSourceError(SourceError):
    """The source exists, but it is not a vLLM that can be built for CPUs."""

    exit_code = 39


class DigestMismatchError(CpuwheelsError):
    """Bytes do not have the pinned sha256."""

    exit_code = 14


class SignatureError(DigestMismatchError):
    """A list of Debian's packages is not signed by Debian, is another suite's or out of date, or cannot be checked."""

    exit_code = 59


class DownloadError(CpuwheelsError):
    """A file or a repository could not be fetched from any of its mirrors, or came in truncated."""

    exit_code = 15


class UnsafeArchiveError(CpuwheelsError):
    """An archive holds a member that may not be unpacked (outside path, link, device)."""

    exit_code = 16


class PatchError(CpuwheelsError):
    """A patch neither applies nor is already upstream."""

    exit_code = 17


class ToolchainError(CpuwheelsError):
    """No compiler meets the target's requirements, or the toolchain could not be prepared."""

    exit_code = 18


class TorchError(CpuwheelsError):
    """No CPU build of the torch that the source pins can be found."""

    exit_code = 19


class BuildEnvironmentError(CpuwheelsError):
    """The Python environment for the build could not be made."""

    exit_code = 20


class OneDnnError(CpuwheelsError):
    """OneDNN's pinned source cannot be fetched."""

    exit_code = 21


class LockedError(CpuwheelsError):
    """``--locked`` was given and something is not exactly as pinned."""

    exit_code = 22


class MemoryCapError(CpuwheelsError):
    """The memory cap is below what a single file needs."""

    exit_code = 23


class StoreError(CpuwheelsError):
    """The cache or the output folder cannot be written or read."""

    exit_code = 24


class DiskFullError(CpuwheelsError):
    """The disk ran out of space."""

    exit_code = 25


class ConfigureError(CpuwheelsError):
    """CMake could not configure the kernels."""

    exit_code = 26


class CompileError(CpuwheelsError):
    """A kernel did not compile or link."""

    exit_code = 27


class OutOfMemoryError(CpuwheelsError):
    """A compiler was killed for memory."""

    exit_code = 28


class WheelError(CpuwheelsError):
    """The wheel could not be assembled, or a build's record cannot be read."""

    exit_code = 29


class AuditError(CpuwheelsError):
    """The finished wheel breaks the target's policy (glibc floor, missing library, tags)."""

    exit_code = 30


class InstallCheckError(CpuwheelsError):
    """The installed wheel does not load, or registers no operators."""

    exit_code = 31


class ReproducibilityError(CpuwheelsError):
    """Two builds of the same key differ."""

    exit_code = 32


class ParityError(CpuwheelsError):
    """A kernel's result does not agree with its oracle."""

    exit_code = 34


class UnusableWheelError(CpuwheelsError):
    """There is no such wheel, or it has no kernels for the target: not a wheel, another platform, no libraries."""

    exit_code = 35


class SlowerError(CpuwheelsError):
    """An operator or a server is slower than that of the wheel it is compared with."""

    exit_code = 36


class BisectError(CpuwheelsError):
    """A bisection cannot begin or cannot go on."""

    exit_code = 38


class PrecompiledError(CpuwheelsError):
    """No wheel given with ``--kernels-from`` has the kernels of this source."""

    exit_code = 40


class PublishError(CpuwheelsError):
    """A wheel cannot be published, or an index cannot be read or changed."""

    exit_code = 41


class NightlyError(CpuwheelsError):
    """Not every wheel of a nightly job was published: a result was wrong, or one could not be made."""

    exit_code = 42


class PostponedError(CpuwheelsError):
    """A nightly job ran out of time or disk; the next one goes on."""

    exit_code = 43


class ServeError(CpuwheelsError):
    """A server with the wheel does not start, or its answers differ from those of Hugging Face transformers."""

    exit_code = 44


class PreflightError(CpuwheelsError):
    """Torch itself crashes or gives wrong results on this CPU, so a wheel's kernels cannot be tested."""

    exit_code = 45


class ImageError(CpuwheelsError):
    """A container image cannot be composed, does not serve, or cannot be pushed."""

    exit_code = 49


class SandboxError(CpuwheelsError):
    """Upstream's code cannot be confined on this machine, and the run may not do without."""

    exit_code = 58


class CommandError(CpuwheelsError):
    """A helper command failed for a reason that has no error class of its own."""

    exit_code = 33


class MalformedDataError(CpuwheelsError, ValueError):
    """Data (JSON, TOML or YAML) that another program or person wrote is not well-formed, or too large or too deep."""

    exit_code = 60


class StepLimitError(CpuwheelsError):
    """A step took longer, was idle longer, or printed more than it may."""

    exit_code = 54


class ProvenanceError(CpuwheelsError):
    """A wheel's provenance cannot be signed, or is not what it has to be: changed, another wheel's, or another's."""

    exit_code = 63


class RebuildError(CpuwheelsError):
    """A published wheel cannot be rebuilt: it does not say how, or says what may not be done."""

    exit_code = 64


class NotReproducedError(CpuwheelsError):
    """A published wheel was rebuilt, and the rebuilt one has other bytes."""

    exit_code = 65


class MirrorError(CpuwheelsError):
    """A mirror lacks what a wheel needs, or has other bytes than it says."""

    exit_code = 66


class SharedStoreError(CpuwheelsError):
    """A shared store cannot be reached or written, or others have shared other bytes under the same key."""

    exit_code = 67


class FarmError(CpuwheelsError):
    """A farm cannot be reached, has no machine for a job, or a machine of it sent something else than it should."""

    exit_code = 68


_CONTINUE = "run the same command again; it continues after what is finished"


class StoppedError(CpuwheelsError):
    """The run was stopped by Ctrl-C or a termination signal."""

    exit_code = 130

    def __init__(self, what: str = "stopped", next_step: str = _CONTINUE) -> None:
        super().__init__(what, next_step=next_step)
