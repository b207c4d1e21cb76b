"""Rebuilds that a farm did: which order they are taken in, what is checked, and what becomes of the others."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from cpuwheels.attestation.keys import make_key
from cpuwheels.attestation.sign import Signing
from cpuwheels.core.budget import Budget
from cpuwheels.core.console import Reporter
from cpuwheels.core.errors import CompileError, CpuwheelsError, FarmError, NotReproducedError, PostponedError
from cpuwheels.farm.done import Done, with_files
from cpuwheels.farm.executor import FarmGoneError
from cpuwheels.farm.job import Job
from cpuwheels.farm.rebuilds import FarmRebuilder
from cpuwheels.rebuild.site.newest import NewWheel
from cpuwheels.rebuild.statement import SIGNED_SUFFIX, SUFFIX
from farms import ESTIMATE
from rebuilder_sites import FIRST, MADE_UP, rebuild_statement

NAMES = [f"vllm-0.3{number}.0+cpu-cp38-abi3-manylinux_2_27_x86_64.whl" for number in (3, 2)]
A, B = [NewWheel(name, f"{n}" * 64, f"http://h/{name}", f"0.3{n}.0", "x86") for n, name in enumerate(NAMES, 1)]
NAME = "https://r.example.org"
PLENTY = Budget(None, 0, lambda: 0)


class Hands:
    """A farm whose jobs end as a test says."""

    def __init__(self) -> None:
        self.sent: dict[str, tuple[Job, Future[Done]]] = {}
        self.ready: dict[str, dict[str, Any] | Exception] = {}
        self.over = False

    def submit(self, job: Job, *, avoid: Iterable[str] = ()) -> Future[Done]:
        assert not list(avoid)
        self.sent[job.source] = (job, Future())
        if job.source in self.ready:
            self._end(job.source)
        return self.sent[job.source][1]

    def cancel(self) -> None:
        self.over = True

    def end(self, wheel: NewWheel, came: dict[str, Any] | Exception) -> None:
        """Let a job end, when it has been sent."""
        self.ready[wheel.pinned_url] = came
        if wheel.pinned_url in self.sent:
            self._end(wheel.pinned_url)

    def _end(self, source: str) -> None:
        (job, future), came = self.sent[source], self.ready[source]
        if isinstance(came, Exception):
            future.set_exception(came)
        else:
            future.set_result(Done(**({"key": job.key, "by": "worker-1"} | came)))


class Setting:
    def __init__(self, base: Path, reporter: Reporter) -> None:
        self.base, self.reporter, self.hands = base, reporter, Hands()

    def rebuilder(self, name: str = NAME, signing: Signing | None = None) -> FarmRebuilder:
        hands: Any = self.hands
        return FarmRebuilder(hands, "identity", ["--rebuilder", name], name, ESTIMATE, self.reporter, signing, 7.0)

    def result(self, wheel: NewWheel, rebuilt: str = "", about: str = "") -> dict[str, Any]:
        """Return what a worker sends of a rebuild."""
        folder = self.base / "worker" / wheel.sha256
        folder.mkdir(parents=True)
        statement = rebuild_statement(wheel.name, about or wheel.sha256, rebuilt or wheel.sha256, FIRST)
        (folder / f"{wheel.name}{SUFFIX}").write_bytes(statement.render())
        (folder / "report.html").write_text("a page")
        done = with_files(Done("key"), folder)
        return {"files": done.files, "content": done.content, "folder": "rebuilt"}


@pytest.fixture
def setting(tmp_path: Path, reporter: Reporter) -> Setting:
    return Setting(tmp_path, reporter)


def test_wheels_are_taken_as_they_come(setting: Setting, tmp_path: Path) -> None:
    rebuilder = setting.rebuilder()
    taken = rebuilder.in_order([A, B], PLENTY)
    setting.hands.end(B, setting.result(B))
    assert next(taken) == B
    out = tmp_path / "out"
    made = rebuilder(B, out)
    assert made.reproduced
    assert (out / "report.html").read_text() == "a page"
    assert not (out / f"{B.name}{SIGNED_SUFFIX}").exists()
    assert not list(tmp_path.glob(".new-*"))
    job, _ = setting.hands.sent[A.pinned_url]
    assert (job.kind, job.needs.can, job.priority) == ("rebuild", "build:x86", 7.0)
    assert job.source == f"http://h/{A.name}#sha256={A.sha256}"
    setting.hands.end(A, setting.result(A))
    assert list(taken) == [A]


def sent(setting: Setting, rebuilder: FarmRebuilder, wheel: NewWheel, came: dict[str, Any] | Exception) -> None:
    """Send a wheel and let its job end."""
    setting.hands.end(wheel, came)
    assert list(rebuilder.in_order([wheel], PLENTY)) == [wheel]


def test_statements_are_signed_here(setting: Setting, tmp_path: Path) -> None:
    make_key(tmp_path / "key")
    rebuilder = setting.rebuilder(signing=Signing(key=str(tmp_path / "key")))
    sent(setting, rebuilder, A, setting.result(A))
    rebuilder(A, tmp_path / "out")
    assert (tmp_path / "out" / f"{A.name}{SIGNED_SUFFIX}").is_file()


def test_other_bytes_are_a_result(setting: Setting, tmp_path: Path) -> None:
    rebuilder = setting.rebuilder()
    sent(setting, rebuilder, A, setting.result(A, rebuilt=MADE_UP) | {"code": NotReproducedError.exit_code})
    made = rebuilder(A, tmp_path / "out")
    assert not made.reproduced
    assert "was built again, and the bytes differ" in made.sentence


@pytest.mark.parametrize(
    ("changes", "code", "why"),
    [
        ({"about": B.sha256}, 0, "not about"),
        ({"rebuilt": MADE_UP}, 0, "something else than its exit code"),
        ({}, NotReproducedError.exit_code, "something else than its exit code"),
    ],
)
def test_what_a_worker_states_of_something_else_is_not_taken(
    setting: Setting, tmp_path: Path, changes: dict[str, str], code: int, why: str
) -> None:
    rebuilder = setting.rebuilder()
    sent(setting, rebuilder, A, setting.result(A, **changes) | {"code": code})
    with pytest.raises(FarmError, match=f"what worker-1 has sent .* is not taken: .*{why}"):
        rebuilder(A, tmp_path / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["worker"]


def test_a_statement_by_somebody_else_is_not_taken(setting: Setting, tmp_path: Path) -> None:
    rebuilder = setting.rebuilder("https://me.example.org")
    sent(setting, rebuilder, A, setting.result(A))
    with pytest.raises(FarmError, match="its statement is by https://r"):
        rebuilder(A, tmp_path / "out")


@pytest.mark.parametrize(
    ("code", "kind"), [(CompileError.exit_code, CompileError), (FarmError.exit_code, FarmError)], ids=str
)
def test_a_rebuild_that_failed_has_its_error(
    setting: Setting, tmp_path: Path, code: int, kind: type[CpuwheelsError]
) -> None:
    rebuilder = setting.rebuilder()
    sent(setting, rebuilder, A, {"code": code, "output": "error: x.cpp does not compile"})
    with pytest.raises(kind, match=r"x\.cpp does not compile"):
        rebuilder(A, tmp_path / "out")


def test_what_a_farm_that_is_gone_had_is_postponed(setting: Setting, tmp_path: Path) -> None:
    rebuilder = setting.rebuilder()
    sent(setting, rebuilder, A, FarmGoneError("it is gone"))
    with pytest.raises(PostponedError, match="it is gone"):
        rebuilder(A, tmp_path / "out")


def test_what_the_time_is_too_short_for_is_given_up(setting: Setting) -> None:
    over = Budget(1.0, 0, lambda: 0, lambda: 2.0)
    assert list(setting.rebuilder().in_order([A, B], over)) == [A, B]
    assert setting.hands.over
