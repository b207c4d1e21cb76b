"""The kernel stage around its parts: what is built once, resumed, learned and left behind."""

from __future__ import annotations

import dataclasses
import io
import shutil
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from contexts import build_context
from cpuwheels.config.context import BuildContext
from cpuwheels.config.matrix import Library
from cpuwheels.config.options import BuildOptions
from cpuwheels.core.console import Reporter
from cpuwheels.core.elsewhere import Elsewhere, Origin, taken_from
from cpuwheels.core.errors import CompileError
from cpuwheels.core.trust import Trust
from cpuwheels.kernels import build as module
from cpuwheels.kernels.build import get_kernels
from cpuwheels.kernels.depfile import Reads
from cpuwheels.kernels.launchers import Launchers
from cpuwheels.kernels.memory.admission import CapPlan, MemoryUse
from cpuwheels.kernels.memory.costs import WrongPrediction
from cpuwheels.kernels.memory.limits import JobPlan
from cpuwheels.kernels.memory.memgate import GateFolder
from cpuwheels.kernels.onednn_library import KIND, OneDnnLibrary
from cpuwheels.kernels.onednn_pruning import unused_name
from cpuwheels.kernels.request import KernelRequest
from cpuwheels.kernels.result import Kernels
from cpuwheels.kernels.workspace import Workspace
from cpuwheels.shared.folder import Folder
from kernel_request import SHARED, TARGET, kernel_request, write_library
from shared_stores import reader, share_all

TWO = TARGET.model_copy(
    update={"libraries": (Library(name="_C", isa=()), Library(name="_C_NEWER", module="_C", isa=(), cpuinfo="newer"))}
)
"""A target whose libraries are two configurations of upstream's project."""


COMPILATIONS = [{"command": "g++ -O3 -c a.cpp", "file": "a.cpp", "output": "CMakeFiles/_C.dir/a.cpp.o"}]


READS = Reads(files=("CMakeLists.txt", "cmake/cpu_extension.cmake", "csrc/cpu/ops.cpp"), folders=("csrc/cpu",))


class Steps:
    """Stands for the parts of the stage: each does what the next one needs, and notes that it was done."""

    def __init__(self, base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.base = base
        self.done: list[str] = []
        self.unused: list[list[str]] = []
        self.libraries: list[OneDnnLibrary | None] = []
        self.calls = "dnnl_multiply\n"
        self.fault: CompileError | None = None
        self.lacking: list[list[str]] = []
        self.acl: Path | None = None
        self.found_unused = ["src/rnn.cpp"]
        self.compressed: list[tuple[tuple[object, ...], list[str]]] = []
        self.begun, self.go_on = threading.Event(), threading.Event()
        self.go_on.set()
        steps: dict[str, Any] = {
            "configure": self._configure,
            "compile_modules": self._compile,
            "lacks_onednn": lambda _: self.lacking.pop(0) if self.lacking else [],
            "unused_files": lambda _: self.found_unused,
            "open_gate": lambda _: None,
            "gate_session": self._session,
            "get_acl_library": lambda *_: self.acl,
            "read_files": lambda *_: READS,
            "collect": self._collect,
            "confinement": lambda *_, **__: "the sandbox",
            "compress_cache": lambda *given: self.compressed.append((given[:2], list(self.done))),
        }
        for name, step in steps.items():
            monkeypatch.setattr(module, name, step)
        monkeypatch.setattr(Launchers, "of", classmethod(lambda cls, *_: cls()))

    def _note(self, step: str, workspace: Workspace, log: Path) -> None:
        self.done.append(f"{step} {workspace.configuration.name or 'first'} {log.name}")

    def _configure(
        self, _request: object, workspace: Workspace, _launchers: object, log: Path, library: OneDnnLibrary | None
    ) -> None:
        self._note("configure", workspace, log)
        self.libraries.append(library)

    def _compile(
        self,
        request: KernelRequest,
        workspace: Workspace,
        _launchers: object,
        _session: object,
        _reporter: object,
        log: Path,
    ) -> None:
        self._note("compile", workspace, log)
        assert (workspace.source / "csrc/cpu/ops.cpp").is_file()
        self.unused.append(workspace.unused.read_text().split())
        if self.libraries:
            assert workspace.onednn.is_symlink() == (self.libraries[-1] is not None)
        if request.target.defines == SHARED.defines:
            write_library(workspace, self.calls)
        self.begun.set()
        assert self.go_on.wait(20)
        if self.fault:
            raise self.fault
        if self.acl:
            assert workspace.acl.resolve() == self.acl

    @contextmanager
    def _session(self, plan: CapPlan, _outputs: object, _ledger: object) -> Iterator[Any]:
        number = sum(step.startswith("configure") for step in self.done)
        wrong = WrongPrediction(f"{number}.o", 10, 20)
        use = MemoryUse(2, 1000, "--memory", 800, "a group", {1: 500, 2: 700}.get(number, 600), (wrong,))
        yield SimpleNamespace(held=SimpleNamespace(how="a group"), finished=lambda: use, plan=plan)

    def _collect(self, _request: object, workspaces: Sequence[Workspace], folder: Path, _log: Path) -> None:
        (folder / "vllm").mkdir()
        for workspace in workspaces:
            name = workspace.configuration.libraries[-1].name
            (folder / "vllm" / f"{name}.abi3.so").write_text(name)


@pytest.fixture
def steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Steps:
    monkeypatch.setattr(Workspace, "outputs", lambda _: [])
    monkeypatch.setattr(Workspace, "modules", lambda _: ["_C"])
    monkeypatch.setattr(Workspace, "compilations", lambda _: COMPILATIONS)
    return Steps(tmp_path, monkeypatch)


class Stage:
    """The stage in stores of its own."""

    def __init__(self, base: Path, reporter: Reporter) -> None:
        self.base = base
        self.context: BuildContext = build_context(base / "cache", reporter=reporter, logs=base / "logs")
        self.asked: list[str] = []

    def request(self, **replaced: Any) -> KernelRequest:
        return kernel_request(self.base, **replaced)

    def plan(self, folder: Path) -> CapPlan:
        self.asked.append("cap")
        measured = self.base / "cache" / "measured"
        return CapPlan(
            JobPlan(2, "CPUs", 1000, "--memory"),
            GateFolder(folder, self.base / "memgate"),
            self.base / "seed" / "x86.tsv",
            measured / "x86.tsv",
            500,
        )

    def learned(self, request: KernelRequest) -> Path:
        return self.base / "cache" / "measured" / unused_name(request)

    def get(self, request: KernelRequest, cache: Any = None) -> Kernels:
        def chosen() -> Any:
            self.asked.append("cache")
            return cache

        return get_kernels(self.context, request, cap=self.plan, cache=chosen)


@pytest.fixture
def stage(tmp_path: Path, reporter: Reporter) -> Stage:
    return Stage(tmp_path, reporter)


def test_kernels_are_built_once_and_no_folder_stays(stage: Stage, steps: Steps, story: io.StringIO) -> None:
    request = stage.request()
    first = stage.get(request)
    assert first.built
    assert first.modules == ("_C_AVX2",)
    assert steps.done == ["configure first configure.log", "compile first compile.log"]
    assert list((stage.base / "cache" / "work").iterdir()) == []
    second = stage.get(request)
    assert not second.built
    assert (second.key, second.folder, second.memory, second.reads) == (
        first.key,
        first.folder,
        first.memory,
        first.reads,
    )
    assert second.flags == first.flags == {"_C": ("-O3",)}
    assert len(steps.done) == 2
    assert stage.asked == ["cap", "cache"]
    assert f"kernels {first.key} are in the store; nothing to compile" in story.getvalue()


NOTHING = Reads(files=(), folders=())


@pytest.mark.parametrize(
    "name", ["CMakeLists.txt", "cmake/more.cmake", "csrc/CMakeLists.txt", "csrc/gpu/generate.py", "csrc/cpu/run.sh"]
)
@pytest.mark.usefixtures("steps")
def test_a_build_that_reports_no_reads_serves_no_other_source(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    # What may run is hostile: ninja's log and every depfile say what it wants.
    monkeypatch.setattr(module, "read_files", lambda *_: NOTHING)
    clean = stage.request()
    place = clean.source.folder / name
    before = place.read_text() if place.exists() else None
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text("evil")
    evil = stage.get(clean)
    if before is None:
        place.unlink()
    else:
        place.write_text(before)
    again = stage.get(clean)
    assert evil.built
    assert again.built
    assert again.key != evil.key


@pytest.mark.usefixtures("steps")
def test_kernels_of_a_source_that_changed_while_they_were_built_are_not_kept(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = stage.request()

    def change(*_: object) -> None:
        (request.source.folder / "CMakeLists.txt").write_text("that of a clean source")

    monkeypatch.setattr(module, "configure", change)
    with pytest.raises(CompileError, match="was changed while its kernels were built"):
        stage.get(request)
    assert not (stage.base / "cache" / "kernels").exists()
    assert not (stage.base / "cache" / "reads").exists()


@pytest.mark.parametrize("text", ["", 'asm(".incbin \\"/etc/hostname\\"");'])
def test_the_compiler_cache_is_used_for_what_it_can_see(
    stage: Stage, steps: Steps, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    caches: list[object] = []

    def launchers(*given: object) -> Launchers:
        caches.append(given[2])
        return Launchers()

    monkeypatch.setattr(Launchers, "of", launchers)
    request = stage.request()
    (request.source.folder / "csrc/cpu/ops.cpp").write_text(text)
    stage.get(request, cache="the cache")
    assert caches == [None if text else "the cache"]
    compiled = ["configure first configure.log", "compile first compile.log"]
    assert steps.compressed == ([] if text else [(("the cache", "the sandbox"), compiled)])


def test_only_what_was_read_makes_them_anew(stage: Stage, steps: Steps) -> None:
    request = stage.request()
    first = stage.get(request)
    (request.source.folder / "vllm" / "__init__.py").write_text("changed = True\n")
    assert stage.get(request).key == first.key
    (request.source.folder / "csrc" / "cpu" / "ops.cpp").write_text("int one() { return 2; }\n")
    assert stage.get(request).key != first.key
    assert len(steps.done) == 4


def test_of_several_configurations_the_memory_is_that_of_the_largest(
    stage: Stage, steps: Steps, story: io.StringIO
) -> None:
    found = stage.get(stage.request(target=TWO))
    assert steps.done == [
        "configure first configure.log",
        "compile first compile.log",
        "configure _C_NEWER configure-_C_NEWER.log",
        "compile _C_NEWER compile-_C_NEWER.log",
    ]
    assert found.memory.peak == 700
    assert [wrong.output for wrong in found.memory.wrong] == ["1.o", "2.o"]
    assert "compilers and linkers used at most 700 B together; the cap left them 800 B" in story.getvalue()
    assert "2.o needed 20 B, not 10 B; noted for the next run" in story.getvalue()


def test_a_build_that_failed_is_gone_on_with(stage: Stage, steps: Steps) -> None:
    request = stage.request()
    steps.fault = CompileError("no")
    with pytest.raises(CompileError):
        stage.get(request)
    (work,) = (stage.base / "cache" / "work").iterdir()
    (work / "build").mkdir()
    (work / "build" / "object.o").write_text("")
    steps.fault = None
    kept = []
    steps.unused.clear()
    steps.lacking = [[]]
    original = steps._compile

    def compile_and_look(*arguments: Any) -> None:
        kept.append((arguments[1].build / "object.o").exists())
        original(*arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "compile_modules", compile_and_look)
        assert stage.get(request).built
    assert kept == [True]


def test_the_compiled_acl_lies_beside_the_sources(stage: Stage, steps: Steps, tmp_path: Path) -> None:
    steps.acl = tmp_path / "acl"
    steps.acl.mkdir()
    assert stage.get(stage.request()).built


def test_what_no_module_links_is_left_out_of_the_next_build(stage: Stage, steps: Steps) -> None:
    request = stage.request()
    stage.get(request)
    assert steps.unused == [[]]
    assert stage.learned(request).read_text() == "src/rnn.cpp\n"
    (request.source.folder / "csrc" / "cpu" / "ops.cpp").write_text("int one() { return 2; }\n")
    stage.learned(request).write_text("src/rnn.cpp\nsrc/lrn.cpp\n")
    stage.get(request)
    assert steps.unused[1] == ["src/lrn.cpp", "src/rnn.cpp"]
    # What is left out shows nothing of itself.
    assert stage.learned(request).read_text() == "src/rnn.cpp\nsrc/lrn.cpp\n"


def test_a_source_that_needs_more_of_onednn_gets_all_of_it(stage: Stage, steps: Steps, story: io.StringIO) -> None:
    request = stage.request()
    stage.learned(request).parent.mkdir(parents=True)
    stage.learned(request).write_text("src/lrn.cpp\nsrc/rnn.cpp\n")
    steps.lacking = [["dnnl_lrn"]]
    stage.get(request)
    assert steps.unused == [["src/lrn.cpp", "src/rnn.cpp"], []]
    assert stage.learned(request).read_text() == "src/rnn.cpp\n"
    assert "this source needs more of oneDNN than expected (dnnl_lrn, ...): compiling all of it" in story.getvalue()


def test_without_onednn_nothing_is_learned_of_it(stage: Stage, steps: Steps) -> None:
    steps.lacking = [["dnnl_lrn"]]
    request = stage.request(onednn=None)
    stage.get(request)
    assert len(steps.unused) == 1
    assert not stage.learned(request).exists()


def test_a_list_that_is_the_same_is_not_written_again(stage: Stage, steps: Steps) -> None:
    """CMake would configure anew: the list is one of its inputs."""
    request = stage.request()
    steps.fault = CompileError("no")
    times = []
    for _ in range(2):
        with pytest.raises(CompileError):
            stage.get(request)
        (unused,) = (stage.base / "cache" / "work").glob("*/onednn-unused.txt")
        times.append(unused.stat().st_mtime_ns)
    assert times[0] == times[1]


class TestFinishedOneDnn:
    """The library that an earlier build made."""

    def changed(self, stage: Stage, text: str) -> KernelRequest:
        request = stage.request(target=SHARED)
        (request.source.folder / "csrc" / "cpu" / "ops.cpp").write_text(text)
        return request

    def test_it_is_made_once(self, stage: Stage, steps: Steps) -> None:
        first = stage.get(self.changed(stage, "int one;\n"))
        second = stage.get(self.changed(stage, "int two;\n"))
        assert first.key != second.key
        assert [library is not None for library in steps.libraries] == [False, True]
        assert len(steps.done) == 4
        (entry,) = (stage.base / "cache" / KIND).iterdir()
        assert steps.libraries[1]
        assert steps.libraries[1].folder == entry

    def test_a_source_that_calls_others_of_its_functions_makes_its_own(
        self, stage: Stage, steps: Steps, story: io.StringIO
    ) -> None:
        stage.get(self.changed(stage, "int one;\n"))
        steps.calls = "dnnl_divide\ndnnl_multiply\n"
        stage.get(self.changed(stage, "int two;\n"))
        assert [library and library.calls for library in steps.libraries] == [None, ("dnnl_multiply",), None]
        assert "calls other functions of oneDNN than those before it: making its own" in story.getvalue()
        stage.get(self.changed(stage, "int three;\n"))
        assert steps.libraries[-1]
        assert steps.libraries[-1].calls == ("dnnl_divide", "dnnl_multiply")
        assert len(list((stage.base / "cache" / KIND).iterdir())) == 2

    def test_programs_of_another_source_make_their_own(self, stage: Stage, steps: Steps) -> None:
        stage.get(self.changed(stage, "int one;\n"))
        request = self.changed(stage, "int two;\n")
        (request.source.folder / "CMakeLists.txt").write_text("# hostile\n")
        stage.get(request)
        assert steps.libraries == [None, None]

    def test_without_a_compiler_cache_everything_is_compiled(self, stage: Stage, steps: Steps) -> None:
        stage.get(self.changed(stage, "int one;\n"))
        stage.context = dataclasses.replace(stage.context, options=BuildOptions(compiler_cache="off"))
        stage.get(self.changed(stage, "int two;\n"))
        assert steps.libraries == [None, None]

    def test_nothing_is_learned_of_what_it_has_not(self, stage: Stage, steps: Steps) -> None:
        request = self.changed(stage, "int one;\n")
        stage.get(request)
        stage.learned(request).unlink()
        steps.lacking = [["dnnl_lrn"]]
        stage.get(self.changed(stage, "int two;\n"))
        assert not stage.learned(request).exists()
        assert len(steps.unused) == 2

    def test_all_configurations_are_linked_with_it(self, stage: Stage, steps: Steps) -> None:
        two = TWO.model_copy(update={"defines": SHARED.defines})
        stage.get(stage.request(target=two))
        request = stage.request(target=two)
        (request.source.folder / "csrc" / "cpu" / "ops.cpp").write_text("int two;\n")
        stage.get(request)
        assert [library is not None for library in steps.libraries] == [False, False, True, True]

    def test_a_build_that_failed_with_it_is_gone_on_with(self, stage: Stage, steps: Steps) -> None:
        stage.get(self.changed(stage, "int one;\n"))
        request = self.changed(stage, "int two;\n")
        steps.fault = CompileError("no")
        with pytest.raises(CompileError):
            stage.get(request)
        steps.fault = None
        shutil.rmtree(stage.base / "cache" / KIND)
        assert stage.get(request).built
        assert [library is not None for library in steps.libraries] == [False, True, False]


def test_two_builds_of_the_same_kernels_compile_them_once(stage: Stage, steps: Steps) -> None:
    request = stage.request()
    steps.go_on.clear()
    found: list[Kernels] = []
    builds = [threading.Thread(target=lambda: found.append(stage.get(request))) for _ in range(2)]
    builds[0].start()
    assert steps.begun.wait(20)
    builds[1].start()
    builds[1].join(0.3)
    steps.go_on.set()
    for build in builds:
        build.join(20)
    assert sorted(kernels.built for kernels in found) == [False, True]
    assert len(steps.done) == 2


class TestSharedStore:
    """What another machine compiled."""

    @pytest.fixture
    def shared(self, stage: Stage, steps: Steps, tmp_path: Path) -> tuple[KernelRequest, Kernels, Elsewhere]:
        """Kernels that are shared, and gone here."""
        assert steps
        request = stage.request()
        built = stage.get(request)
        store = stage.context.store
        share_all(store, Folder(tmp_path / "shared"))
        for kind in ("kernels", "reads"):
            shutil.rmtree(store.root / kind)
        return request, built, reader(Folder(tmp_path / "shared"), [])

    def test_it_need_not_be_compiled_here(
        self, stage: Stage, steps: Steps, shared: tuple[KernelRequest, Kernels, Elsewhere], story: io.StringIO
    ) -> None:
        request, built, other = shared
        with taken_from(other):
            found = stage.get(request)
        assert (found.key, found.built, found.modules) == (built.key, False, built.modules)
        assert built.origin is None
        assert found.origin
        assert len(steps.done) == 2
        assert f"kernels {found.key}, which come from {found.origin.place}, are in the store" in story.getvalue()

    def test_what_is_compiled_here_is_not_replaced(
        self, stage: Stage, steps: Steps, shared: tuple[KernelRequest, Kernels, Elsewhere], tmp_path: Path
    ) -> None:
        request, built, other = shared
        shutil.rmtree(tmp_path / "shared" / "v1" / "reads")
        with taken_from(other):
            found = stage.get(request)
        assert (found.key, found.built, found.origin) == (built.key, True, None)
        assert len(steps.done) == 4

    def test_what_are_no_kernels_are_made_here(
        self, stage: Stage, steps: Steps, shared: tuple[KernelRequest, Kernels, Elsewhere], story: io.StringIO
    ) -> None:
        request, built, _ = shared

        class Wrong:
            kinds, arguments = frozenset({"kernels"}), ()

            def fill(self, _kind: str, _key: str, _trust: Trust, folder: Path) -> Origin:
                (folder / "memory.json").write_text("no kernels")
                return Origin("a stranger's", "a" * 64)

            def replenish(self, kind: str, key: str, trust: Trust, folder: Path) -> None:
                shared[2].replenish(kind, key, trust, folder)

        with taken_from(Wrong()):
            found = stage.get(request)
        assert (found.key, found.built, found.origin) == (built.key, True, None)
        assert len(steps.done) == 4
        assert f"a stranger's: kernels {built.key} are none, and are made here" in story.getvalue()

    def test_damage_of_what_was_made_here_is_no_strangers(
        self, stage: Stage, steps: Steps, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        assert steps
        request = stage.request()
        stage.get(request)
        monkeypatch.setattr(module, "read_flags", lambda _: (_ for _ in ()).throw(ValueError("damaged")))
        with pytest.raises(ValueError, match="damaged"):
            stage.get(request)
