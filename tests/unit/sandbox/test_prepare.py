from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from cpuwheels.config.options import BuildOptions
from cpuwheels.core.errors import DownloadError, SandboxError
from cpuwheels.sandbox import prepare
from cpuwheels.sandbox.mechanism import LESSER, Mechanism
from cpuwheels.sandbox.prepare import get_sandbox

if TYPE_CHECKING:
    from pathlib import Path

    from cpuwheels.config.context import BuildContext

NONE = Mechanism("none", "this kernel is too old")


@pytest.fixture
def bubblewraps(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[tuple[object, ...]]:
    """What is looked for, with a pinned one in the store and another on PATH."""
    asked: list[tuple[object, ...]] = []
    monkeypatch.setattr(prepare, "unpacked_programs", lambda *_: tmp_path)
    monkeypatch.setattr(prepare.platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(prepare.platform, "system", lambda: "Linux")
    monkeypatch.setattr(prepare.shutil, "which", lambda name: f"/usr/bin/{name}")

    def best(*given: object) -> Mechanism:
        asked.append(given)
        return Mechanism("user namespace")

    monkeypatch.setattr(prepare, "best_mechanism", best)
    return asked


def on(monkeypatch: pytest.MonkeyPatch, mechanism: Mechanism) -> None:
    monkeypatch.setattr(prepare, "_mechanism", lambda _: mechanism)


def test_the_pinned_bubblewrap_comes_first(
    bubblewraps: list[tuple[object, ...]], context: BuildContext, tmp_path: Path
) -> None:
    assert get_sandbox(context).mechanism.kind == "user namespace"
    ((programs, missing),) = bubblewraps
    assert ([str(each) for each in programs], missing) == ([f"{tmp_path}/usr/bin/bwrap", "/usr/bin/bwrap"], "")  # type: ignore[attr-defined]


def test_the_pinned_bubblewrap_is_looked_for_once(
    bubblewraps: list[tuple[object, ...]], context: BuildContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    get_sandbox(context)
    monkeypatch.setattr(prepare, "unpacked_programs", lambda *_: pytest.fail("looked for again"))
    get_sandbox(context)
    first, second = bubblewraps
    assert first == second


def test_locked_the_machines_own_is_not_used(
    bubblewraps: list[tuple[object, ...]], context: BuildContext, tmp_path: Path
) -> None:
    get_sandbox(replace(context, options=BuildOptions(locked=True)))
    assert bubblewraps == [((tmp_path / "usr/bin/bwrap",), "")]


def test_a_pinned_one_that_cannot_be_fetched_is_told(
    bubblewraps: list[tuple[object, ...]], context: BuildContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise DownloadError("no mirror answers")

    monkeypatch.setattr(prepare, "unpacked_programs", fail)
    get_sandbox(context)
    assert bubblewraps[0][1] == "the pinned bubblewrap is not there: no mirror answers"


def test_the_best_mechanism_is_not_worth_a_word(monkeypatch: pytest.MonkeyPatch, context: BuildContext) -> None:
    on(monkeypatch, Mechanism("user namespace"))
    get_sandbox(context)
    assert context.reporter.announcements == []


def test_a_lesser_mechanism_is_announced_once_with_what_it_lacks(
    monkeypatch: pytest.MonkeyPatch, context: BuildContext
) -> None:
    on(monkeypatch, Mechanism("landlock", f"no namespaces; {LESSER}", landlock=6))
    for _ in range(2):
        get_sandbox(context)
    (note,) = context.reporter.announcements
    assert "lesser sandbox" in note
    assert LESSER in note


@pytest.mark.parametrize(
    "options",
    [
        BuildOptions(),
        BuildOptions(locked=True, allow_unsandboxed=True),
        BuildOptions(sandbox_required=True, allow_unsandboxed=True),
    ],
)
def test_without_any_it_is_said_with_the_remedy(
    monkeypatch: pytest.MonkeyPatch, context: BuildContext, options: BuildOptions
) -> None:
    on(monkeypatch, NONE)
    assert get_sandbox(replace(context, options=options)).mechanism == NONE
    (note,) = context.reporter.announcements
    assert "not sandboxed: this kernel is too old" in note
    assert "Linux 6.2" in note
    assert NONE.as_record() == {"mechanism": "not sandboxed", "reason": "this kernel is too old"}


@pytest.mark.parametrize(
    ("options", "where"), [(BuildOptions(locked=True), "--locked"), (BuildOptions(sandbox_required=True), "nightly")]
)
def test_what_may_not_do_without_is_refused(
    monkeypatch: pytest.MonkeyPatch, context: BuildContext, options: BuildOptions, where: str
) -> None:
    on(monkeypatch, NONE)
    with pytest.raises(SandboxError) as caught:
        get_sandbox(replace(context, options=options))
    assert where in caught.value.where
    assert "--allow-unsandboxed" in caught.value.next_step
    assert "too old" in caught.value.output
