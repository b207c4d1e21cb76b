"""The order of the stages: what a wheel is packed from and audited against, with its own kernels and with others'."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cpuwheels.audit.binutils import Binutils
from cpuwheels.audit.isa_limits import limits_of
from cpuwheels.config.matrix import Library, load_matrix
from cpuwheels.config.options import BuildOptions
from cpuwheels.config.paths import Paths
from cpuwheels.core.console import Reporter
from cpuwheels.core.digests import tree_digest
from cpuwheels.core.errors import UsageError
from cpuwheels.core.store import Store
from cpuwheels.core.trust import Trust
from cpuwheels.core.usage import current_usage
from cpuwheels.kernels.depfile import Reads
from cpuwheels.kernels.memory.admission import MemoryUse
from cpuwheels.kernels.memory.limits import JobPlan
from cpuwheels.kernels.result import Kernels
from cpuwheels.pipeline import build as module
from cpuwheels.pipeline.assemble import Assembly
from cpuwheels.pipeline.build import build
from cpuwheels.pipeline.inputs import Inputs
from cpuwheels.source.acl import Acl
from cpuwheels.source.patched import PreparedSource
from cpuwheels.source.result import Source
from cpuwheels.wheel.components import Component, Components
from kernel_request import TARGET, environment, toolchain
from ledger_records import RECORDS
from sample_source import EPOCH, write_tree
from wheel_notes import wheel_note

LIMITED = TARGET.model_copy(
    update={
        "libraries": (Library(name="_C", isa=(), march="armv8.2-a"),),
        "excluded_libraries": ("libtorch.so",),
        "toolchain": None,
        "sysroot": None,
    }
)
ACL = Acl(Path("/acl"), "v52.6.0", "c" * 40, "pinned", {}, march="armv9-a")
COMPONENT = Component(name="acl", version="", license="MIT", digest="d", libraries=(), texts={"t": "d"})
MEMORY = MemoryUse(jobs=2, cap=1000, where="--memory 1000", room=800, how="a group", peak=540)


@dataclass(frozen=True)
class Wanted:
    """Stands for a request of a source."""

    trust: Trust

    def __str__(self) -> str:
        return "the source"


class Stages:
    """Stands for the stages; the assembly that they end with is kept."""

    def __init__(self, base: Path, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.base, self.root = base, root
        self.done: list[str] = []
        self.assembly: Any = None
        self.more: dict[str, Any] = {}
        self.context: Any = None
        self.trust = Trust.RELEASE
        self.received = 0
        self.toolchain = toolchain(library_folders=(Path("/sysroot/lib"),))
        self.fingerprints: list[tuple[Any, ...]] = []
        tree = write_tree(base / "source")
        self.inputs = Inputs(
            Source("0.32.0", tree, "digest", EPOCH, "here", "PKG-INFO"),
            PreparedSource("0.32.0", tree, EPOCH, ()),
            environment(),
            None,
            ACL,
        )
        self.kernels = Kernels(
            "key", base / "kernels", ("_C",), tuple(RECORDS), True, MEMORY, Reads(files=(), folders=())
        )
        self.kernels.folder.mkdir()
        monkeypatch.setattr("platform.machine", lambda: "x86_64")
        monkeypatch.setattr("platform.system", lambda: "Linux")
        stages: dict[str, Callable[..., Any]] = {
            "check_choice": lambda *_: self.done.append("choice"),
            "plan_jobs": lambda *_: self._step("plan", JobPlan(2, "CPUs", 1000, "--memory")),
            "wanted_source": lambda *_: self._step("wanted", Wanted(self.trust)),
            "with_default_source": lambda context: self._step("release", (context, {"2.0": "known"})),
            "upstream": lambda _, request: self._step("upstream", f"{request} and its pins"),
            "compiler": lambda _: self._step("compiler", (self.toolchain, SimpleNamespace(memgate="m", isaprobe="i"))),
            "gather": lambda _, found, known: self._step(f"gather {found} with {known['2.0']}", self.inputs),
            "get_kernels": self._kernels,
            "memory_cap": lambda _, plan, memgate: (plan.jobs, memgate),
            "chosen_cache": lambda _: "the cache",
            "probe": lambda program: SimpleNamespace(features=frozenset({f"of {program}"})),
            "features_here": lambda _: frozenset({"stored"}),
            "keep_fingerprint": lambda *given: self.fingerprints.append(given),
            "find_donor": self._donor,
            "precompiled_binaries": lambda donor, _: (Path("/donor"), ("audit key", f"audit of {donor.origin}")),
            "get_components": lambda *_, acl, **__: Components((replace(COMPONENT, version=acl.tag),), Path("/texts")),
            "donated_components": lambda donor, _: Components((), Path(f"/texts of {donor.origin}")),
            "assemble": self._assemble,
        }
        for name, stage in stages.items():
            monkeypatch.setattr(module, name, stage)

    def run(self, target: Any = LIMITED, options: BuildOptions | None = None, **more: Any) -> Assembly:
        found = load_matrix(self.root)
        matrix = found.model_copy(update={"targets": (target, found.target("macos"))})
        paths = Paths(self.root, self.base / "cache", self.base / "dist")
        assert build(paths, matrix, target.id, options or BuildOptions(), Reporter("x86"), **more) == "the wheel"
        assembly: Assembly = self.assembly
        return assembly

    def _step(self, name: str, answer: Any) -> Any:
        self.done.append(name)
        return answer

    def _kernels(self, _context: object, request: Any, *, cap: object, cache: Callable[[], object]) -> Kernels:
        self.done.append("kernels")
        assert (request.toolchain, request.acl) == (self.toolchain, ACL)
        assert (cap, cache()) == ((2, "m"), "the cache")
        return self.kernels

    def _donor(self, _context: object, place: str, inputs: Any, _chooser: object) -> Any:
        self.done.append(f"donor {place}")
        assert inputs.source is self.inputs.prepared
        note = wheel_note(kernel_key="theirs")
        wheel = Path("theirs.whl")
        return SimpleNamespace(note=note, manifest="their manifest", origin="there", wheel=wheel, sha256="d")

    def _assemble(self, context: object, assembly: Assembly, **more: Any) -> str:
        self.context, self.assembly, self.more = context, assembly, more
        if self.received:
            current_usage().received(self.received)
        return "the wheel"


@pytest.fixture
def stages(tmp_path: Path, project_root: Path, monkeypatch: pytest.MonkeyPatch) -> Stages:
    return Stages(tmp_path, project_root, monkeypatch)


def test_the_stages_and_their_order(stages: Stages) -> None:
    assembly = stages.run()
    assert stages.done == [
        *(
            "choice",
            "plan",
            "wanted",
            "release",
            "wanted",
            "upstream",
            "compiler",
            "gather the source and its pins with known",
            "kernels",
        )
    ]
    assert stages.more == {"check": True}
    assert (assembly.inputs, assembly.kernels, assembly.audited) == (stages.inputs, stages.kernels.folder, None)
    assert assembly.features == {"of i"}
    assert assembly.beside == {}
    assert (assembly.provenance.target, assembly.provenance.kernel_key) == ("x86", "key")
    assert assembly.manifest.kernels == "key"
    assert assembly.provenance.acl is not None
    assert [(one.name, one.version) for one in assembly.provenance.components] == [("acl", "v52.6.0")]
    assert assembly.components.folder == Path("/texts")
    assert (assembly.provenance.acl.tag, assembly.provenance.acl.version) == (ACL.tag, ACL.commit)
    assert assembly.record["jobs"] == {"at_once": 2, "reason": "CPUs", "compiled_in_this_run": True}
    ((store, target, folder, kernels),) = stages.fingerprints
    assert (store, target, folder, kernels) == (
        stages.context.store,
        "x86",
        stages.inputs.source.folder,
        stages.kernels,
    )


@pytest.mark.parametrize("received", [0, 2048])
def test_what_was_fetched_is_printed_last_and_nothing_if_there_was_none(
    stages: Stages, capsys: pytest.CaptureFixture[str], received: int
) -> None:
    stages.received = received
    stages.run()
    stages.run()
    lines = [line for line in capsys.readouterr().err.splitlines() if "] fetched" in line]
    assert lines == ["[x86] fetched 2 KiB"] * (2 if received else 0)


def test_a_terminal_lists_the_stages_up_to_the_given_ends(stages: Stages, monkeypatch: pytest.MonkeyPatch) -> None:
    listed: list[list[str]] = []
    monkeypatch.setattr(Reporter, "expect", lambda _, names: listed.append(list(names)))
    stages.run()
    paths = Paths(stages.root, stages.base / "cache", stages.base / "dist")
    matrix = load_matrix(stages.root).model_copy(update={"targets": (LIMITED,)})
    with module.assembled(paths, matrix, LIMITED.id, BuildOptions(), Reporter("x86"), ends=("audit",)) as (_, assembly):
        assert assembly.kernels == stages.kernels.folder
    before = ["release", "source", "toolchain", "environment", *(["onednn"] if LIMITED.onednn else []), "kernels"]
    assert listed == [[*before, "wheel", "install check"], [*before, "audit"]]


def test_kernels_are_audited_against_what_they_were_made_with(stages: Stages) -> None:
    shared = stages.kernels.folder / "libraries" / "libshared.so"
    shared.parent.mkdir()
    shared.write_bytes(b"code")
    policy = stages.run().policy
    assert (policy.floor, policy.machine, policy.system) == ("manylinux_2_28", "x86_64", "Linux")
    assert policy.excluded == ("libtorch.so",)
    assert policy.torch_libraries == Path("/env/site/torch/lib")
    assert policy.library_folders == (Path("/sysroot/lib"), stages.kernels.folder / "libraries")
    assert policy.digests == ("2.13.0+cpu", "torch", "tc", tree_digest(shared.parent))
    other = stages.run().policy.digests
    shared.write_bytes(b"other code")
    assert stages.run().policy.digests != other
    assert policy.limits == limits_of(LIMITED, ACL)
    assert policy.limits != limits_of(LIMITED)
    assert policy.binutils == Binutils(Path("/tc/as"), Path("/tc/objdump"), "x86_64", "tc")


def test_without_a_sysroot_the_libraries_are_the_machines_own(stages: Stages) -> None:
    stages.toolchain = replace(stages.toolchain, library_folders=())
    assert stages.run().policy.library_folders == ()


@pytest.mark.parametrize("debug", [True, False])
def test_the_trace_and_the_debug_symbols_go_next_to_the_wheel(stages: Stages, tmp_path: Path, *, debug: bool) -> None:
    if debug:
        (stages.kernels.folder / "debug").mkdir()
        (stages.kernels.folder / "debug" / "_C.abi3.so.debug").write_text("symbols")
    assembly = stages.run()
    (tmp_path / "staged").mkdir()
    assembly.write_beside(tmp_path / "staged")
    names = {path.name for path in (tmp_path / "staged").iterdir()}
    assert names == {"trace.json", *(["debug"] if debug else [])}
    assert "vLLM 0.32.0 for x86: kernels key" in (tmp_path / "staged" / "trace.json").read_text()


def test_kernels_of_another_wheel_need_no_compiler_and_no_second_audit(stages: Stages, tmp_path: Path) -> None:
    (tmp_path / "theirs").mkdir()
    assembly = stages.run(options=BuildOptions(kernels_from=str(tmp_path / "theirs")))
    assert stages.done == [
        *("wanted", "release", "wanted", "upstream"),
        "gather the source and its pins with known",
        f"donor {tmp_path / 'theirs'}",
    ]
    assert (assembly.kernels, assembly.beside, assembly.manifest) == (Path("/donor"), {}, "their manifest")
    assert assembly.components.folder == Path("/texts of there")
    assert assembly.audited == ("audit key", "audit of there")
    assert assembly.features == {"stored"}
    assert assembly.provenance.kernel_key == "theirs"
    assert assembly.provenance.source.version == "0.32.0"
    assert assembly.record["precompiled"] == {"from": "there", "wheel": "theirs.whl", "sha256": "d"}
    assert (assembly.policy.library_folders, assembly.policy.digests, assembly.policy.binutils) == ((), (), None)
    assert assembly.policy.excluded == ("libtorch.so",)


def test_what_cannot_go_with_kernels_of_another_wheel_is_refused_first(stages: Stages) -> None:
    with pytest.raises(UsageError):
        stages.run(options=BuildOptions(kernels_from="theirs.whl", debug_symbols=True))
    assert stages.done == []


def test_an_open_store_is_shared(stages: Stages, tmp_path: Path) -> None:
    store = Store(tmp_path / "cache", check_once=True)
    stages.run(check=False, store=store)
    assert stages.context.store is store
    assert stages.more == {"check": False}


@pytest.mark.parametrize("trust", [Trust.COMMIT, Trust.LOCAL])
def test_what_a_source_is_made_into_is_apart_from_releases(stages: Stages, tmp_path: Path, trust: Trust) -> None:
    store = Store(tmp_path / "cache")
    stages.trust = trust
    stages.run(store=store)
    assert stages.context.store.trust is trust
    assert store.trust is Trust.RELEASE


def test_the_stages_that_a_terminal_lists_are_those_of_the_code(project_root: Path) -> None:
    folder = project_root / "src" / "cpuwheels" / "pipeline"
    files = ("build.py", "default_source.py", "inputs.py", "new_wheel.py")
    text = "".join((folder / name).read_text() for name in files)
    assert set(module.STAGES) | {"acl", "audit"} == set(re.findall(r"reporter\.stage\(\s*\"([^\"]+)\"", text))
