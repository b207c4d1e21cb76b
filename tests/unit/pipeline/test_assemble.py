"""From kernels to the output folder: when a wheel is made anew, what is loaded of it, and what its record says."""

from __future__ import annotations

import io
import json
import os
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from contexts import build_context
from cpuwheels.config.context import BuildContext
from cpuwheels.config.matrix import Library
from cpuwheels.core.console import Reporter
from cpuwheels.core.errors import WheelError
from cpuwheels.core.usage import counted
from cpuwheels.pipeline import new_wheel as module
from cpuwheels.pipeline.assemble import Assembly, assemble
from cpuwheels.pipeline.built_wheel import BuiltWheel
from cpuwheels.pipeline.inputs import Inputs
from cpuwheels.pipeline.package_wheel import Package, PackagedWheel
from cpuwheels.pipeline.test_environment import InstallEnvironment
from cpuwheels.sandbox.confine import Confine
from cpuwheels.source.patched import PreparedSource
from cpuwheels.source.result import Source
from cpuwheels.verification.emulation.cpus import Cpu
from cpuwheels.verification.onednn_isa import OnednnLimit
from cpuwheels.wheel.components import Components
from cpuwheels.wheel.requirements import MovedRequirement
from kernel_request import TARGET, environment
from recorded_wheel import DEPENDENCIES
from sample_source import EPOCH, sha256
from small_wheels import write_wheel
from wheel_notes import wheel_note

LIBRARIES = (Library(name="_C_NEWER", isa=(), needs=("one", "two")), Library(name="_C_OLDER", isa=(), needs=("one",)))
CHOOSING = TARGET.model_copy(update={"libraries": LIBRARIES, "chooser": "_C"})
TAG = "cp38-abi3-manylinux_2_28_x86_64"
NAME = f"vllm-0.32.0+cpu-{TAG}.whl"
INPUTS = Inputs(
    Source("0.32.0", Path("/source"), "digest", EPOCH, "here", "PKG-INFO"),
    PreparedSource("0.32.0", Path("/prepared"), EPOCH, ()),
    environment(),
    None,
    None,
)


class Loader:
    """Loads nothing; says when it is open."""

    def __init__(self) -> None:
        self.open = False

    def __enter__(self) -> None:
        self.open = True

    def __exit__(self, *_: object) -> None:
        self.open = False

    @staticmethod
    def python() -> Path:
        return Path("/venv/bin/python")


class Steps:
    """Stands for what packs a wheel and what loads it."""

    def __init__(self, base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.packed: list[Package] = []
        self.checked: list[dict[str, Any]] = []
        self.cpus: list[list[Cpu]] = []
        self.fault: WheelError | None = None
        self.linked: Path | None = None
        self.packing = threading.Event()
        self.loader = Loader()
        self.installation: Any = InstallEnvironment(self.loader, (), frozenset({"one"}))  # type: ignore[arg-type]
        steps: dict[str, Callable[..., Any]] = {
            "install_environment": lambda *_: self.installation,
            "upstream_package": lambda *_, **__: SimpleNamespace(project="vllm", files={}, licenses={}),
            "with_components": lambda project, *_: project,
            "parts_of": lambda project, **given: SimpleNamespace(project=project, **given),
            "resolve": self._resolve,
            "write_pylock": self._lock,
            "package_wheel": self._package,
            "check_install": self._check,
            "require_chosen": self._chosen,
        }
        for name, step in steps.items():
            monkeypatch.setattr(module, name, step)
        self.lock = base / "project" / "locks" / "build-tools.txt"
        self.lock.parent.mkdir(parents=True)
        self.lock.write_text("")

    def _package(self, _context: object, package: Package, *, work: Path, out: Path) -> PackagedWheel:
        assert work.parent.is_dir()
        self.packing.set()
        if self.linked:
            os.link(self.linked, work.parent / "another name")
        self.packed.append(package)
        write_wheel(out, "vllm", "0.32.0+cpu", {"a.py": f"{len(self.packed)}"}, tag=TAG)
        return PackagedWheel(
            out / NAME,
            sha256(out / NAME),
            7,
            (),
            "manylinux_2_17",
            ("GLIBC_2.17",),
            (),
            (MovedRequirement("a @ https://a", "a==1", "x"),),
        )

    def _resolve(self, _context: object, project: str) -> str:
        """Resolve while the wheel is packed: what waits for it begins when that has ended."""
        assert self.packing.wait(20)
        return f"{project} resolved"

    @staticmethod
    def _lock(_context: object, wheel: Path, resolved: Callable[[], str]) -> None:
        wheel.with_name("pylock.toml").write_text(f"{resolved()} {sha256(wheel)}")

    def _check(self, wheel: Path, **given: Any) -> Any:
        assert self.loader.open
        assert wheel.is_file()
        self.checked.append(given)
        if self.fault:
            raise self.fault
        given["manifest"].write_text("{}")
        libraries = [
            SimpleNamespace(name=name, operators=("scale",), not_loaded=bool(set(needs) - set(given["features"])))
            for name, needs in given["libraries"].items()
        ]
        return SimpleNamespace(libraries=libraries, site="the site")

    def _chosen(self, cpus: Any, _target: object, site: str, _log: Path, *, confine: Confine) -> dict[str, str]:
        assert confine is self.installation.confine
        assert site == "the site"
        self.cpus.append(list(cpus))
        return {cpu.name: next(one.name for one in LIBRARIES if not cpu.lacks(one.needs)) for cpu in cpus}


@pytest.fixture
def steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Steps:
    return Steps(tmp_path, monkeypatch)


@pytest.fixture
def run(steps: Steps, tmp_path: Path, reporter: Reporter) -> BuildContext:
    assert steps.packed == []
    made = build_context(tmp_path / "cache", CHOOSING, root=tmp_path / "project", reporter=reporter)
    made.logs.mkdir(parents=True)
    (made.logs / "wheel.log").write_text("packed")
    return made


def assembly(**changes: Any) -> Assembly:
    def write_beside(folder: Path) -> None:
        (folder / "trace.json").write_text("a trace")

    values: dict[str, Any] = {
        "inputs": INPUTS,
        "provenance": wheel_note(),
        "manifest": SimpleNamespace(modules=("_C_NEWER", "_C_OLDER", "spinloop")),
        "kernels": Path("/kernels"),
        "beside": {"vllm/_C.abi3.so": Path("/chooser")},
        "components": Components((), Path("/licences")),
        "policy": "the policy",
        "audited": None,
        "features": frozenset({"one"}),
        "write_beside": write_beside,
        "record": {"jobs": {"compiled_in_this_run": True}},
        "dependencies": lambda: DEPENDENCIES,
    }
    return Assembly(**values | changes)


def record(built: BuiltWheel) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((built.path.parent / "record.json").read_text())
    return found


def test_the_wheel_and_what_belongs_to_it_are_in_the_output_folder(
    run: BuildContext, steps: Steps, story: io.StringIO
) -> None:
    built = assemble(run, assembly(audited=("key", "audit")), check=True)
    output = run.paths.dist / "x86" / "0.32.0"
    assert built.path == output / NAME
    assert sorted(path.name for path in output.iterdir()) == [
        "operators.json",
        "pylock.toml",
        "record.json",
        "report.html",
        "trace.json",
        NAME,
        f"{NAME}.provenance.json",
    ]
    assert [path.name for path in output.parent.iterdir()] == ["0.32.0"]
    assert list((run.store.root / "work").iterdir()) == []
    assert not steps.loader.open
    (package,) = steps.packed
    assert (package.epoch, package.policy, package.audited) == (EPOCH, "the policy", ("key", "audit"))
    parts: Any = package.parts
    assert (parts.kernels, parts.beside) == (Path("/kernels"), {"vllm/_C.abi3.so": Path("/chooser")})
    found = record(built)
    statement = f"{NAME}.provenance.json"
    assert found["beside"] == ["operators.json", "pylock.toml", "report.html", "trace.json", statement]
    beside = {name: sha256(output / name) for name in ("operators.json", "pylock.toml", "trace.json")}
    assert found["byproducts"] == beside | {"logs/wheel.log": sha256(run.logs / "wheel.log")}
    said = json.loads((output / statement).read_text())
    assert said["subject"] == [{"name": NAME, "digest": {"sha256": sha256(output / NAME)}}]
    assert len(said["predicate"]["buildDefinition"]["resolvedDependencies"]) == len(DEPENDENCIES)
    assert found["logs"] == os.path.relpath(run.logs, output)
    assert NAME in (output / "report.html").read_text()
    assert (found["wheel"]["file"], found["jobs"]) == (NAME, {"compiled_in_this_run": True})
    assert {"wheel", "install check"} <= found["seconds"].keys()
    assert "requirement 'a @ https://a' is now 'a==1' in extra 'x'" in story.getvalue()


def test_the_record_says_what_was_fetched_and_stored(run: BuildContext, steps: Steps) -> None:
    with counted() as usage:
        usage.received(100)
        usage.file()
        source = run.store.get("sources", "a" * 24, lambda folder: (folder / "file").write_text("x" * 5000) and None)
        steps.linked = source / "file"
        found = record(assemble(run, assembly(), check=True))["usage"]
        assert found["stored"] == usage.stored()
    assert found["stored"]["sources"] >= 5000
    assert found["fetched"] == {"size": {"http": 100}, "files": 1, "unknown": []}


def test_a_wheel_of_the_same_inputs_is_made_once(run: BuildContext, steps: Steps, story: io.StringIO) -> None:
    first = assemble(run, assembly(), check=True)
    assert assemble(run, assembly(), check=True) == first
    assert len(steps.packed) == 1
    assert "this wheel was built and checked before; nothing to do" in story.getvalue()
    assert assemble(run, assembly(provenance=wheel_note(kernel_key="others")), check=True) != first
    assert len(steps.packed) == 2
    steps.lock.write_text("other tools")
    assemble(run, assembly(provenance=wheel_note(kernel_key="others")), check=True)
    assert len(steps.packed) == 3


def test_one_that_was_not_loaded_does_not_do_for_one_that_is(run: BuildContext, steps: Steps) -> None:
    built = assemble(run, assembly(), check=False)
    assert (steps.checked, record(built)["install_check"]) == ([], "not run")
    assemble(run, assembly(), check=False)
    assert len(steps.packed) == 1
    built = assemble(run, assembly(), check=True)
    assert (len(steps.packed), record(built)["install_check"]) == (2, "passed")


def test_a_wheel_that_does_not_load_replaces_nothing(run: BuildContext, steps: Steps) -> None:
    first = assemble(run, assembly(), check=True)
    steps.fault = WheelError("it does not load")
    with pytest.raises(WheelError, match="it does not load"):
        assemble(run, assembly(provenance=wheel_note(kernel_key="others")), check=True)
    assert assemble(run, assembly(), check=True) == first
    assert [path.name for path in first.path.parent.parent.iterdir()] == ["0.32.0"]


def test_each_library_and_module_is_loaded(run: BuildContext, steps: Steps) -> None:
    assemble(run, assembly(), check=True)
    (given,) = steps.checked
    assert given["libraries"] == {"_C_NEWER": ("one", "two"), "_C_OLDER": ("one",)}
    assert given["modules"] == ["spinloop", "_C"]
    assert given["features"] == {"one"}
    assemble(replace(run, target=CHOOSING.model_copy(update={"chooser": None})), assembly(), check=True)
    assert steps.checked[1]["modules"] == ["spinloop"]


def test_the_record_says_what_was_loaded_on_this_machine(run: BuildContext, steps: Steps) -> None:
    limit = OnednnLimit("AVX2", "so it is", from_user=False)
    steps.installation = replace(steps.installation, onednn=limit)
    tried = record(assemble(run, assembly(), check=True))["tried"]
    assert tried == [
        {
            "cpu": "this machine's",
            "emulated": False,
            "libraries": ["_C_OLDER"],
            "onednn_limit": {"isa": "AVX2", "reason": "so it is", "from_user": False},
            "chosen": "_C_OLDER",
        }
    ]
    ((own,),) = steps.cpus
    assert (own.python, own.environment) == ([Path("/venv/bin/python")], {"ONEDNN_MAX_CPU_ISA": "AVX2"})


def test_the_record_says_what_was_loaded_on_emulated_cpus(run: BuildContext, steps: Steps) -> None:
    cpus = (
        Cpu("max", frozenset({"one", "two"}), ["qemu"], ("_C_NEWER",)),
        Cpu("old", frozenset({"one"}), ["qemu"], ("_C_OLDER",)),
    )
    steps.installation = InstallEnvironment(steps.loader, cpus, frozenset({"one", "two"}))  # type: ignore[arg-type]
    tried = record(assemble(run, assembly(), check=True))["tried"]
    assert tried == [
        {"cpu": "max", "emulated": True, "libraries": ["_C_NEWER"], "chosen": "_C_NEWER"},
        {"cpu": "old", "emulated": True, "libraries": ["_C_OLDER"], "chosen": "_C_OLDER"},
    ]
    assert steps.cpus == [list(cpus)]


def test_that_nothing_here_runs_it_is_announced(run: BuildContext, steps: Steps) -> None:
    steps.installation = None
    built = assemble(run, assembly(), check=True)
    note = "the wheel was not installed: nothing here runs Linux x86_64"
    assert run.reporter.announcements == [note]
    assert (record(built)["install_check"], record(built)["notes"]) == ("not run", [note])
    assert steps.checked == []
