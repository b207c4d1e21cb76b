"""Kernels without their wheel: compiled, audited for the wheels to come, and kept if their audit fails."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cpuwheels.config.matrix import load_matrix
from cpuwheels.config.options import BuildOptions
from cpuwheels.core.console import Reporter
from cpuwheels.core.errors import AuditError
from cpuwheels.pipeline.kernels_alone import build_kernels

NAME = "cpuwheels.pipeline.kernels_alone"


def run(monkeypatch: pytest.MonkeyPatch, root: Path, audit: object) -> tuple[tuple[str, str], list[str], list[str]]:
    stages: list[str] = []

    @contextmanager
    def assembled(*_: object, **more: Any) -> Iterator[tuple[object, object]]:
        stages.extend(more["ends"])
        yield "context", SimpleNamespace(provenance=SimpleNamespace(kernel_key="kernels"))

    def audit_ahead(*_: object) -> str:
        if isinstance(audit, AuditError):
            raise audit
        return str(audit)

    monkeypatch.setattr(f"{NAME}.assembled", assembled)
    monkeypatch.setattr(f"{NAME}.audit_ahead", audit_ahead)
    reporter = Reporter("x86")
    found = build_kernels(None, load_matrix(root), "x86", BuildOptions(), reporter)  # type: ignore[arg-type]
    return found, stages, reporter.announcements


def test_the_audit_takes_the_place_of_wheel_and_install_check(
    monkeypatch: pytest.MonkeyPatch, project_root: Path
) -> None:
    found, stages, told = run(monkeypatch, project_root, "audit")
    assert found == ("kernels", "audit")
    assert stages == ["audit"]
    assert told == []


def test_kernels_that_fail_it_stay_without_one(monkeypatch: pytest.MonkeyPatch, project_root: Path) -> None:
    error = AuditError("too new", where="x.whl", next_step="see")
    found, _, told = run(monkeypatch, project_root, error)
    assert found == ("kernels", "")
    assert told == ["the kernels fail their audit: too new"]
