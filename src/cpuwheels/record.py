"""The build record: what a wheel was made from, how long it took, and what stood in for something else."""

from __future__ import annotations

import json
import platform
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from cpuwheels.acl import NAME
from cpuwheels.storage import write_atomic

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from cpuwheels.acl import Acl
    from cpuwheels.environment import Environment
    from cpuwheels.kernels.result import Kernels
    from cpuwheels.memory import JobPlan
    from cpuwheels.onednn import OneDnn
    from cpuwheels.prepare import PreparedSource
    from cpuwheels.source.result import Source
    from cpuwheels.toolchain.result import Toolchain

FORMAT = 1
"""Version of the record's layout; raised when a field changes its meaning."""


def provenance(
    *,
    target: str,
    source: Source,
    prepared: PreparedSource,
    toolchain: Toolchain,
    environment: Environment,
    onednn: OneDnn | None,
    acl: Acl | None,
    kernels: Kernels,
    chooser: str | None = None,
) -> dict[str, Any]:
    """Return the inputs of a wheel with their digests, the same for every build of the same key.

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
        "kernel_key": kernels.key,
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
    toolchain: Toolchain,
    environment: Environment,
    kernels: Kernels,
    plan: JobPlan,
    wheel: Mapping[str, Any],
    tried: Sequence[Mapping[str, object]],
    timings: Mapping[str, float],
    announcements: list[str],
    beside: Iterable[str],
) -> None:
    """Write ``record.json``.

    Args:
        path: Where.
        inputs: From `provenance`.
        source: For its origin.
        toolchain: For its flags and the host compilers it refused.
        environment: For its tools.
        kernels: For the time and peak memory of each file.
        plan: Jobs and the memory cap they came from.
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
        "compilers": {
            "description": toolchain.description,
            "compile_flags": list(toolchain.compile_flags),
            "cxx_flags": list(toolchain.cxx_flags),
            "link_flags": list(toolchain.link_flags),
            "refused": list(toolchain.refused),
        },
        "tools": environment.tools | {"cpuwheels": version("cpuwheels")},
        "machine": {
            "system": f"{platform.system()} {platform.release()}",
            "processor": platform.machine(),
            "python": environment.python_version,
        },
        "built": datetime.now(UTC).isoformat(timespec="seconds"),
        "jobs": {"at_once": plan.jobs, "reason": plan.reason, "compiled_in_this_run": kernels.built},
        "memory": asdict(kernels.memory),
        "seconds": {stage: round(seconds, 2) for stage, seconds in timings.items()},
        "notes": announcements,
        "beside": sorted(beside),
        "files": sorted(kernels.jobs, key=lambda job: str(job.get("output"))),
    }
    write_atomic(path, json.dumps(record, indent=1) + "\n")
