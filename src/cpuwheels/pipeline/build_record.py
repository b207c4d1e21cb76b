"""The build record: what a wheel was made from, how long it took, and which fallbacks were used."""

from __future__ import annotations

import json
import platform
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from cpuwheels.config.installation import own_version
from cpuwheels.core.filesystem import write_atomic
from cpuwheels.core.places import without_places

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from cpuwheels.config.downloads import Download
    from cpuwheels.core.usage import Usage
    from cpuwheels.environment.sealed_env import Environment
    from cpuwheels.kernels.memory.limits import JobPlan
    from cpuwheels.kernels.result import Kernels
    from cpuwheels.pipeline.provenance import Provenance
    from cpuwheels.pipeline.recorded_build import BuildParameters
    from cpuwheels.sandbox.mechanism import Mechanism
    from cpuwheels.source.result import Source
    from cpuwheels.toolchain.result import Toolchain


def write_record(
    path: Path,
    *,
    provenance: Provenance,
    wheel_key: str,
    source: Source,
    environment: Environment,
    made: Mapping[str, Any],
    sandbox: Mechanism,
    wheel: Mapping[str, Any],
    tried: Sequence[Mapping[str, object]],
    timings: Mapping[str, float],
    announcements: list[str],
    beside: Iterable[str],
    parameters: BuildParameters | None = None,
    dependencies: Iterable[Download] = (),
    byproducts: Mapping[str, str] | None = None,
    logs: str = "",
    places: Mapping[Path, str] | None = None,
    usage: Usage | None = None,
) -> None:
    """Write ``record.json``.

    It is published with the wheel, so it has no folders of this machine and no credentials of URLs.

    Args:
        path: Where.
        provenance: What the wheel is made from.
        wheel_key: Key of the wheel.
        source: For its origin.
        environment: For its tools.
        made: From `compiled_record` or `precompiled_record`.
        sandbox: What confined upstream's code.
        wheel: File name, sha256, size, tags, moved requirements.
        tried: For each CPU of the install check what was loaded on it, and what the chooser chose; empty if nothing
            here runs the wheel.
        timings: Seconds of each stage of this run.
        announcements: What the run announced.
        beside: Names of the files next to the wheel.
        parameters: What the user asked for.
        dependencies: What was used of what a build may download.
        byproducts: Digests of files next to the wheel and of logs, by name.
        logs: Folder of this run's logs, relative to the wheel's.
        places: Folders of this run, with what is written for each.
        usage: What the run fetched and stored by now.
    """
    record = {
        **provenance.as_dict(),
        "wheel_key": wheel_key,
        "origin": {"source": source.origin, "version_from": source.version_from, "torch": environment.torch_from},
        "wheel": dict(wheel),
        "sandbox": sandbox.as_record(),
        "install_check": "passed" if tried else "not run",
        "tried": [dict(cpu) for cpu in tried],
        "tools": environment.tools | {"cpuwheels": own_version()},
        "machine": {
            "system": f"{platform.system()} {platform.release()}",
            "processor": platform.machine(),
            "python": environment.python_version,
        },
        "built": datetime.now(UTC).isoformat(timespec="seconds"),
        "seconds": {stage: round(seconds, 2) for stage, seconds in timings.items()},
        "notes": announcements,
        "beside": sorted(beside),
        "logs": logs,
        **made,
        "parameters": parameters.model_dump(exclude_none=True) if parameters else None,
        "dependencies": [one.model_dump(exclude_defaults=True) for one in dependencies],
        "byproducts": dict(byproducts or {}),
        "usage": usage and {"fetched": asdict(usage.fetched()), "stored": usage.stored()},
    }
    write_atomic(path, json.dumps(without_places(record, places), indent=1, allow_nan=False) + "\n")


def compiled_record(toolchain: Toolchain, kernels: Kernels, plan: JobPlan) -> dict[str, Any]:
    """Return the build record of kernels that were compiled, now or before.

    Args:
        toolchain: For its flags and the host compilers it refused.
        kernels: For the flags of each library, the time and peak memory of each file, and what an earlier build made.
        plan: Jobs and the memory cap they came from.
    """
    return {
        "compilers": {
            "description": toolchain.description,
            "compile_flags": list(toolchain.compile_flags),
            "cxx_flags": list(toolchain.cxx_flags),
            "link_flags": list(toolchain.link_flags),
            "refused": list(toolchain.refused),
            "flags": {name: list(flags) for name, flags in kernels.flags.items()},
        },
        "jobs": {"at_once": plan.jobs, "reason": plan.reason, "compiled_in_this_run": kernels.built},
        "memory": asdict(kernels.memory),
        **({"shared": asdict(kernels.origin)} if kernels.origin else {}),
        "kept_libraries": list(kernels.kept_libraries),
        "files": [job.model_dump() for job in sorted(kernels.jobs, key=lambda job: job.output)],
    }


def precompiled_record(origin: str, wheel: str, sha256: str) -> dict[str, Any]:
    """Return the build record of kernels that were taken from another wheel.

    Args:
        origin: Where that wheel was.
        wheel: Its file name.
        sha256: Its digest.
    """
    return {"precompiled": {"from": origin, "wheel": wheel, "sha256": sha256}, "jobs": {"compiled_in_this_run": False}}
