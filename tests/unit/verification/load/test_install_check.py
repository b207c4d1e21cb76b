from __future__ import annotations

import json
import re
import sys
from typing import TYPE_CHECKING

import pytest

import wheel_writer as ww
from cpuwheels.core.errors import InstallCheckError
from cpuwheels.core.process import Completed
from cpuwheels.verification.load.install_check import InstallCheck, check_install, describe_end
from cpuwheels.verification.load.loader import Loader

if TYPE_CHECKING:
    from pathlib import Path

# Stands in for the environment's interpreter: says where packages are, and plays the probe from a file of
# answers; uv asks a real interpreter, so uv is played as well.
FAKE_PYTHON = """\
#!/bin/sh
if [ "$1" = -I ]; then
    echo '["{version}", "{platlib}"]'
    exit 0
fi
exec "{real}" "{platlib}/probe.py" "{platlib}/answers"
"""
# Plays the probe: a script for each module says how loading it goes.
FAKE_PROBE = """\
import json, os, subprocess, sys

for line in sys.stdin:
    kind, path, answer, words = json.loads(line)
    script = os.path.join(sys.argv[1], os.path.basename(path).removesuffix(".abi3.so"))
    with open(words, "w") as stream:
        done = subprocess.run(["sh", script, answer], stdout=stream, stderr=stream)
    print(json.dumps([path, done.returncode]), flush=True)
"""
OPERATORS = '{"ns::b": "ns::b() -> ()", "ns::a": "ns::a() -> ()"}'
GOOD = f"""echo '{{"torch": "2.0+cpu", "operators": {OPERATORS}}}' > "$1" """
NONE = """echo '{"torch": "2.0+cpu", "operators": {}}' > "$1" """


class Scene:
    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.announced: list[str] = []
        self.answers = folder / "platlib/answers"
        self.answers.mkdir(parents=True)
        (folder / "platlib/demo").mkdir()
        self.python("1.0+cpu")
        (folder / "platlib/probe.py").write_text(FAKE_PROBE)
        self.uv("exit 0")
        monkeypatch.setattr("cpuwheels.fetch.uv.uv.find_uv_bin", lambda: str(folder / "uv"))

    def python(self, version: str) -> None:
        self._script(
            "python", FAKE_PYTHON.format(version=version, platlib=self.folder / "platlib", real=sys.executable)
        )

    def uv(self, script: str) -> None:
        self._script("uv", f'#!/bin/sh\necho "$@" > "{self.folder}/uv-args"\n{script}\n')

    def module(self, name: str, answer: str) -> None:
        (self.folder / f"platlib/demo/{name}.abi3.so").write_bytes(b"")
        (self.answers / name).write_text(answer + "\n")

    def check(self, libraries: dict[str, list[str]], modules: list[str] | None = None) -> InstallCheck:
        with Loader(lambda: self.folder / "python", self.folder / "work", self.folder / "log") as loader:
            return check_install(
                self.folder / ww.NAME,
                loader=loader,
                libraries=libraries,
                modules=modules or [],
                features={"avx2"},
                manifest=self.folder / "dist/operators.json",
                log=self.folder / "log",
                announce=self.announced.append,
                package="demo",
            )

    def _script(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text)
        (self.folder / name).chmod(0o755)


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scene:
    return Scene(tmp_path, monkeypatch)


def test_libraries_and_other_modules_are_loaded_and_written_down(scene: Scene) -> None:
    scene.module("_C", GOOD)
    scene.module("spinloop", NONE)
    scene.module("extra", NONE)
    check = scene.check({"_C": ["avx2"]}, ["spinloop"])
    assert [operator.name for operator in check.libraries[0].operators] == ["ns::a", "ns::b"]
    assert [module.name for module in check.modules] == ["extra", "spinloop"]
    assert check.torch == "2.0+cpu"
    manifest = json.loads(check.manifest.read_text())
    assert manifest["libraries"][0]["operators"][0] == {"name": "ns::a", "schema": "ns::a() -> ()"}
    assert "manifest" not in manifest
    assert "--offline --no-deps" in (scene.folder / "uv-args").read_text()


def test_a_library_for_another_cpu_is_announced_and_left_out(scene: Scene) -> None:
    scene.module("_C", "kill -ILL $$")
    scene.module("_C_AVX2", GOOD)
    check = scene.check({"_C": ["avx2", "amx_tile"], "_C_AVX2": ["avx2"]})
    assert check.libraries[0].not_loaded == "this CPU lacks amx_tile"
    assert scene.announced == ["_C was not loaded: this CPU lacks amx_tile; its operators are not in the manifest"]


@pytest.mark.parametrize(
    ("answer", "message", "step"),
    [
        (NONE, "_C loads but registers no operator", "link command"),
        ("echo undefined symbol: xyz; exit 1", "_C does not load: its process ended with status 1", "link line"),
        ("kill -ILL $$", "_C does not load: its process was ended by SIGILL", "'needs' of the library"),
        ("exit 0", "_C does not load: its process ended with status 0", "in the log"),
    ],
)
def test_a_library_that_fails_is_named(scene: Scene, answer: str, message: str, step: str) -> None:
    scene.module("_C", answer)
    with pytest.raises(InstallCheckError, match=message) as caught:
        scene.check({"_C": []})
    assert "undefined symbol: xyz" in caught.value.output or "undefined" not in answer
    assert step in caught.value.next_step
    assert not (scene.folder / "dist/operators.json").exists()


def test_a_missing_library_or_module_is_named(scene: Scene) -> None:
    scene.module("_C", GOOD)
    with pytest.raises(InstallCheckError, match=r"no demo/_C_AVX2\.abi3\.so"):
        scene.check({"_C": [], "_C_AVX2": []})
    with pytest.raises(InstallCheckError, match=r"no demo/spinloop\.abi3\.so"):
        scene.check({"_C": []}, ["spinloop"])


@pytest.mark.parametrize("version", ["1.1", "1.0", "1.0+gpu"])
def test_another_version_inside_is_refused(scene: Scene, version: str) -> None:
    scene.module("_C", GOOD)
    scene.python(version)
    words = f"says version {re.escape(version)}, the file name 1\\.0\\+cpu"
    with pytest.raises(InstallCheckError, match=words) as caught:
        scene.check({"_C": []})
    assert "build it again" in caught.value.next_step


def test_a_package_that_is_not_there_afterwards_is_told(scene: Scene) -> None:
    scene._script("python", "#!/bin/sh\necho PackageNotFoundError: demo >&2\nexit 1\n")
    with pytest.raises(InstallCheckError, match="demo is not there after its installation") as caught:
        scene.check({"_C": []})
    assert "PackageNotFoundError" in caught.value.output
    assert "METADATA" in caught.value.next_step


def test_a_wheel_that_cannot_be_installed_is_reported_in_uvs_words(scene: Scene) -> None:
    scene.uv("echo this platform is not compatible; exit 2")
    with pytest.raises(InstallCheckError, match="cannot be installed") as caught:
        scene.check({"_C": []})
    assert "not compatible" in caught.value.output
    assert "uv's output" in caught.value.next_step


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (3, "its process ended with status 3"),
        (-4, "its process was ended by SIGILL (an instruction this CPU does not have)"),
        (-11, "its process was ended by SIGSEGV"),
        (-99, "its process was ended by signal 99"),
    ],
)
def test_ends_in_words(status: int, words: str) -> None:
    assert describe_end(Completed(status, "")) == words
