"""Compiling the native helpers into the store, finding them, and reading isaprobe's answer."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from cpuwheels.config.context import BuildContext
from cpuwheels.core.errors import CommandError, ToolchainError
from cpuwheels.core.store import Store
from cpuwheels.toolchain.amx import Amx, Palette
from cpuwheels.toolchain.native_helpers import CpuFeatures, cpu_at_hand, features_here, find_helper, native_tools, probe


def fake(path: Path, script: str) -> Path:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def test_compiled_once_and_they_run(context: BuildContext, c_compiler, store, logs):
    tools = native_tools(context, c_compiler, [], "one")
    assert probe(tools.isaprobe).architecture == os.uname().machine
    log = (logs / "native.log").read_text()
    again = native_tools(context, Path("/nonexistent/cc"), [], "one")
    assert again == tools
    assert (logs / "native.log").read_text() == log
    assert find_helper("isaprobe", store) is not None


def test_another_compiler_makes_others(context: BuildContext, c_compiler):
    one = native_tools(context, c_compiler, [], "one")
    two = native_tools(context, c_compiler, [], "two")
    assert one != two


def test_other_sources_make_others(context: BuildContext, c_compiler, tmp_path):
    one = native_tools(context, c_compiler, [], "one")
    changed = replace(context, paths=replace(context.paths, root=tmp_path / "changed"))
    shutil.copytree(context.root / "csrc", changed.root / "csrc")
    assert native_tools(changed, c_compiler, [], "one") == one
    source = changed.root / "csrc/memgate/main.c"
    source.write_text(source.read_text() + "\n")
    assert native_tools(changed, c_compiler, [], "one") != one


def test_without_static_libraries_they_are_linked_dynamically(context: BuildContext, c_compiler, tmp_path):
    picky = fake(tmp_path / "cc", f'case "$*" in *-static*) exit 1;; esac; exec {c_compiler} "$@"')
    tools = native_tools(context, picky, [], "picky")
    assert probe(tools.isaprobe).architecture


def test_compiler_that_fails(context: BuildContext, logs, tmp_path):
    broken = fake(tmp_path / "cc", "echo stdlib.h: no such file >&2; exit 1")
    with pytest.raises(ToolchainError) as fault:
        native_tools(context, broken, [], "broken")
    assert "stdlib.h: no such file" in str(fault.value)
    assert fault.value.log == logs / "native.log"


def test_compiler_for_another_machine(context: BuildContext, tmp_path):
    cross = fake(
        tmp_path / "cc", 'while [ "$1" != -o ]; do shift; done; printf "\\177ELF foreign" > "$2"; chmod +x "$2"'
    )
    with pytest.raises(ToolchainError, match="do not run on this machine"):
        native_tools(context, cross, [], "cross")


OLDER = '{"architecture": "x86_64", "vendor": "V", "model": "M", "features": ["avx2", "fma"], "xcr0": "0x7"}'
"""Without a field that has been added since."""

ANSWER = OLDER.replace("}", ', "amx": null}')
AMX_ANSWER = OLDER.replace("}", ', "amx": {"enabled": true, "permitted": false, "palette": null}}')
PALETTE_ANSWER = AMX_ANSWER.replace('"palette": null', '"palette": {"tiles": 8, "rows": 16, "bytes_per_row": 64}')


@pytest.mark.parametrize(
    ("answer", "amx"),
    [
        (ANSWER, None),
        (AMX_ANSWER, Amx(enabled=True, permitted=False, palette=None)),
        (PALETTE_ANSWER, Amx(enabled=True, permitted=False, palette=Palette(tiles=8, rows=16, bytes_per_row=64))),
    ],
)
def test_answer(tmp_path, answer, amx):
    program = fake(tmp_path / "isaprobe", f"echo '{answer}'")
    assert probe(program) == CpuFeatures(
        architecture="x86_64", vendor="V", model="M", features=frozenset({"avx2", "fma"}), xcr0="0x7", amx=amx
    )


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("exit 3", "status 3"),
        ("kill -ILL $$", "status -4"),
        ("echo nonsense", "no usable answer"),
        ('echo \'{"architecture": "x86_64"}\'', "no usable answer"),
        (f"echo '{OLDER}'", "no usable answer"),
    ],
)
def test_bad_answer(tmp_path, script, words):
    with pytest.raises(CommandError, match=words):
        probe(fake(tmp_path / "isaprobe", script))


@pytest.fixture
def nothing_installed(monkeypatch, tmp_path):
    monkeypatch.setattr(
        "cpuwheels.toolchain.native_helpers.__file__", str(tmp_path / "package" / "toolchain" / "native_helpers.py")
    )
    monkeypatch.setattr("importlib.metadata.distribution", _missing)


def _missing(name: str) -> None:
    raise PackageNotFoundError(name)


def stored(store: Store, key: str, script: str, age: int = 0) -> Path:
    """A helper that a build left in the store some seconds ago."""
    entry = store.root / "native" / key / "isaprobe"
    entry.parent.mkdir(parents=True)
    fake(entry, script)
    os.utime(entry, (1e9 - age, 1e9 - age))
    return entry


@pytest.mark.usefixtures("nothing_installed")
def test_nothing_to_find(store):
    assert find_helper("isaprobe", store) is None
    (store.root / "native" / "key" / "isaprobe").parent.mkdir(parents=True)
    assert find_helper("isaprobe", store) is None
    entry = stored(store, "another", "exit 0")
    assert find_helper("isaprobe", store) == entry


@pytest.mark.usefixtures("nothing_installed")
class TestProgramsOfOtherVersions:
    def test_none(self, store):
        assert cpu_at_hand(store) is None

    @pytest.mark.parametrize("script", [f"echo '{OLDER}'", "exit 3", "kill -ILL $$"])
    def test_the_first_that_can_tell_is_taken(self, store, tmp_path, script):
        package = tmp_path / "package" / "bin"
        package.mkdir(parents=True)
        fake(package / "isaprobe", script)
        stored(store, "newest", script)
        assert cpu_at_hand(store) is None
        # The newer one's name is neither the first nor the last.
        stored(store, "a", f"echo '{AMX_ANSWER}'", age=20)
        stored(store, "b", f"echo '{ANSWER}'", age=10)
        stored(store, "c", f"echo '{AMX_ANSWER}'", age=30)
        found = cpu_at_hand(store)
        assert found is not None
        assert found.amx is None

    def test_the_installed_one_comes_first(self, store, tmp_path):
        package = tmp_path / "package" / "bin"
        package.mkdir(parents=True)
        fake(package / "isaprobe", f"echo '{ANSWER}'")
        stored(store, "newest", f"echo '{AMX_ANSWER}'")
        found = cpu_at_hand(store)
        assert found is not None
        assert found.amx is None

    def test_linux_is_asked_instead(self, store, tmp_path):
        stored(store, "older", f"echo '{OLDER}'")
        (tmp_path / "cpuinfo").write_text("flags: avx2\n")
        assert features_here(store, tmp_path / "cpuinfo") == {"avx2"}


@pytest.mark.usefixtures("nothing_installed")
class TestFeaturesWithoutACompiler:
    @pytest.mark.parametrize("name", ["flags\t\t", "Features\t", "features  "])
    def test_linux_tells_them(self, store, tmp_path, name):
        cpuinfo = tmp_path / "cpuinfo"
        cpuinfo.write_text(
            f"processor\t: 0\nmodel name\t: a flags: b\n{name}: avx2 fma\n\nprocessor\t: 1\n{name}: avx2\n"
        )
        assert features_here(store, cpuinfo) == {"avx2", "fma"}

    def test_a_file_without_them(self, store, tmp_path):
        (tmp_path / "cpuinfo").write_text("processor\t: 0\n")
        assert features_here(store, tmp_path / "cpuinfo") == frozenset()

    def test_a_system_without_the_file(self, store, tmp_path):
        with pytest.raises(ToolchainError, match="nothing on this machine reports what this CPU has"):
            features_here(store, tmp_path / "gone")


@pytest.mark.usefixtures("nothing_installed")
def test_features_are_isaprobes_where_it_is(store, tmp_path):
    stored(store, "key", f"echo '{ANSWER}'")
    assert features_here(store, tmp_path / "gone") == {"avx2", "fma"}
