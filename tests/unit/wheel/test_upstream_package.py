from __future__ import annotations

import dataclasses
import os
import textwrap
from typing import TYPE_CHECKING

import pytest

from contexts import build_context
from cpuwheels.core.errors import WheelError
from cpuwheels.environment.sealed_env import Environment
from cpuwheels.wheel.upstream_package import UpstreamPackage, local_version, upstream_package

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from cpuwheels.core.store import Store

# Stands in for the build environment's interpreter: writes what the probe would write, and keeps what it was given.
FAKE_PYTHON = """\
#!/bin/sh
env | sort > "{seen}/env"
cp -r . "{seen}/source"
echo asked >> "{seen}/asked"
{fault}
info="$3/metadata/vllm-{version}.dist-info"
mkdir -p "$info/licenses" "$3/packages/vllm"
printf 'Metadata-Version: 2.4\\nName: vllm\\nVersion: {version}\\n' > "$info/METADATA"
cp vllm/__init__.py "$3/packages/vllm/__init__.py"
echo made > "$3/packages/vllm/_version.py"
cat > "$3/metadata.json" <<END
{{"read": ["setup.py", "absent"], "written": [], "copied": {{}}, "against": [{against}]}}
END
cat > "$3/packages.json" <<END
{{"read": ["setup.py"], "written": ["$PWD/vllm/_version.py"], "against": [],
"copied": {{"$3/packages/vllm/__init__.py": "$PWD/vllm/__init__.py",
"$3/packages/vllm/_version.py": "$PWD/vllm/_version.py"}}}}
END
"""


def fake_python(folder: Path, *, version: str = "0.32.0+cpu", fault: str = ":", against: str = "") -> Environment:
    seen = folder / "seen"
    seen.mkdir()
    python = folder / "bin" / "python"
    python.parent.mkdir()
    script = textwrap.dedent(FAKE_PYTHON).format(seen=seen, version=version, fault=fault, against=against)
    python.write_text(script)
    python.chmod(0o755)
    return Environment(
        python=python,
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


def source_tree(folder: Path) -> Path:
    source = folder / "source"
    for name in (
        "setup.py",
        "vllm/__init__.py",
        "vllm/data.json",
        "vllm/_C.abi3.so",
        "vllm/__pycache__/a.pyc",
        ".git/HEAD",
    ):
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_text("")
    (source / "pyproject.toml").write_text('[project]\nname = "vllm"\n')
    return source


@pytest.mark.parametrize(
    ("version", "local"), [("0.32.0", "0.32.0+cpu"), ("0.32.1.dev5+gabc.dirty", "0.32.1.dev5+gabc.dirty.cpu")]
)
def test_the_label_follows_a_local_part(version: str, local: str) -> None:
    assert local_version(version, "cpu") == local


class Scene:
    def __init__(self, folder: Path, store: Store) -> None:
        self.folder = folder
        self.store = store
        self.source = source_tree(folder)
        (folder / "logs").mkdir()

    def ask(self, environment: Environment, version: str = "0.32.0") -> UpstreamPackage:
        context = build_context(self.folder, store=self.store, logs=self.folder / "logs")
        return upstream_package(
            context, self.source, version=version, environment=environment, work=self.folder / "work"
        )

    def asked(self) -> int:
        return len((self.folder / "seen/asked").read_text().splitlines())


@pytest.fixture
def scene(tmp_path: Path, store: Store) -> Scene:
    return Scene(tmp_path, store)


def test_the_source_is_asked_in_a_private_copy_and_a_closed_environment(
    scene: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VLLM_USE_PRECOMPILED", "1")
    package = scene.ask(fake_python(tmp_path))
    assert package.project.version == "0.32.0+cpu"
    assert package.files["vllm/_version.py"].read_text() == "made\n"
    seen = (tmp_path / "seen/env").read_text()
    assert "VLLM_TARGET_DEVICE=cpu" in seen
    assert "SETUPTOOLS_SCM_PRETEND_VERSION=0.32.0\n" in seen
    assert "VLLM_USE_PRECOMPILED" not in seen
    assert not (scene.source / "vllm.egg-info").exists()
    copied = tmp_path / "seen/source"
    assert not (copied / ".git").exists()
    # What an sdist would list; a built module that lies in the tree is none of it.
    assert (copied / "vllm.egg-info/SOURCES.txt").read_text().split() == [
        "pyproject.toml",
        "setup.py",
        "vllm/__init__.py",
        "vllm/data.json",
    ]


def test_an_sdists_own_list_is_kept(scene: Scene, tmp_path: Path) -> None:
    (scene.source / "vllm.egg-info").mkdir()
    (scene.source / "vllm.egg-info/SOURCES.txt").write_text("own\n")
    scene.ask(fake_python(tmp_path))
    assert (tmp_path / "seen/source/vllm.egg-info/SOURCES.txt").read_text() == "own\n"


def test_another_content_of_what_is_only_copied_is_not_asked_for_again(scene: Scene, tmp_path: Path) -> None:
    environment = fake_python(tmp_path)
    first = scene.ask(environment)
    (scene.source / "vllm/__init__.py").write_text("new\n")
    second = scene.ask(environment)
    assert scene.asked() == 1
    assert "setup.py would say" in (tmp_path / "logs" / "metadata.log").read_text()
    assert second.project == first.project
    assert {name: path.read_text() for name, path in second.files.items()} == {
        "vllm/__init__.py": "new\n",
        "vllm/_version.py": "made\n",
    }


def more(scene: Scene) -> None:
    (scene.source / "vllm/more.py").write_text("")


def fewer(scene: Scene) -> None:
    (scene.source / "vllm/data.json").unlink()


def read(scene: Scene) -> None:
    (scene.source / "setup.py").write_text("other")


def appeared(scene: Scene) -> None:
    (scene.source / "absent").write_text("")


def executable(scene: Scene) -> None:
    (scene.source / "vllm/__init__.py").chmod(0o755)


def a_link(scene: Scene) -> None:
    (scene.source / "vllm/data.json").unlink()
    (scene.source / "vllm/data.json").symlink_to("__init__.py")


def damage(scene: Scene) -> None:
    (path,) = scene.store.root.glob("packages/*/own/vllm/_version.py")
    path.write_text("damaged")


@pytest.mark.parametrize("change", [more, fewer, read, appeared, executable, a_link, damage])
def test_anything_else_is_asked_for_again(scene: Scene, tmp_path: Path, change: Callable[[Scene], None]) -> None:
    environment = fake_python(tmp_path)
    scene.ask(environment)
    change(scene)
    scene.ask(environment)
    assert scene.asked() == 2


def test_another_environment_or_version_is_asked_again(scene: Scene, tmp_path: Path) -> None:
    environment = fake_python(tmp_path)
    scene.ask(environment)
    scene.ask(dataclasses.replace(environment, tools={"setuptools": "79"}))
    scene.ask(dataclasses.replace(environment, torch_digest="other"))
    with pytest.raises(WheelError, match=r"expected 0\.33\.0"):
        scene.ask(environment, "0.33.0")
    assert scene.asked() == 4


def test_a_module_that_is_executable_in_the_source_only_is_not_so_in_the_wheel(scene: Scene, tmp_path: Path) -> None:
    (scene.source / "vllm/__init__.py").chmod(0o755)
    environment = fake_python(tmp_path, fault='chmod 644 vllm/__init__.py; cp() { command cp "$@"; }')
    for _ in range(2):
        files = scene.ask(environment).files
        assert not os.access(files["vllm/__init__.py"], os.X_OK)
    assert scene.asked() == 1
    assert os.access(scene.source / "vllm/__init__.py", os.X_OK)


def test_answers_with_something_against_them_are_not_kept(scene: Scene, tmp_path: Path) -> None:
    environment = fake_python(tmp_path, against='"it starts cargo"')
    for _ in range(2):
        scene.ask(environment)
    assert scene.asked() == 3  # the first time with less than the whole source, too
    assert "the answers were not kept: it starts cargo" in (tmp_path / "logs" / "metadata.log").read_text()


def test_another_version_is_refused(scene: Scene, tmp_path: Path) -> None:
    with pytest.raises(WheelError, match=r"gives version 0\.32\.0, expected 0\.32\.0\+cpu"):
        scene.ask(fake_python(tmp_path, version="0.32.0"))


def test_a_failing_setup_is_told_in_its_own_words(scene: Scene, tmp_path: Path) -> None:
    with pytest.raises(WheelError) as caught:
        scene.ask(fake_python(tmp_path, fault="echo no module named torch; exit 3"))
    assert "no module named torch" in caught.value.output
    assert caught.value.log == tmp_path / "logs" / "metadata.log"
