"""Hostile source code: it sees and changes its own work folder alone.

Each case runs the attack below the mechanism with which builds run upstream's code; the fixture `outside` checks that
everything else is as it was.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from confinement import HOSTILE, PYTHON, SECRET, Confinement, World
from contexts import build_context
from cpuwheels.audit.installed_names import program_faults
from cpuwheels.bisect.command_environment import command_environment
from cpuwheels.bisect.predicates import CommandPredicate, Installed, Judgement
from cpuwheels.bisect.search import Verdict
from cpuwheels.core.console import Reporter
from cpuwheels.core.errors import BisectError, CompileError, ConfigureError, InstallCheckError, WheelError
from cpuwheels.kernels.cmake import run_cmake
from cpuwheels.kernels.confined import Confinement as BuildConfinement
from cpuwheels.kernels.confined import require_files
from cpuwheels.kernels.depfile import Reads, kernels_key
from cpuwheels.kernels.executed import counted_files
from cpuwheels.kernels.launchers import Launchers
from cpuwheels.pipeline.user_places import UserPlaces
from cpuwheels.sandbox import prepare
from cpuwheels.sandbox.confine import Confine, Confined, Sandbox
from cpuwheels.sandbox.steps import load, parity, setup_py, timing
from cpuwheels.sandbox.view import follow
from cpuwheels.verification.benchmark.worker import Worker
from cpuwheels.verification.load.loader import PROBES, Loader, Module
from cpuwheels.wheel.canonical import canonicalize
from cpuwheels.wheel.setup_py_run import PROBE, ask_setup_py
from kernel_request import environment, kernel_request

REFUSED = "refused: "


def refused(inside: Confinement, *line: str | Path, readable: tuple[Path, ...] = ()) -> None:
    """Run an attack, and check that it gained nothing."""
    said = inside.attack(*line, readable=readable)
    assert said.startswith(REFUSED), said
    assert SECRET not in said


def test_01_environments_of_ancestors(inside: Confinement) -> None:
    refused(inside, "environs", SECRET)


def test_02_credentials_of_aws(inside: Confinement, outside: World) -> None:
    refused(inside, "read", outside.base / "home/.aws/credentials")


def test_03_keys_of_ssh(inside: Confinement, outside: World) -> None:
    refused(inside, "read", outside.base / "home/.ssh/id_ed25519")


def test_04_dockers_socket(inside: Confinement, outside: World) -> None:
    refused(inside, "unix", outside.docker)
    refused(inside, "unix", "/var/run/docker.sock")


def test_05_files_of_the_home_folder(inside: Confinement, outside: World) -> None:
    refused(inside, "write", outside.base / "home/.bashrc")
    refused(inside, "write", outside.base / "home/.netrc")


def test_06_environments_of_other_builds(inside: Confinement, outside: World) -> None:
    """A step reads its environment, and may not write even that."""
    store = outside.base / "store"
    for what in ("write", "remove", "truncate", "chmod"):
        refused(inside, what, store / "entry", readable=(store,))


def test_07_temporary_files_of_others(inside: Confinement, outside: World) -> None:
    other = outside.base.parent / "other-build"
    other.mkdir()
    refused(inside, "write", other / "planted")
    assert list(other.iterdir()) == []


def test_08_the_clone(inside: Confinement, outside: World) -> None:
    refused(inside, "write", outside.base / "clone/config")
    refused(inside, "read", outside.base / "clone/config")


def test_09_tcp(inside: Confinement, outside: World) -> None:
    refused(inside, "tcp", "127.0.0.1", str(outside.port))
    refused(inside, "tcp", "1.1.1.1", "443")


def test_10_dns(inside: Confinement) -> None:
    refused(inside, "dns", "example.com")
    refused(inside, "udp", "1.1.1.1", "53")


def test_11_abstract_sockets(inside: Confinement, outside: World) -> None:
    refused(inside, "abstract", outside.abstract)


def test_12_the_metadata_of_a_cloud_machine(inside: Confinement) -> None:
    refused(inside, "tcp", "169.254.169.254", "80")
    refused(inside, "vsock")


def ask(inside: Confinement, code: str) -> None:
    """Ask a ``setup.py`` that runs some code in place of answering; `metadata.json` is in its first argument."""
    work = inside.base / "asked"
    (work / "source").mkdir(parents=True)

    def confine(_: object, place: Path) -> object:
        step = setup_py(PYTHON, [], PROBE, place)
        script = [PYTHON, "-c", code, place / "answers"]
        return Sandbox(inside.mechanism).confine(step, script, {}, inside.base / "plans")

    ask_setup_py(
        work / "source",
        work,
        python=PYTHON,
        confine=confine,  # type: ignore[arg-type]
        source=Path("/upstream"),
        log=inside.base / "log",
    )


ANSWERS = """
import os, sys
answers = sys.argv[1]
os.makedirs(f"{answers}/packages/vllm")
notes = '{"read": [], "written": [], "copied": {}, "against": []}'
for name in ("metadata", "packages"):
    with open(f"{answers}/{name}.json", "w") as stream:
        stream.write(notes)
"""


def test_13_forged_notes(inside: Confinement, outside: World) -> None:
    """An answer that is a link would be read by a process that sees more."""
    secret = str(outside.base / "home/.netrc")
    for attack in (
        f"os.remove(f'{{answers}}/metadata.json'); os.symlink({secret!r}, f'{{answers}}/metadata.json')",
        "os.remove(f'{answers}/metadata.json'); os.mkfifo(f'{answers}/metadata.json')",
        f"os.symlink({secret!r}, f'{{answers}}/packages/vllm/data.json')",
        "os.mkfifo(f'{answers}/packages/vllm/data.json')",
    ):
        with pytest.raises(WheelError, match="left something that is not taken over") as caught:
            ask(inside, ANSWERS + attack)
        assert SECRET not in str(caught.value)
        shutil.rmtree(inside.base / "asked")


def test_14_forged_depfiles(tmp_path: Path) -> None:
    """What could forge one is in the key of the kernels, whatever the depfiles name."""
    request = kernel_request(tmp_path)
    source = request.source.folder
    for name, text in {"CMakeLists.txt": "project(x)", "csrc/generate.py": "", "csrc/ops.cpp": ""}.items():
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_text(text)
    forged = Reads(files=("csrc/ops.cpp",), folders=())
    clean = kernels_key(request, forged)
    for name in ("CMakeLists.txt", "csrc/generate.py"):
        assert name in counted_files(source)
        before = (source / name).read_text()
        (source / name).write_text(f"{before}# forges")
        assert kernels_key(request, forged) != clean
        (source / name).write_text(before)
    assert kernels_key(request, forged) == clean


def test_15_a_link_in_place_of_ninjas_log_or_of_a_module(inside: Confinement, outside: World) -> None:
    script = 'ln -s "$1" module.so; mkfifo compile_commands.json'
    assert inside.run(["/bin/sh", "-c", script, "sh", outside.base / "home/.netrc"]).status == 0
    for name, what in (("module.so", "a link"), ("compile_commands.json", "a special file")):
        with pytest.raises(CompileError, match=f"left {what} in place of {name}"):
            require_files([inside.work / name])


def test_16_the_parent(inside: Confinement, outside: World) -> None:
    inside.attack("kill_parents")
    refused(inside, "kill", str(outside.victim.pid))
    refused(inside, "limits", str(outside.victim.pid))


def test_17_ptrace(inside: Confinement, outside: World) -> None:
    refused(inside, "ptrace", str(outside.victim.pid))
    refused(inside, "memory", str(outside.victim.pid))


def compile_with(inside: Confinement, compiler: Path, name: str, text: str) -> str:
    """Compile a file confined, which has to fail, and return what the compiler said."""
    inside.step()
    (inside.work / name).write_text(text)
    done = inside.run([compiler, "-c", name, "-o", "stolen.o"], Path(follow(compiler)[0]), compiler)
    assert done.status != 0
    assert not (inside.work / "stolen.o").exists()
    assert SECRET not in done.output
    return done.output


def test_18_incbin(inside: Confinement, outside: World, c_compiler: Path) -> None:
    text = f'__asm__(".section .rodata\\n.incbin \\"{outside.base}/home/.netrc\\"");\n'
    assert "file not found" in compile_with(inside, c_compiler, "a.c", text)


def test_19_include_of_a_secret(inside: Confinement, outside: World, c_compiler: Path) -> None:
    text = f'#include "{outside.base}/home/.aws/credentials"\n'
    assert "No such file" in compile_with(inside, c_compiler, "a.c", text)


def configured(inside: Confinement, project: str, cmake: Path) -> str:
    """Configure a project of some text confined, and return the words with which CMake stops."""
    folder = inside.base / "build-folder"
    (folder / "source").mkdir(parents=True)
    lists = f"cmake_minimum_required(VERSION 3.20)\nproject(x NONE)\n{project}"
    (folder / "source" / "CMakeLists.txt").write_text(lists)
    (folder / "init.cmake").write_text("")
    readable = (PYTHON.parent.parent, cmake.parent.parent)
    made = BuildConfinement(Sandbox(inside.mechanism), folder, readable, (), inside.base / "plans")
    with pytest.raises(ConfigureError, match="CMake could not configure the kernels of vLLM 0") as caught:
        run_cmake(
            "the kernels of vLLM 0",
            environment(python=cmake.with_name("python")),
            folder / "source",
            folder / "build",
            folder / "init.cmake",
            env={"PATH": f"{cmake.parent}:/usr/bin:/bin"},
            launchers=Launchers(confinement=made),
            log=inside.base / "log",
            next_step="read it",
        )
    return caught.value.output


@pytest.fixture
def cmake() -> Path:
    """The one that the tests' environment has."""
    found = shutil.which("cmake", path=os.fspath(Path(sys.executable).parent))
    assert found
    return Path(found)


def test_20_cmakes_download(inside: Confinement, outside: World, cmake: Path) -> None:
    url = f"http://127.0.0.1:{outside.port}/x"
    project = f'file(DOWNLOAD "{url}" got STATUS s)\nif(s)\nmessage(FATAL_ERROR "no network: ${{s}}")\nendif()'
    said = configured(inside, project, cmake)
    assert "no network" in said


def test_21_execute_process(inside: Confinement, outside: World, cmake: Path) -> None:
    secret = outside.base / "home/.netrc"
    project = f'execute_process(COMMAND cat "{secret}" OUTPUT_VARIABLE o COMMAND_ERROR_IS_FATAL ANY)\nmessage("${{o}}")'
    said = configured(inside, project, cmake)
    assert "No such file" in said
    assert SECRET not in said


def test_22_a_generator(inside: Confinement, outside: World, cmake: Path) -> None:
    """A program of the source that CMake runs to write headers."""
    target = outside.base / "store" / "planted"
    project = f'execute_process(COMMAND sh -c "echo planted > {target}" COMMAND_ERROR_IS_FATAL ANY)'
    assert configured(inside, project, cmake)
    assert not target.exists()


CONSTRUCTOR = """
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
__attribute__((constructor)) static void hostile(void) {
  char text[200] = "";
  FILE *secret = fopen(getenv("SECRET_FILE"), "r");
  if (secret && fgets(text, sizeof text, secret)) printf("gained: %s\\n", text);
  else printf("refused: nothing there\\n");
  FILE *planted = fopen(getenv("PLANTED"), "w");
  printf(planted ? "gained: wrote\\n" : "refused: not written\\n");
  fflush(stdout);
}
"""


@pytest.fixture
def library(inside: Confinement, c_compiler: Path) -> Path:
    """A library whose constructor attacks."""
    folder = inside.base / "venv"
    folder.mkdir()
    (folder / "hostile.c").write_text(CONSTRUCTOR)
    subprocess.run([c_compiler, "-shared", "-fPIC", folder / "hostile.c", "-o", folder / "_C.abi3.so"], check=True)
    return folder / "_C.abi3.so"


def environ_of(outside: World) -> dict[str, str]:
    return {"SECRET_FILE": f"{outside.base}/home/.netrc", "PLANTED": f"{outside.base}/home/planted", "PATH": os.defpath}


TORCH = """
__version__ = "0"
class _C:
    _dispatch_get_all_op_names = staticmethod(list)
class ops:
    import ctypes
    load_library = ctypes.CDLL
"""


def test_23_a_constructor_in_the_install_check(inside: Confinement, outside: World, library: Path) -> None:
    (library.parent / "torch.py").write_text(TORCH)
    log = inside.base / "install-check.log"

    def confine(argv: list[str | Path], env: dict[str, str]) -> object:
        step = load(PYTHON, [library.parent], PROBES, inside.base / "check")
        return Sandbox(inside.mechanism).confine(step, argv, env, inside.base / "plans")

    hostile: Confine = confine  # type: ignore[assignment]
    env = environ_of(outside) | {"PYTHONPATH": str(library.parent)}
    with Loader(lambda: PYTHON, inside.base / "check", log, env, hostile) as loader:
        loader.load([Module("library", library)])
    words = log.read_text()
    assert words.count("refused: ") == 2
    assert "gained" not in words


def test_24_a_constructor_in_parity(inside: Confinement, outside: World, library: Path) -> None:
    (inside.base / "parity").mkdir()
    step = parity(PYTHON, [library.parent], library.parent, inside.base / "parity")
    code = f"import ctypes; ctypes.CDLL({str(library)!r})"
    confined = Sandbox(inside.mechanism).confine(step, [PYTHON, "-c", code], environ_of(outside), inside.base / "plans")
    done = subprocess.run(confined.argv, env=confined.env, capture_output=True, text=True, check=True)
    assert done.stdout.count("refused: ") == 2
    assert "gained" not in done.stdout


def test_25_setuid_programs_in_the_wheel(inside: Confinement, tmp_path: Path) -> None:
    """They become plain ones: in the answers of setup.py, and in a wheel."""
    raw = tmp_path / "raw" / "a-1-py3-none-any.whl"
    raw.parent.mkdir()
    with zipfile.ZipFile(raw, "w") as archive:
        entry = zipfile.ZipInfo("a/tool")
        entry.external_attr = 0o104755 << 16
        archive.writestr(entry, "")
        archive.writestr("a-1.dist-info/METADATA", "Metadata-Version: 2.1\nName: a\nVersion: 1\n")
        archive.writestr("a-1.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr("a-1.dist-info/RECORD", "")
    (tmp_path / "out").mkdir()
    canonicalize(raw, tmp_path / "out" / raw.name, epoch=1_700_000_000)
    with zipfile.ZipFile(tmp_path / "out" / raw.name) as archive:
        assert {info.external_attr >> 16 & 0o7000 for info in archive.infolist()} == {0}
    script = "touch tool; chmod 4755 tool; ls -l tool"
    assert inside.run(["/bin/sh", "-c", script]).output.startswith("-rws"), "its own folder is its own"
    refused(inside, "privileges")


def test_26_what_shadows_programs_and_modules_of_the_build(inside: Confinement) -> None:
    """No command replaces an interpreter, and a step's helpers import nothing of its working folder."""
    faults = program_faults("[console_scripts]\npython = vllm:hostile\n", frozenset({"vllm"}))
    assert list(faults) == ["entry_points.txt installs the program python"]
    inside.step()
    for name in ("json", "os", "ctypes", "base64", "resource"):
        (inside.work / f"{name}.py").write_text("raise SystemExit('shadowed')\n")
    done = inside.run(["/bin/sh", "-c", "echo ran"])
    assert (done.status, done.output) == (0, "ran")


def test_27_a_new_dependency(inside: Confinement) -> None:
    """Nothing can be installed by the way: there is no network and no cache of the user's."""
    done = inside.run([PYTHON, "-m", "pip", "download", "six"])
    assert done.status != 0
    assert "Successfully" not in done.output


def test_28_keys_mounts_and_namespaces(inside: Confinement) -> None:
    for attack in ("keyring", "mount", "namespace"):
        refused(inside, attack)


def test_29_processes_left_behind(inside: Confinement) -> None:
    script = "(setsid sh -c 'sleep 0.5; echo late > late' &) ; sleep 0.1"
    assert inside.run(["/bin/sh", "-c", script]).status == 0
    time.sleep(1)
    assert not (inside.work / "late").exists()


def test_30_what_a_library_leaves_as_its_answer(inside: Confinement, outside: World) -> None:
    """The check reads it outside of the sandbox."""
    (inside.base / "venv").mkdir()
    work = inside.base / "check"
    work.mkdir()

    def run(_: list[str | Path], env: dict[str, str]) -> object:
        code = (
            "import json, os, sys\n"
            "kind, path, answer, words = json.loads(sys.stdin.readline())\n"
            f"os.symlink({str(outside.base / 'home/.netrc')!r}, words)\n"
            "print(json.dumps([path, 0]))"
        )
        step = load(PYTHON, [], PROBES, work)
        return Sandbox(inside.mechanism).confine(step, [PYTHON, "-c", code], env, inside.base / "plans")

    hostile: Confine = run  # type: ignore[assignment]
    log = inside.base / "log"
    with (
        Loader(lambda: PYTHON, work, log, None, hostile) as loader,
        pytest.raises(InstallCheckError, match="left something that is not read"),
    ):
        loader.load([Module("library", inside.base / "venv" / "_C.abi3.so")])
    assert SECRET not in log.read_text()


TIMER = """
import ctypes, json, os, sys
os.dup2(1, 3)
os.dup2(2, 1)  # what the library prints is no answer
ctypes.CDLL(sys.argv[1])
print(json.dumps({"operators": [], "cases": []}), file=os.fdopen(3, "w"), flush=True)
sys.stdin.read()
"""


def test_31_a_constructor_in_a_comparison_of_speed(inside: Confinement, outside: World, library: Path) -> None:
    script, own = library.parent / "timer.py", inside.base / "temporary"
    script.write_text(TIMER)
    own.mkdir()

    def confine(argv: Sequence[str | Path], env: Mapping[str, str]) -> Confined:
        step = timing(PYTHON, [library.parent], library.parent, own)
        return Sandbox(inside.mechanism).confine(step, argv, env, inside.base / "plans")

    log = inside.base / "log"
    with Worker("a.whl", PYTHON, script, library, 1, log, environ_of(outside), confine) as worker:
        worker.ready()
    words = log.read_text()
    assert words.count("refused: ") == 2
    assert "gained" not in words


@pytest.fixture
def judged(
    inside: Confinement, outside: World, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str], tuple[Judgement, str]]:
    """Let a bisection's command judge a commit, started by somebody with a home folder and credentials."""
    project, probe = outside.base.parent / "project", inside.base / "probe"
    project.mkdir()
    (project / "own.txt").write_text("the user's own\n")
    monkeypatch.setenv("HOME", str(outside.base / "home"))
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setattr(prepare, "_mechanism", lambda _: inside.mechanism)
    context = build_context(inside.base)

    def install(wheel: Path, folder: Path, _: Reporter) -> Installed:
        folder.mkdir(parents=True)
        places = UserPlaces(project, readable=(HOSTILE,))
        return Installed(PYTHON, {}, places.confine(context, PYTHON, [folder, wheel], probe / "temporary"))

    def judged(line: str) -> tuple[Judgement, str]:
        shutil.rmtree(probe, ignore_errors=True)
        wheel = inside.base / "a.whl"
        wheel.touch()
        asks = CommandPredicate(line, 60, install, command_environment(os.environ), project)
        found = asks(wheel, "c" * 40, probe, context.reporter)
        said = (probe / "command.log").read_text().partition("\n")[2]
        assert [path.name for path in project.iterdir()] == ["own.txt"]
        return found, said

    return judged


@pytest.mark.parametrize(
    "attack",
    [
        pytest.param("read {home}/.aws/credentials", id="32-a-command-reads-credentials"),
        pytest.param("read {home}/.ssh/id_ed25519", id="33-a-command-reads-keys"),
        pytest.param(f"environs {SECRET}", id="34-a-command-reads-environments-of-ancestors"),
        pytest.param("tcp 127.0.0.1 {port}", id="35-a-command-reaches-this-machine"),
        pytest.param("tcp 1.1.1.1 443", id="36-a-command-reaches-the-network"),
        pytest.param("write {home}/.bashrc", id="37-a-command-writes-the-home-folder"),
        pytest.param("write {home}/../../project/planted", id="38-a-command-writes-the-working-folder"),
        pytest.param("kill {victim}", id="39-a-command-kills"),
    ],
)
def test_a_bisection(judged: Callable[[str], tuple[Judgement, str]], outside: World, attack: str) -> None:
    line = attack.format(home=outside.base / "home", port=outside.port, victim=outside.victim.pid)
    found, said = judged(f'"$CPUWHEELS_PYTHON" {HOSTILE} {line}')
    assert REFUSED in said, said
    assert "gained" not in said
    assert SECRET not in said.replace(line, "")
    assert found.verdict is not Verdict.SKIP


def test_40_a_command_has_what_it_needs(judged: Callable[[str], tuple[Judgement, str]]) -> None:
    """Its working folder, a home folder and temporary files of its own, and servers on its own loopback."""
    serve = (
        "import socket; s = socket.create_server(('localhost', 0)); c = socket.create_connection(s.getsockname()); "
        "print('served')"
    )
    line = f'cat own.txt && touch "$HOME/a" "$TMPDIR/b" && "$CPUWHEELS_PYTHON" -c "{serve}"'
    found, said = judged(line)
    assert found == Judgement(Verdict.GOOD, "exit status 0: served"), said
    assert judged("exit 125")[0].verdict is Verdict.SKIP
    assert judged("exit 9")[0].verdict is Verdict.BAD
    with pytest.raises(BisectError, match="SIGSEGV, which is no verdict"):
        judged("kill -SEGV $$")
