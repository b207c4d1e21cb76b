"""A folder as a build leaves it: a small wheel, its build record and its list of operators."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from cpuwheels.config.downloads import Download
from cpuwheels.core.digests import file_digest
from cpuwheels.kernels.memory.admission import MemoryUse
from cpuwheels.kernels.memory.limits import JobPlan
from cpuwheels.kernels.result import Kernels
from cpuwheels.pipeline.build_record import compiled_record, write_record
from cpuwheels.pipeline.recorded_build import BuildParameters
from cpuwheels.pipeline.report.write import refresh_report
from cpuwheels.pipeline.slsa import SUFFIX, write_statement
from cpuwheels.source.result import Source
from kernel_request import environment, toolchain
from ledger_records import RECORDS
from small_wheels import write_wheel
from unconfined import UNCONFINED
from wheel_notes import wheel_note

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from cpuwheels.core.usage import Usage
    from cpuwheels.kernels.memory.ledger import JobRecord

MEMORY = MemoryUse(jobs=2, cap=1000, where="--memory 1000", room=800, how="a group", peak=540)
FLAGS = {"_C": ("-O3", "-mavx512f")}
TORCH = "torch==2.13.0+cpu; platform_machine != 'arm64'"
DEPENDENCIES = (
    Download(
        stage="source",
        name="vllm",
        version="0.32.0",
        uri="pkg:pypi/vllm@0.32.0",
        digest={"sha256": "d" * 64},
        location="https://files.example.org/vllm-0.32.0.tar.gz",
        size=44_549_956,
    ),
    Download(stage="patch", name="patches/0001-cpuinfo.patch", digest={"sha256": "e" * 64}),
    Download(stage="onednn", name="oneDNN", uri=f"git+https://github.com/uxlfoundation/oneDNN.git@{'0' * 40}"),
    Download(stage="toolchain", name="GNU", version="15.3.0", key="a" * 24),
    Download(stage="sysroot", name="libc6", version="2.31-13+deb11u11", digest={"sha256": "b" * 64}),
)
OPERATORS = {"_C": ("_C::scale", "_C::gelu")}


def write_build(
    folder: Path,
    *,
    target: str = "x86",
    version: str = "0.32.0+cpu",
    platform: str = "manylinux_2_27_x86_64",
    files: Mapping[str, str] | None = None,
    requires: Sequence[str] = (TORCH,),
    notes: Sequence[str] = (),
    jobs: Sequence[JobRecord] = tuple(RECORDS),
    memory: MemoryUse = MEMORY,
    flags: Mapping[str, tuple[str, ...]] = FLAGS,
    operators: Mapping[str, Sequence[str]] = OPERATORS,
    instructions: Sequence[Mapping[str, Any]] = (),
    untried: Mapping[str, Sequence[str]] | None = None,
    facts: Mapping[str, Any] | None = None,
    made: Mapping[str, Any] | None = None,
    asked: Mapping[str, Any] | None = None,
    dependencies: Sequence[Download] = DEPENDENCIES,
    there: Path | None = None,
    usage: Usage | None = None,
) -> Path:
    """Write the folder and return the wheel, that which is there if one is given; keywords replace parts of it."""
    tag = f"cp38-abi3-{platform}"
    wheel = there or write_wheel(folder, "vllm", version, files or {"vllm/__init__.py": "1"}, *requires, tag=tag)
    kernels = Kernels("key", folder, ("_C",), tuple(jobs), True, memory, reads=None, flags=flags)  # type: ignore[arg-type]
    listed = [
        {"name": name, "operators": [{"name": one, "schema": f"{one}()"} for one in ones], "not_loaded": ""}
        for name, ones in operators.items()
    ]
    (folder / "operators.json").write_text(json.dumps({"libraries": listed}))
    write_record(
        folder / "record.json",
        provenance=wheel_note(target=target, **(facts or {})),
        wheel_key="w",
        source=Source(version, folder, "s" * 64, 1_700_000_000, "sdist from somewhere", "release"),
        environment=environment(),
        made=made or compiled_record(toolchain(), kernels, JobPlan(2, "CPUs", 1000, "--memory 1000")),
        sandbox=UNCONFINED.mechanism,
        wheel={
            "file": wheel.name,
            "sha256": file_digest(wheel),
            "size": wheel.stat().st_size,
            "tags": [tag],
            "policy": platform,
            "versions": ["GLIBC_2.27"],
            "instructions": list(instructions),
            "untried": dict(untried or {}),
        },
        tried=[{"cpu": "this machine's", "libraries": ["_C"], "chosen": None}],
        timings={"kernels": 1.5},
        announcements=list(notes),
        beside=["operators.json", "report.html", f"{wheel.name}{SUFFIX}"],
        parameters=BuildParameters(**{"target": target, "source": version.partition("+")[0], **(asked or {})}),
        dependencies=dependencies,
        byproducts={"operators.json": file_digest(folder / "operators.json"), "logs/wheel.log": "1" * 64},
        logs="../logs",
        usage=usage,
    )
    write_statement(folder)
    refresh_report(folder)
    return wheel
