"""The whole examination, of a machine whose PATH and whose outside world are folders."""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from cpuwheels.config.debian_lock import load_lock
from cpuwheels.config.host import default_target
from cpuwheels.config.matrix import Matrix, load_matrix
from cpuwheels.config.options import BuildOptions
from cpuwheels.config.paths import Paths
from cpuwheels.config.pins import Archive
from cpuwheels.doctor import diagnose as diagnose_module
from cpuwheels.doctor import inputs
from cpuwheels.doctor.check import Check, exit_code
from cpuwheels.doctor.diagnose import diagnose
from cpuwheels.doctor.network import Answer
from cpuwheels.fetch.git_archive import commit_key
from cpuwheels.toolchain.amx import Amx
from cpuwheels.toolchain.native_helpers import CpuFeatures

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class World:
    """Paths that stand for the network, and the settings that name them."""

    def __init__(self, folder: Path, matrix: Matrix) -> None:
        self.folder = folder
        url = folder.as_uri()
        release = matrix.release("0.32.0")  # its torch has no fallback
        assert release is not None
        sdist = Archive(urls=(f"{url}/vllm.tar.gz",), sha256=release.sdist.sha256, size=1)
        # One torch alone: which of several a source pins is not known before the source is there.
        torch, onednn = {"2.13.0": matrix.torch["2.13.0"]}, dict(matrix.onednn)
        self.matrix = matrix.model_copy(
            update={
                "default_source": release.version,
                "releases": (release.model_copy(update={"sdist": sdist}),),
                "debian": matrix.debian.model_copy(update={"mirrors": (f"{url}/debian",)}),
                "torch": {name: pin.model_copy(update={"index": f"{url}/torch"}) for name, pin in torch.items()},
                "onednn": {
                    name: pin.model_copy(update={"repositories": (str(folder / "onednn"),)})
                    for name, pin in onednn.items()
                },
            }
        )
        self.environ = {"PIP_CONFIG_FILE": "/dev/null", "UV_DEFAULT_INDEX": f"{url}/simple"}

    def put(self, name: str, text: str = "") -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@pytest.fixture
def world(tmp_path: Path, project_root: Path) -> World:
    return World(tmp_path / "world", load_matrix(project_root))


@pytest.fixture
def paths(tmp_path: Path, project_root: Path) -> Paths:
    return Paths(root=project_root, cache=tmp_path / "cache", dist=tmp_path / "dist")


@pytest.fixture(autouse=True)
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give the machine git and one Python, but no compiler."""
    folder = tmp_path / "bin"
    folder.mkdir()
    git = shutil.which("git")
    assert git is not None
    (folder / "git").symlink_to(git)
    (folder / f"python3.{sys.version_info.minor}").symlink_to(sys.executable)
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.delenv("MAX_JOBS", raising=False)
    return folder


@pytest.fixture
def examine(world: World, paths: Paths, tmp_path: Path) -> Callable[..., tuple[dict[str, Check], int]]:
    def run(target: str = "x86", **options: object) -> tuple[dict[str, Check], int]:
        found = diagnose(
            paths,
            world.matrix,
            world.matrix.target(target),
            BuildOptions(**options),
            environ=world.environ,
            patience=20,
            apt_root=tmp_path / "apt",
        )
        checks = tuple(found)
        assert len({check.name for check in checks}) == len(checks)
        return {check.name: check for check in checks}, exit_code(checks)

    return run


def fill(world: World, root: Path) -> None:
    """Put everything where the build would look for it."""
    world.put("vllm.tar.gz")
    world.put("simple/cmake/index.html")
    for lock in ("gcc-15-amd64", "sysroot-bullseye-amd64", "licenses"):
        for package in load_lock(root, lock).packages:
            world.put(f"debian/{package.path}")
    python = f"cp3{sys.version_info.minor}"
    wheel = f"torch-2.13.0+cpu-{python}-{python}-manylinux_2_28_x86_64.whl"
    world.put("torch/torch/index.html", f'<a href="{wheel.replace("+", "%2B")}">{wheel}</a>')
    subprocess.run(["git", "init", "--quiet", "--bare", world.folder / "onednn"], check=True)


NETWORK = {
    "vLLM 0.32.0 sdist",
    "packages of gcc-15-amd64",
    "packages of sysroot-bullseye-amd64",
    "packages of licenses",
    "package index",
    "torch 2.13.0+cpu",
    "oneDNN v3.13",
}


def test_nothing_can_be_reached(examine, paths):
    checks, code = examine()
    assert code == 1
    assert {name for name, check in checks.items() if check.status == "fail"} == NETWORK
    assert all(checks[name].next_step for name in NETWORK)
    assert not paths.cache.exists()
    assert not paths.dist.exists()


def test_everything_can_be_reached(examine, world, project_root):
    fill(world, project_root)
    checks, code = examine()
    assert {name: check for name, check in checks.items() if check.status == "fail"} == {}
    assert code == 0
    assert {checks[name].status for name in NETWORK} == {"ok"}
    assert "gcc-15-amd64" in checks["toolchain"].detail


def test_a_place_that_does_not_answer_holds_back_no_check_before_it(world, paths, project_root, tmp_path, monkeypatch):
    fill(world, project_root)
    asked, answered = threading.Event(), threading.Event()

    def ask(_: str) -> Answer:
        asked.set()
        assert answered.wait(60)
        return Answer(True, "answers")

    monkeypatch.setattr(inputs, "ask_git", ask)
    checks = diagnose(
        paths, world.matrix, world.matrix.target("x86"), environ=world.environ, patience=60, apt_root=tmp_path / "apt"
    )
    before = []
    for check in checks:
        before.append(check.name)
        if check.name == "torch 2.13.0+cpu":  # the last before the one that is waited for
            break
    assert asked.is_set()
    assert not answered.is_set()
    assert before[:2] == ["machine", "Python"]
    answered.set()
    group = "What a build fetches"
    assert next(checks) == Check("oneDNN v3.13", "ok", f"{world.folder / 'onednn'}: answers", group=group)
    assert "CPU features" in [check.name for check in checks]


def test_the_checks_come_in_the_same_order_whatever_answers_first(world, paths, project_root, tmp_path, monkeypatch):
    def names() -> list[str]:
        found = diagnose(
            paths, world.matrix, world.matrix.target("x86"), environ=world.environ, patience=60, apt_root=tmp_path / "a"
        )
        return [check.name for check in found]

    fill(world, project_root)
    quick, last = names(), threading.Event()

    def late(url: str) -> Answer:
        """Answer for Debian after everything else."""
        if "/debian/" in url:
            assert last.wait(60)
        elif "cmake" in url:
            last.set()
        return Answer(True, "answers")

    monkeypatch.setattr(inputs, "ask_url", late)
    assert names() == quick


def test_alternate_for_onednn(examine, world, project_root):
    fill(world, project_root)
    shutil.rmtree(world.folder / "onednn")
    pin = world.matrix.onednn["v3.13"]
    world.put(f"debian/{pin.alternates[0].debian}")
    checks, code = examine()
    assert (checks["oneDNN v3.13"].status, code) == ("warn", 0)
    checks, code = examine(locked=True)
    assert (checks["oneDNN v3.13"].status, code) == ("fail", 1)


def test_what_is_in_the_store_need_not_be_reached(examine, world, paths):
    for lock in ("gcc-15-amd64", "sysroot-bullseye-amd64", "licenses"):
        for package in load_lock(paths.root, lock).packages:
            (paths.cache / "downloads" / package.sha256[:24]).mkdir(parents=True, exist_ok=True)
    release = world.matrix.release("0.32.0")
    (paths.cache / "downloads" / release.sdist.sha256[:24]).mkdir(parents=True)
    (paths.cache / "onednn" / commit_key(world.matrix.onednn["v3.13"].commit)).mkdir(parents=True)
    checks, _ = examine()
    stored = NETWORK - {"package index", "torch 2.13.0+cpu"}
    assert {checks[name].detail for name in stored} == {"in the store"}


def test_an_environment_with_one_of_several_torches_proves_nothing(examine, world, project_root, monkeypatch):
    monkeypatch.setattr(diagnose_module, "stored_environment", lambda *_: SimpleNamespace(python_version="3.12"))
    assert "is in the store" in examine()[0]["build Python"].detail
    release = world.matrix.releases[0].model_copy(update={"torch": None})
    index = f"{world.folder.as_uri()}/torch"
    torch = {name: pin.model_copy(update={"index": index}) for name, pin in load_matrix(project_root).torch.items()}
    assert len(torch) > 1
    world.matrix = world.matrix.model_copy(update={"torch": torch, "releases": (release,)})
    checks, _ = examine()
    assert "is in the store" not in checks["build Python"].detail
    assert "in the store" not in {checks[f"torch {name}+cpu"].detail for name in torch}


@pytest.mark.parametrize("there", [False, True])
def test_build_tools_are_not_fetched_again_for_debians_torch(examine, world, project_root, monkeypatch, there):
    release = world.matrix.releases[0].model_copy(update={"torch": "2.14.0"})
    pin = load_matrix(project_root).torch["2.14.0"].model_copy(update={"index": f"{world.folder.as_uri()}/torch"})
    world.matrix = world.matrix.model_copy(update={"torch": {"2.14.0": pin}, "releases": (release,)})
    asked = []

    def stored(request, _):
        asked.append(request.foreign)
        return SimpleNamespace(python_version="3.12") if request.foreign and there else None

    monkeypatch.setattr(diagnose_module, "stored_environment", stored)
    monkeypatch.setattr(diagnose_module.space, "tools_bytes", lambda *_: 1 << 40)
    checks, _ = examine()
    assert ("TiB" in checks["downloads"].detail) == (not there)
    assert [foreign.version for foreign in asked if foreign] == ["2.14.1"]


def test_git_is_only_needed_for_fetching(examine, world, path, paths, project_root):
    fill(world, project_root)
    (path / "git").unlink()
    checks, code = examine()
    assert (checks["git"].status, code) == ("fail", 1)
    (paths.cache / "onednn" / commit_key(world.matrix.onednn["v3.13"].commit)).mkdir(parents=True)
    checks, code = examine()
    assert (checks["git"].status, code) == ("info", 0)


@pytest.mark.parametrize(
    ("options", "name", "words"),
    [
        ({"memory": "1G"}, "memory", "below"),
        ({"memory": "lots"}, "memory", "not a size"),
        ({"jobs": "0"}, "memory", "--jobs"),
        ({"source": "9.9.9"}, "source", "not pinned"),
        ({"source": "/nonexistent/vllm"}, "source", "vllm"),
        ({"toolchain": "host"}, "toolchain", "no compiler"),
    ],
)
def test_bad_options_are_findings(examine, options, name, words):
    checks, code = examine(**options)
    assert code == 1
    assert checks[name].status == "fail"
    assert words in checks[name].detail


def test_bad_mirror_is_a_finding(examine, world):
    world.environ["CPUWHEELS_DEBIAN_MIRROR"] = "nonsense"
    checks, code = examine()
    assert code == 1
    assert "nonsense" in checks["source"].detail


def test_a_cpu_that_hides_its_tiles(examine, world, monkeypatch):
    on_x86(monkeypatch)
    amx = Amx(enabled=True, permitted=True, palette=None)
    cpu = CpuFeatures(architecture="x86_64", vendor="V", model="M", features=frozenset(), xcr0=None, amx=amx)
    monkeypatch.setattr(diagnose_module, "cpu_at_hand", lambda _: cpu)
    assert examine()[0]["AMX"].detail.endswith("; oneDNN is held back to SSE41")
    world.environ["ONEDNN_MAX_CPU_ISA"] = "AVX2"
    assert "back to AVX2 because the environment sets ONEDNN_MAX_CPU_ISA" in examine()[0]["AMX"].detail
    assert "AMX" not in examine("arm", source="0.32.0")[0]
    monkeypatch.setattr(diagnose_module, "cpu_at_hand", lambda _: None)
    assert "AMX" not in examine()[0]


CROSS = ("arm", "gcc-14-arm64", "sysroot-bullseye-arm64")


def on_x86(monkeypatch):
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    monkeypatch.setattr("platform.system", lambda: "Linux")


def test_target_of_another_machine(examine, world, project_root, monkeypatch):
    on_x86(monkeypatch)
    target, *locks = CROSS
    fill(world, project_root)
    for lock in locks:
        for package in load_lock(project_root, lock).packages:
            world.put(f"debian/{package.path}")
    checks, _ = examine(target, source="0.32.0")
    assert checks["machine"].status == "ok"
    assert "for aarch64 with a cross compiler" in checks["machine"].detail
    assert checks["toolchain"].status == "ok"
    assert "locks/gcc-14-arm64.yaml" in checks["toolchain"].detail
    # Compiler and sysroot of the target, and those of this machine for what runs here.
    for lock in (*locks, "gcc-15-amd64", "sysroot-bullseye-amd64"):
        assert checks[f"packages of {lock}"].status == "ok"
    assert (checks["CPU features"].status, "emulate" in checks["CPU features"].detail) == ("info", True)


def test_a_cross_build_needs_its_locks(examine, monkeypatch):
    on_x86(monkeypatch)
    target, *locks = CROSS
    checks, code = examine(target, source="0.32.0")
    assert {checks[f"packages of {lock}"].status for lock in locks} == {"fail"}
    assert code == 1


def test_alternate_for_torch(examine, world, project_root, monkeypatch):
    on_x86(monkeypatch)
    torch = load_matrix(project_root).torch["2.14.0"].model_copy(update={"index": f"{world.folder.as_uri()}/torch"})
    release = world.matrix.releases[0].model_copy(update={"torch": "2.14.0"})
    world.matrix = world.matrix.model_copy(update={"torch": {"2.14.0": torch}, "releases": (release,)})
    alternate = torch.alternate("aarch64")
    assert alternate is not None
    for package in load_lock(project_root, alternate.root).packages:
        world.put(f"debian/{package.path}")
    assert examine("arm", source="0.32.0")[0]["torch 2.14.0+cpu"].status == "warn"
    assert examine("arm", source="0.32.0", locked=True)[0]["torch 2.14.0+cpu"].status == "fail"


def test_target_of_a_machine_that_none_here_can_stand_for(examine, monkeypatch):
    monkeypatch.setattr("platform.machine", lambda: "riscv64")
    checks, code = examine("s390x", source="0.32.0")
    assert (checks["machine"].status, code) == ("fail", 1)
    assert "Linux s390x or Linux x86_64" in checks["machine"].detail
    assert checks["toolchain"].status == "fail"


def test_default_target_is_one_that_can_be_built_here(world):
    assert default_target(world.matrix).is_ready


def test_every_check_is_in_a_group_and_the_groups_come_one_after_the_other(examine, world, project_root):
    fill(world, project_root)
    checks, _ = examine()
    groups = [check.group for check in checks.values()]
    assert list(dict.fromkeys(groups)) == ["Machine", "Compilers", "What a build fetches", "Processor"]
    assert groups == sorted(groups, key=["Machine", "Compilers", "What a build fetches", "Processor"].index)


def test_a_search_for_interpreters_holds_back_no_check_of_the_machine(
    world, paths, project_root, tmp_path, monkeypatch
):
    fill(world, project_root)
    found = threading.Event()

    def search(pythons):
        assert found.wait(60)
        return {pythons[0]: tmp_path / "python"}

    monkeypatch.setattr(diagnose_module, "found_interpreters", search)
    checks = diagnose(paths, world.matrix, world.matrix.target("x86"), environ=world.environ, apt_root=tmp_path / "apt")
    before = [next(checks).name for _ in range(8)]
    assert before == ["machine", "Python", "uv", "git", "cache", "output", "memory", "sandbox"]
    found.set()
    assert next(checks).name == "build Python"
