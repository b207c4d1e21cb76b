"""The build record: what a wheel was made from, how long it took, and what stood in for something else."""

from __future__ import annotations

import json
import platform
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from cpuwheels.core.filesystem import write_atomic
from cpuwheels.source.acl import NAME

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from cpuwheels.environment.build_env import Environment
    from cpuwheels.kernels.memory.limits import JobPlan
    from cpuwheels.kernels.result import Kernels
    from cpuwheels.source.acl import Acl
    from cpuwheels.source.onednn import OneDnn
    from cpuwheels.source.patched import PreparedSource
    from cpuwheels.source.result import Source
    from cpuwheels.toolchain.result import Toolchain

FORMAT = 1
"""Version of the record's layout; raised when a field changes its meaning."""


def provenance(target: str, source: Source, prepared: PreparedSource) -> dict[str, Any]:
    """Return what of upstream a wheel is made from, with digests, the same for every build of the same key.

    It goes into the wheel itself, so it holds nothing of the machine, the time or the place of the build.
    """
    return {
        "format": FORMAT,
        "target": target,
        "source": {
            "version": source.version,
            "digest": source.digest,
            "epoch": source.epoch,
            **({"commit": source.commit} if source.commit else {}),
        },
        "patches": [asdict(patch) for patch in prepared.patches],
    }


COMPILER_FACTS = ("toolchain", "torch", "onednn", "acl", "alternates", "kernel_key", "chooser_key")
"""What `compiler_note` says."""


def compiler_note(
    *,
    toolchain: Toolchain,
    environment: Environment,
    onednn: OneDnn | None,
    acl: Acl | None,
    kernels: str,
    chooser: str | None = None,
) -> dict[str, Any]:
    """Return what the kernels of a wheel are compiled with, for the same place as `provenance`.

    Args:
        toolchain: The compiler.
        environment: With torch.
        onednn: Linked into them, if at all.
        acl: Likewise.
        kernels: Their key.
        chooser: Key of the module that chooses among them, if there is one.
    """
    return {
        "toolchain": {"version": f"{toolchain.family} {toolchain.version}", "digest": toolchain.digest},
        "torch": {"version": environment.torch_version, "digest": environment.torch_digest},
        "onednn": onednn
        and {
            "tag": onednn.tag,
            "version": onednn.version,
            "digest": onednn.digest,
            "kind": onednn.kind,
        },
        "acl": {"tag": acl.tag, "version": acl.commit, "kind": acl.kind} if acl else None,
        "alternates": alternates(onednn, acl, environment),
        "kernel_key": kernels,
        **({"chooser_key": chooser} if chooser else {}),
    }


def alternates(onednn: OneDnn | None, acl: Acl | None, environment: Environment) -> list[str]:
    """Return what was built with something else than the matrix's first choice, or without."""
    found = [f"torch {environment.torch_version} from {environment.torch_from}"] if environment.torch_alternate else []
    if onednn is not None and onednn.kind == "alternate":
        found.append(f"oneDNN {onednn.version} in place of {onednn.tag}")
    if acl is not None and acl.kind == "absent":
        found.append(f"no {NAME} in place of {acl.tag}")
    return found


def write_record(
    path: Path,
    *,
    inputs: Mapping[str, Any],
    source: Source,
    environment: Environment,
    made: Mapping[str, Any],
    wheel: Mapping[str, Any],
    tried: Sequence[Mapping[str, object]],
    timings: Mapping[str, float],
    announcements: list[str],
    beside: Iterable[str],
) -> None:
    """Write ``record.json``.

    Args:
        path: Where.
        inputs: From `provenance` and `compiler_note`.
        source: For its origin.
        environment: For its tools.
        made: From `compiled_record` or `precompiled_record`.
        wheel: File name, sha256, size, tags, moved requirements.
        tried: For each CPU of the install check what was loaded on it, and what the chooser chose; empty if nothing
            here runs the wheel.
        timings: Seconds of each stage of this run.
        announcements: What the run said aloud.
        beside: Names of what lies beside the wheel.
    """
    record = {
        **inputs,
        "origin": {
            "source": source.origin,
            "version_from": source.version_from,
            "torch": environment.torch_from,
        },
        "wheel": dict(wheel),
        "install_check": "passed" if tried else "not run",
        "tried": [dict(cpu) for cpu in tried],
        "tools": environment.tools | {"cpuwheels": version("cpuwheels")},
        "machine": {
            "system": f"{platform.system()} {platform.release()}",
            "processor": platform.machine(),
            "python": environment.python_version,
        },
        "built": datetime.now(UTC).isoformat(timespec="seconds"),
        "seconds": {stage: round(seconds, 2) for stage, seconds in timings.items()},
        "notes": announcements,
        "beside": sorted(beside),
        **made,
    }
    write_atomic(path, json.dumps(record, indent=1) + "\n")


def compiled_record(toolchain: Toolchain, kernels: Kernels, plan: JobPlan) -> dict[str, Any]:
    """Return what the build record says of kernels that were compiled, now or before.

    Args:
        toolchain: For its flags and the host compilers it refused.
        kernels: For the time and peak memory of each file.
        plan: Jobs and the memory cap they came from.
    """
    return {
        "compilers": {
            "description": toolchain.description,
            "compile_flags": list(toolchain.compile_flags),
            "cxx_flags": list(toolchain.cxx_flags),
            "link_flags": list(toolchain.link_flags),
            "refused": list(toolchain.refused),
        },
        "jobs": {"at_once": plan.jobs, "reason": plan.reason, "compiled_in_this_run": kernels.built},
        "memory": asdict(kernels.memory),
        "files": sorted(kernels.jobs, key=lambda job: str(job.get("output"))),
    }


def precompiled_record(origin: str, wheel: str, sha256: str) -> dict[str, Any]:
    """Return what the build record says of kernels that were taken from another wheel.

    Args:
        origin: Where that wheel was.
        wheel: Its file name.
        sha256: Its digest.
    """
    return {
        "precompiled": {"from": origin, "wheel": wheel, "sha256": sha256},
        "jobs": {"compiled_in_this_run": False},
    }
