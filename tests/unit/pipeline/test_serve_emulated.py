"""A wheel of another kind of machine: what is served of it, and what is refused before anything is fetched."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

import fake_machine
from contexts import build_context
from cpuwheels.config.context import BuildContext
from cpuwheels.config.serving_options import ServeOptions
from cpuwheels.core.errors import BuildEnvironmentError, ServeError, TargetNotBuiltError, UsageError
from cpuwheels.pipeline import serve_emulated as emulating
from cpuwheels.pipeline.serve_emulated import emulated_options, require_wheels, serve_emulated
from cpuwheels.verification.serving.answers import Answer, Exchange, Question
from cpuwheels.verification.serving.case import Wanted
from cpuwheels.verification.serving.environment import ServingEnvironment
from cpuwheels.verification.serving.models import MADE
from cpuwheels.verification.serving.result import Case, require_served
from cpuwheels.verification.serving.setting import Setting
from cpuwheels.wheel.kernel_wheel import KernelWheel

LIBRARIES = {"_C_NEWER": "vllm/_C_NEWER.so", "_C_OLDER": "vllm/_C_OLDER.so"}
WHEEL = KernelWheel(Path("vllm.whl"), "0" * 64, "1.0+cpu", "2.5.1", LIBRARIES, requires=("torch==2.5.1", "demo>=2"))
ROOT = """\
suites: {sid: [python3-torch]}
architecture: amd64
packages:
- {name: libc6, version: 2.41-1, path: a, size: 1, sha256: &any "%s"}
- {name: python3.99-minimal, version: 3.99.0-1, path: b, size: 1, sha256: *any}
""" % ("a" * 64)


@pytest.fixture
def this(tmp_path: Path) -> BuildContext:
    (tmp_path / "project" / "locks" / "serve").mkdir(parents=True)
    (tmp_path / "project" / "locks" / "root-other.yaml").write_text(ROOT)
    context = build_context(tmp_path, fake_machine.foreign(), root=tmp_path / "project")
    context.logs.mkdir(parents=True, exist_ok=True)
    return context


def missing(monkeypatch: pytest.MonkeyPatch, *names: str) -> list[tuple[object, ...]]:
    """Let the package index lack wheels, and return what it is asked."""
    asked: list[tuple[object, ...]] = []

    def found(wanted: list[str], _without: object, _files: Path, **how: object) -> list[str]:
        asked.append((wanted, how["glibc"]))
        return list(names)

    monkeypatch.setattr(emulating, "missing_wheels", found)
    return asked


def test_a_level_serves_one_model_or_all_and_options_win() -> None:
    target = fake_machine.foreign()
    smoke = emulated_options(ServeOptions(), target, WHEEL)
    assert (smoke.models, smoke.dtypes, smoke.modes) == (("qwen3",), ("bfloat16",), ("eager",))
    assert smoke.libraries == ("_C_NEWER",)
    full = emulated_options(ServeOptions(level="full"), target, WHEEL)
    assert (full.models, full.libraries) == (tuple(MADE), ("_C_NEWER", "_C_OLDER"))
    chosen = ServeOptions(models=("opt",), dtypes=("float32",), libraries=("_C_OLDER",), modes=("eager",))
    assert emulated_options(chosen, target, WHEEL) == chosen


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (ServeOptions(libraries=("_C",)), "has no library _C, or it has no emulated CPU"),
        (ServeOptions(modes=("compile",)), "torch.compile is not tested on an emulated machine"),
    ],
)
def test_what_is_not_emulated_is_refused(options: ServeOptions, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        emulated_options(options, fake_machine.foreign(), WHEEL)


def test_another_projects_wheel_has_no_emulated_cpu() -> None:
    with pytest.raises(UsageError, match="has no library for which an emulated CPU is known: _C"):
        emulated_options(ServeOptions(), fake_machine.foreign(), replace(WHEEL, libraries={"_C": "vllm/_C.so"}))


def test_requirements_without_wheels_are_all_named(this: BuildContext, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = missing(monkeypatch, "grpcio==1.76.0", "numba==0.65.0")
    words = r"2 requirements have no wheel for other and Python 3\.99: grpcio==1\.76\.0, numba==0\.65\.0"
    with pytest.raises(BuildEnvironmentError, match=words) as caught:
        serve_emulated(this, WHEEL, ServeOptions())
    assert (caught.value.exit_code, "UV_INDEX" in caught.value.next_step) == (20, True)
    assert asked == [(["torch==2.5.1", "demo>=2"], 41)]


def test_a_lock_that_fits_has_been_resolved_for_this_machine(
    this: BuildContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = missing(monkeypatch)
    lock = this.root / "locks" / "serve" / "other-1.0-py3.99.txt"
    for text, relock, count in (("demo==1.0", False, 1), ("demo==2.0", False, 1), ("demo==2.0", True, 2)):
        lock.write_text(text)
        require_wheels(this, WHEEL, relock=relock)
        assert len(asked) == count


def test_a_target_that_cannot_be_emulated_is_refused(this: BuildContext) -> None:
    with pytest.raises(TargetNotBuiltError, match="can be tested on Linux other alone"):
        serve_emulated(replace(this, target=fake_machine.foreign(root=None)), WHEEL, ServeOptions())


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[tuple[int, ...]], list[Wanted]]:
    """A machine of small files; returns what a run serves on it, each with one answer."""
    made = fake_machine.machine(tmp_path)
    environment = ServingEnvironment(Path("python"), tmp_path, "3.99", "2.5.1+debian", "a lock", "0", (), ())
    missing(monkeypatch)
    monkeypatch.setattr(emulating, "emulated", lambda _: made)

    def environment_(_context: object, machine: object, *_: object, **_options: object) -> object:
        assert machine is made
        return environment, made.environment(tmp_path / "venv")

    monkeypatch.setattr(emulating, "emulated_environment", environment_)

    def answering(answer: tuple[int, ...]) -> list[Wanted]:
        served: list[Wanted] = []

        def serve(
            setting: Setting,
            models: Mapping[str, Path | None],
            dtypes: Sequence[str],
            wanted: Callable[[str, Path, str], Sequence[Wanted]],
        ) -> Iterator[Case]:
            assert setting.emulated
            assert not setting.figures
            assert setting.env["PYTHONDONTWRITEBYTECODE"] == ""
            question = Question(kind="completion", text="x", prompt=(5,), answer=(1, 2), lead=0.2)
            exchange = Exchange(question=question, answer=Answer(prompt=(5,), answer=answer, text="?"))
            for name in models:
                for dtype in dtypes:
                    for one in wanted(name, Path(name), dtype):
                        served.append(one)
                        yield one.not_served().model_copy(update={"exchanges": (exchange,)})

        monkeypatch.setattr(emulating, "serve_models", serve)
        return served

    return answering


def test_each_library_is_served_on_its_cpu(
    this: BuildContext, machine: Callable[[tuple[int, ...]], list[Wanted]], tmp_path: Path
) -> None:
    served = machine((1, 2))
    found = serve_emulated(this, WHEEL, ServeOptions(level="full", models=("qwen3",), dtypes=("bfloat16",)))
    assert [(one.library, one.cpu, one.python) for one in served] == [
        ("_C_NEWER", "max,fast=on", tmp_path / "venv/bin/python"),
        ("_C_OLDER", "old", tmp_path / "venv/bin/python-1"),
    ]
    assert (found.emulated, found.machine, found.python) == (True, "other, emulated by QEMU", "3.99")
    assert [case.cpu for case in found.cases] == ["max,fast=on", "old"]
    assert found.right


def test_a_wrong_token_fails_the_run(
    this: BuildContext, machine: Callable[[tuple[int, ...]], list[Wanted]], tmp_path: Path
) -> None:
    machine((1, 9))
    found = serve_emulated(this, WHEEL, ServeOptions())
    with pytest.raises(ServeError, match="does not serve as it should: qwen3 bfloat16 _C_NEWER") as caught:
        require_served(found, tmp_path, tmp_path)
    assert (caught.value.exit_code, "token 2 of 2 differs" in caught.value.output) == (44, True)


def test_operators_are_read_on_the_librarys_cpu_if_a_model_needs_some(
    this: BuildContext,
    machine: Callable[[tuple[int, ...]], list[Wanted]],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    asked: list[tuple[Path, dict[str, str]]] = []

    def operators(python: Path, _site: Path, libraries: dict[str, str], *_: object) -> dict[str, frozenset[str]]:
        asked.append((python, libraries))
        return dict.fromkeys(libraries, frozenset({"_C::cpu_fused_moe"}))

    monkeypatch.setattr(emulating, "library_operators", operators)
    served = machine((1, 2))
    serve_emulated(this, WHEEL, ServeOptions())
    assert (asked, served[0].absent) == ([], ())
    serve_emulated(this, WHEEL, ServeOptions(models=("moe",), libraries=("_C_OLDER",)))
    assert asked == [(tmp_path / "venv/bin/python-1", {"_C_OLDER": LIBRARIES["_C_OLDER"]})]
    assert served[-1].absent == ("_C::prepack_moe_weight",)
