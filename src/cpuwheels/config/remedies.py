"""What to do after each kind of error, by its class: the table in docs/troubleshooting.md is made of it."""

from __future__ import annotations

import inspect
from types import MappingProxyType

from cpuwheels.core import errors
from cpuwheels.core.errors import CpuwheelsError

REMEDIES = MappingProxyType(
    {
        errors.UsageError: "read the message: it names the option and the nearest one there is; `--help` lists all",
        errors.CheckoutError: "run it in a checkout, or name one with `--root` "
        "([building](build.md#without-a-checkout))",
        errors.MatrixError: "the message has the file, the line and the nearest key; [reference](reference/matrix.md). "
        "If generated pages are stale: `nox -s schema`",
        errors.UnknownTargetError: "the message lists the targets",
        errors.TargetNotBuiltError: "build a `ready` target on a machine of its kind, or on one where its pinned "
        "compiler runs ([cross builds](cross-building.md))",
        errors.SourceError: "[which source](build.md#which-source): a version that is pinned, a folder, or a "
        "[commit](build.md#commits) that the repository has; if a checkout's version cannot be determined, "
        "`git fetch --tags`",
        errors.UnsuitableSourceError: "give the folder with vLLM's `CMakeLists.txt` and `setup.py`",
        errors.DigestMismatchError: "do not use the file. If a proxy or mirror alters files, name another. If upstream "
        "published it again, check it and correct the pin",
        errors.SignatureError: "`nox -s lock`: the mirror is no longer renewed, so name another or a snapshot in "
        "`CPUWHEELS_DEBIAN_MIRROR`, or accept its list with `--as-of` and the time in the message "
        "([locks](development.md#locks))",
        errors.DownloadError: "network, proxy, or a [mirror](mirrors.md). For vLLM's repository name a clone with "
        "`--repo` or in `CPUWHEELS_VLLM_REPO`. A Debian package with HTTP status 404 on every mirror was replaced by a "
        "newer version: name a snapshot, or run `nox -s lock -- --update`",
        errors.UnsafeArchiveError: "do not use it",
        errors.PatchError: "narrow the patch's `versions`, or [rewrite it](patches.md)",
        errors.ToolchainError: "[no compiler is accepted](#no-compiler-is-accepted)",
        errors.TorchError: "[torch is not found](#torch-is-not-found)",
        errors.BuildEnvironmentError: "[the Python environment cannot be made](#the-python-environment-cannot-be-made)",
        errors.OneDnnError: "[oneDNN cannot be reached](#onednn-cannot-be-reached)",
        errors.LockedError: "pin the input in matrix.yaml or its lock and run `nox -s lock`, name a mirror, use "
        "`--allow-fallbacks`, or build without `--locked` ([what it refuses](build.md#only-what-is-pinned---locked))",
        errors.MemoryCapError: "give more memory: a smaller cap cannot work ([the memory cap](memory-cap.md))",
        errors.StoreError: "set `CPUWHEELS_CACHE`, or make the folder writable",
        errors.DiskFullError: "[the disk is full](#the-disk-is-full)",
        errors.ConfigureError: "[CMake or a compilation fails](#cmake-or-a-compilation-fails)",
        errors.CompileError: "[CMake or a compilation fails](#cmake-or-a-compilation-fails)",
        errors.OutOfMemoryError: "[a compiler was killed for memory](#a-compiler-was-killed-for-memory)",
        errors.WheelError: "[the wheel is refused](#the-wheel-is-refused)",
        errors.AuditError: "each fault is listed; [what is checked](wheel.md#what-is-checked-before-it-is-published)",
        errors.InstallCheckError: "read `install-check.log`",
        errors.ReproducibilityError: "the message has the first differing byte of each file; "
        "[reproducibility](reproducibility.md)",
        errors.CommandError: "read the command's output in the message, and its log",
        errors.ParityError: "read `parity.html` next to the wheel, then [a failed parity](parity.md#a-failed-parity); "
        "do not publish the wheel",
        errors.UnusableWheelError: "build one with `nox -s build-<target>`, or give another with `--wheel`",
        errors.SlowerError: "read `speed.json` or `serve-bench.json`; [kernel speed](parity.md#kernel-speed)",
        errors.BisectError: "the message has the reason; [the ends](bisect.md#the-ends)",
        errors.PrecompiledError: "each difference is listed; leave `--kernels-from` out to compile",
        errors.PublishError: "`nox -s check-index` ([checking](wheel-index.md#checking))",
        errors.NightlyError: "read `why.txt` of each wheel ([when something fails](nightly.md#when-something-fails))",
        errors.PostponedError: "the next run goes on",
        errors.ServeError: "read the server's log, which the message names ([serving](serve.md)); do not publish the "
        "wheel",
        errors.PreflightError: "[torch dies of an illegal instruction]"
        "(#torch-dies-of-an-illegal-instruction-in-bfloat16)",
        errors.ImageError: "the message names the requirement, the image's log or the registry ([images](images.md))",
        errors.SandboxError: "`nox -s doctor` says what confines a build here and what is missing "
        "([sandbox](security.md)); `--allow-unsandboxed` does without",
        errors.StepLimitError: "see in its log what it waits for; on a slow machine set `CPUWHEELS_LIMIT_FACTOR=4` "
        "([design](design.md#child-processes))",
        errors.MalformedDataError: "the message has the file and the fault; fetch or write the file again",
        errors.ProvenanceError: "do not use the wheel before you know who changed what "
        "([verifying](provenance.md#verifying-a-wheel))",
        errors.RebuildError: "the message has the reason; [what a rebuild needs](rebuild.md)",
        errors.NotReproducedError: "the report names the members; [rebuilding](rebuild.md)",
        errors.MirrorError: "fill the mirror with `nox -s mirror -- FOLDER WHEEL` ([mirrors](rebuild.md#mirrors))",
        errors.SharedStoreError: "the message has the place and the reason; `share --check` reads every object and "
        "writes the damaged ones again ([shared stores](shared-stores.md))",
        errors.FarmError: "the message has the machine and the reason ([farms](farm.md#what-goes-wrong))",
        errors.StoppedError: "[it stopped, or I stopped it](#it-stopped-or-i-stopped-it)",
    }
)
"""Markdown, for a page of docs/."""


def error_classes() -> list[type[CpuwheelsError]]:
    """Return each kind of error, by its exit code."""
    found = [
        member
        for _, member in inspect.getmembers(errors, inspect.isclass)
        if issubclass(member, CpuwheelsError) and member is not CpuwheelsError
    ]
    return sorted(found, key=lambda member: member.exit_code)
