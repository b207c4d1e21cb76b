"""A rebuilder's statements, made up for tests."""

from __future__ import annotations

from typing import Any

from cpuwheels.pipeline.in_toto import ResourceDescriptor, Subject
from cpuwheels.rebuild.statement import Attestation, Details, ProgramStated, RebuildStatement, make_statement

NAME = "vllm-0.32.0+cpu-cp38-abi3-manylinux_2_27_x86_64.whl"
SHA256, OTHER = "1" * 64, "2" * 64


def details(sha256: str = SHA256, **changes: Any) -> Details:
    given = {
        "result": "reproduced" if sha256 == SHA256 else "differs",
        "rebuilt": Subject(name=NAME, digest={"sha256": sha256}),
        "program": ProgramStated(commit="c" * 40, tree="d" * 40, code="e" * 64),
        "parameters": {"target": "x86", "source": "0.32.0"},
        "locked": True,
        "network": "closed",
        "pinned": (ResourceDescriptor(name="gcc", digest={"sha256": "9" * 64}, annotations={"stage": "toolchain"}),),
    }
    return Details(**(given | changes))


def statement(found: Details) -> RebuildStatement:
    read = (Attestation(uri="urn:a:b", digest={"sha256": "3" * 64}),)
    moment = "2026-11-26T00:00:00Z"
    return make_statement(NAME, SHA256, found, rebuilder="https://r.example.org", moment=moment, read=read)
