"""A hostile setup.py, asked by the real probe with a real setuptools: it gains nothing beyond its own wheel."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from contexts import build_context
from cpuwheels.core.digests import tree_names
from cpuwheels.core.errors import WheelError
from cpuwheels.environment.sealed_env import Environment
from cpuwheels.sandbox.confine import Confined
from cpuwheels.wheel.setup_py_run import Asked, ask_setup_py
from cpuwheels.wheel.upstream_package import UpstreamPackage, upstream_package

if TYPE_CHECKING:
    from cpuwheels.core.store import Store

SETUP = """\
import os, sys
{before}
from setuptools import setup
setup(
    name="vllm",
    version=os.environ["SETUPTOOLS_SCM_PRETEND_VERSION"] + "+cpu",
    packages=["vllm"],
    package_data={{"vllm": ["*.json"]}},
    {more}
)
"""
FILES = {
    "vllm/__init__.py": "good = 1\n",
    "vllm/envs.py": "",
    "vllm/data.json": "{}",
    "tests/test_it.py": "def test(): pass\n",
    "tools/deep/other.py": "value = 'tools'\n",
    "pyproject.toml": '[project]\nname = "vllm"\ndynamic = ["version"]\n',
}
# The process rewrites its own notes when it ends: the finding this was made for.
FORGED = """\
import atexit, glob, json
def forge():
    for folder in glob.glob(os.getcwd() + "/../answers"):
        for name in ("metadata", "packages"):
            with open(f"{{folder}}/{{name}}.json", "w") as stream:
                json.dump({{"read": [], "written": [], "copied": {{}}, "against": []}}, stream)
        os.makedirs(f"{{folder}}/packages/vllm", exist_ok=True)
        with open(f"{{folder}}/packages/vllm/evil.py", "w") as stream:
            stream.write("evil = 1")
atexit.register(forge)
"""


class Scene:
    def __init__(self, folder: Path, store: Store) -> None:
        self.folder, self.store = folder, store
        self.environment = Environment(
            python=Path(sys.executable),
            python_version="3.11",
            site_packages=folder / "site",
            torch_version="2.13.0+cpu",
            torch_digest="digest",
            torch_from="nowhere",
            torch_pinned=True,
            torch_alternate=False,
            torch_folder=folder / "site" / "torch",
            tools={"setuptools": "78"},
        )
        self._number = 0
        (folder / "logs").mkdir()

    def source(self, before: str = "", more: str = "", **files: str) -> Path:
        """Return a new commit."""
        self._number += 1
        source = self.folder / f"commit{self._number}"
        texts = FILES | {"setup.py": SETUP.format(before=before, more=more)}
        texts |= {name.replace("__dot__", ".").replace("__slash__", "/"): text for name, text in files.items()}
        for name, text in texts.items():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            (source / name).write_text(text)
        return source

    def ask(self, source: Path) -> UpstreamPackage:
        context = build_context(self.folder, store=self.store, logs=self.folder / "logs")
        return upstream_package(
            context, source, version="0.32.0", environment=self.environment, work=self.folder / "work"
        )

    def texts(self, source: Path) -> dict[str, str]:
        return {name: path.read_text() for name, path in self.ask(source).files.items()}

    @property
    def log(self) -> str:
        return (self.folder / "logs/metadata.log").read_text()


@pytest.fixture
def scene(tmp_path: Path, store: Store) -> Scene:
    return Scene(tmp_path, store)


CLEAN = {"vllm/__init__.py": "good = 1\n", "vllm/data.json": "{}", "vllm/envs.py": ""}


def test_an_honest_source_is_asked_once_for_all_commits_to_python_files(scene: Scene) -> None:
    assert scene.texts(scene.source()) == CLEAN
    assert scene.log.count("the answers were kept") == 1
    other = scene.source(vllm__slash____init____dot__py="other = 1\n", tests__slash__test_it__dot__py="")
    assert scene.texts(other) == CLEAN | {"vllm/__init__.py": "other = 1\n"}
    assert scene.log.count("the answers were kept") == 1


def test_forged_notes_change_nothing_for_the_next_commit(scene: Scene) -> None:
    evil = scene.texts(scene.source(before=FORGED.format()))
    assert "vllm/evil.py" in evil
    assert scene.texts(scene.source()) == CLEAN


@pytest.mark.parametrize(
    ("name", "text"), [("vllm__slash__evil__dot__py", ""), ("tools__slash__build_rust__dot__py", "evil")]
)
def test_an_evil_file_next_to_an_honest_setup_is_in_its_key(scene: Scene, name: str, text: str) -> None:
    before = "exec(open('tools/build_rust.py').read()) if os.path.exists('tools/build_rust.py') else None"
    scene.ask(scene.source(before, **{name: f"{text} = 1"}))
    assert scene.texts(scene.source(before)) == CLEAN


# An honest setup.py reads a file that the rule does not show; what it does then depends on its content.
READS = "_text = open('tools/deep/other.py').read()\nopen('vllm/made.py', 'w').write(_text)"


def test_what_is_read_beyond_the_rule_is_shown_the_second_time(scene: Scene) -> None:
    assert scene.texts(scene.source(READS))["vllm/made.py"] == "value = 'tools'\n"
    assert "has to be shown the whole source: it uses tools/deep/other.py" in scene.log
    changed = scene.source(READS, tools__slash__deep__slash__other__dot__py="value = 'new'\n")
    assert scene.texts(changed)["vllm/made.py"] == "value = 'new'\n"
    # Once it is known, it is not asked with less again.
    assert scene.log.count("has to be shown") == 1
    assert scene.texts(changed)["vllm/made.py"] == "value = 'new'\n"
    assert scene.log.count("the answers were kept") == 2


IMPORTS = "import runpy; _value = runpy.run_path('tools/deep/other.py')['value']"


def test_a_setup_that_fails_with_less_is_shown_everything(scene: Scene) -> None:
    assert scene.texts(scene.source(IMPORTS)) == CLEAN
    assert "does not give its metadata" in scene.log
    assert scene.log.count("the answers were kept") == 1


OVERWRITES = "open('vllm/data.json', 'w').write('')"
MOVES = """\
from setuptools.command import build_py
class Command(build_py.build_py):
    def run(self):
        super().run()
        self.copy_file('vllm/data.json', f'{self.build_lib}/vllm/second.json')
"""


def test_an_emptied_file_that_is_written_or_copied_elsewhere_is_shown(scene: Scene) -> None:
    assert scene.texts(scene.source(OVERWRITES))["vllm/data.json"] == ""
    assert scene.texts(scene.source(MOVES, 'cmdclass={"build_py": Command},'))["vllm/second.json"] == "{}"


# Stands in for the interpreter with the probe: honest answers, and then an attack on them.
FAKE = """\
#!{python} -IS
import os, shutil, sys
answers = sys.argv[3]
packages, notes = f"{{answers}}/packages", f"{{answers}}/metadata.json"
os.makedirs(f"{{packages}}/vllm")
os.makedirs(f"{{answers}}/metadata/vllm-0.32.0.dist-info")
open(f"{{packages}}/vllm/__init__.py", "w").close()
open(f"{{answers}}/metadata/vllm-0.32.0.dist-info/METADATA", "w").write("Name: vllm")
for name in ("metadata", "packages"):
    open(f"{{answers}}/{{name}}.json", "w").write('{{"read": [], "written": [], "copied": {{}}, "against": []}}')
{step}
"""
LEFT = {
    "link": ("os.symlink('/etc/passwd', packages + '/vllm/x.py')", "vllm/x.py is a symbolic link"),
    "linked folder": ("os.symlink('/etc', packages + '/vllm/etc')", "vllm/etc is a symbolic link"),
    "linked metadata": ("os.symlink('/etc', answers + '/metadata/x.dist-info')", "x.dist-info is a symbolic link"),
    "pipe": ("os.mkfifo(packages + '/vllm/pipe')", "vllm/pipe is a pipe"),
    "escape": ("open(packages + '/vllm/\\x1b[2J', 'w')", "no plain name"),
    "sparse": ("open(packages + '/vllm/big', 'w').truncate(1 << 41)", "vllm/big is larger"),
    "dist-info": (
        "os.makedirs(packages + '/a.dist-info'); open(packages + '/a.dist-info/RECORD', 'w')",
        "a.dist-info/RECORD is a package file where a wheel",
    ),
    "data": (
        "os.makedirs(packages + '/a.data/scripts'); open(packages + '/a.data/scripts/python', 'w')",
        "a.data/scripts/python is a package file",
    ),
    "linked notes": ("os.unlink(notes); os.symlink('/dev/zero', notes)", "metadata.json cannot be opened as a file"),
    "typed notes": ("open(notes, 'w').write('{\"read\": 3}')", r"metadata.json: \('read',\)"),
    "notes with an escape": ("open(notes, 'w').write('{\"\\\\u001b[2J\": 3}')", "metadata.json: "),
    "deep notes": ("open(notes, 'w').write('[' * 100000)", "metadata.json: "),
    "endless notes": ("open(notes, 'w').truncate(1 << 41)", "metadata.json is larger"),
    "no notes": ("os.unlink(notes)", "metadata.json cannot be opened"),
    "linked packages": (
        "shutil.rmtree(packages); os.symlink('/etc', packages)",
        "packages cannot be opened as a folder",
    ),
    "no answers": ("shutil.rmtree(answers)", "metadata cannot be opened as a folder"),
}


@pytest.mark.parametrize(("step", "words"), [("", ""), *LEFT.values()], ids=["nothing", *LEFT])
def test_what_it_leaves_is_taken_over_as_plain_files_or_refused(tmp_path: Path, step: str, words: str) -> None:
    python, copy, work = tmp_path / "python", tmp_path / "copy", tmp_path / "work"
    python.write_text(FAKE.format(python=Path(sys.executable).resolve(), step=step))
    python.chmod(0o755)
    copy.mkdir()

    def ask() -> Asked:
        source, log = Path("/source"), tmp_path / "log"
        return ask_setup_py(
            copy, work, python=python, confine=lambda argv, _: Confined(list(argv), {}), source=source, log=log
        )

    if not words:
        asked = ask()
        assert asked.packages == ("vllm/__init__.py",)
        assert tree_names(asked.metadata) == ["vllm-0.32.0.dist-info/METADATA"]
        return
    with pytest.raises(WheelError, match=words) as caught:
        ask()
    assert str(caught.value.where) == "/source/setup.py"
    assert "\x1b" not in caught.value.what


def test_a_refused_answer_is_not_kept(scene: Scene) -> None:
    link = "import atexit; atexit.register(lambda: os.symlink('/etc/passwd', os.getcwd() + '/../answers/metadata/x'))"
    with pytest.raises(WheelError, match="x is a symbolic link"):
        scene.ask(scene.source(link))
    assert not list(scene.store.root.glob("packages/*/own"))


def test_a_source_that_is_changed_while_it_is_asked_is_in_no_key(scene: Scene) -> None:
    clean = scene.source()
    sealed = scene.folder / "commit2"
    evil = (
        f"_own, _good = {str(sealed / 'setup.py')!r}, {str(clean / 'setup.py')!r}\n"
        "open(_own, 'w').write(open(_good).read())\nopen('vllm/evil.py', 'w').write('evil')"
    )
    assert scene.source(evil) == sealed
    with pytest.raises(WheelError, match=r"was changed while its setup\.py ran"):
        scene.ask(sealed)
    assert scene.texts(clean) == CLEAN


def test_the_copy_cannot_damage_the_source(scene: Scene) -> None:
    damage = "[open(os.path.join(f, n), 'w').write('damaged') for f, _, ns in os.walk('vllm') for n in ns]"
    source = scene.source(damage)
    before = {path: path.read_bytes() for path in source.rglob("*") if path.is_file()}
    scene.ask(source)
    assert {path: path.read_bytes() for path in source.rglob("*") if path.is_file()} == before
    assert (source / "vllm/data.json").stat().st_nlink == 1
