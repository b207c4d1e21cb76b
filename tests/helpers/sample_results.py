"""Makes results of parity, of serving and of second builds."""

from __future__ import annotations

from typing import Any

from cpuwheels.verification.parity.results import CaseResult, LibraryResult, Parity
from cpuwheels.verification.serving.answers import Answer, Exchange, Question
from cpuwheels.verification.serving.result import Case, Served
from cpuwheels.verification.verified import Differing, Verified


def case(
    name: str, ratio: float | None = 0.5, *, dtype: str = "float32", problem: str = "", known: str = ""
) -> CaseResult:
    """Return a case's result; a problem makes it fail, or show a known fault."""
    return CaseResult(
        name=name,
        operators=(name.split("[", maxsplit=1)[0],),
        dtype=dtype,
        verdict=("known" if known else "failed") if problem else "passed",
        known=known,
        ratio=ratio,
        error=1e-7,
        limit=2e-7,
        seconds=0.001,
        problems=(problem,) if problem else (),
    )


def library(
    name: str, *cases: CaseResult, waived: tuple[str, ...] = (), untested: tuple[str, ...] = ()
) -> LibraryResult:
    """Return a library's result."""
    operators = sorted({operator for case in cases for operator in case.operators} | set(waived) | set(untested))
    return LibraryResult(
        name=name,
        operators=tuple(operators),
        registered=tuple(operators),
        cases=cases,
        waived=dict.fromkeys(waived, "needs <another> machine"),
        untested=untested,
        seed=7,
        seconds=1.5,
    )


def parity(*libraries: LibraryResult, **changes: Any) -> Parity:
    """Return a whole run's result, on a CPU that lacks what one library needs; keywords replace parts of it."""
    values: dict[str, Any] = {
        "wheel": "vllm-0.32.0+cpu.whl",
        "sha256": "0" * 64,
        "version": "0.32.0+cpu",
        "torch": "2.13.0+cpu",
        "machine": "Some CPU",
        "threads": 2,
        "level": "full",
        "seed": 7,
        "began": "2026-01-01T00:00:00+00:00",
        "seconds": 61.5,
        "not_run": {"_C_AVX512": "this CPU lacks avx512f"},
    }
    return Parity(libraries=libraries, **values | changes)


def answered(*, right: bool, failure: str = "", absent: tuple[str, ...] = ()) -> Case:
    """Return the case of a server that was asked one question."""
    asked = Question(kind="completion", text="x", prompt=(5, 6), answer=(1, 2, 3), lead=0.2)
    said = Answer(prompt=(5, 6), answer=(1, 2, 3 if right else 4), text="?")
    return Case(
        model="opt",
        dtype="bfloat16",
        library="_C",
        wanted="",
        started=30.0,
        seconds=40.0,
        absent=absent,
        exchanges=() if absent else (Exchange(question=asked, answer=said),),
        failure=failure,
        log="serve-opt.log",
    )


def serving(*cases: Case, wheel: str = "vllm-0.32.0+cpu.whl", sha256: str = "0" * 64) -> Served:
    """Return what was found by serving a wheel."""
    return Served(
        wheel=wheel,
        sha256=sha256,
        version="0.32.0+cpu",
        torch="2.13.0+cpu",
        python="3.11",
        machine="a CPU",
        requirements="locks/serve/x86-0.32.0.txt",
        requirements_sha256="0" * 64,
        lacks=("torchvision",),
        moved=("triton==3.8.0+cpu",),
        memory_utilization=0.2,
        began="2026-11-24T00:00:00+00:00",
        seconds=60.0,
        cases=cases,
    )


def verified(*members: str, **changes: Any) -> Verified:
    """Return the result of a second build in which some members differ; keywords replace parts of it."""
    values: dict[str, Any] = {
        "wheel": "vllm-0.32.0+cpu.whl",
        "sha256": "0" * 64,
        "target": "x86",
        "moment": "2026-11-25T03:00:00Z",
        "seconds": 61.5,
        "machine": "Linux x86_64, 2 CPUs, kernel 6.18",
        "varied": {"umask": "022 → 077", "hostname": "here → there"},
        "not_varied": {"cpus": "there is one CPU"},
        "count": len(members),
        "differences": tuple(
            Differing(member=name, what="content", detail="first differing byte at 1") for name in members
        ),
    }
    return Verified(**(values | changes))
