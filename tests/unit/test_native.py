"""Compiling the native helpers into the store, finding them, and reading isaprobe's answer."""

from __future__ import annotations

import os
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from cpuwheels.errors import CommandError, ToolchainError
from cpuwheels.native import CpuFeatures, features_here, find_helper, native_tools, probe


def fake(path: Path, script: str) -> Path:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def test_compiled_once_and_they_run(project_root, c_compiler, store, logs):
    tools = native_tools(project_root, c_compiler, [], "one", store=store, logs=logs)
    assert probe(tools.isaprobe).architecture == os.uname().machine
    log = (logs / "native.log").read_text()
    again = native_tools(project_root, Path("/nonexistent/cc"), [], "one", store=store, logs=logs)
    assert again == tools
    assert (logs / "native.log").read_text() == log
    assert find_helper("isaprobe", store) is not None


def test_another_compiler_makes_others(project_root, c_compiler, store, logs):
    one = native_tools(project_root, c_compiler, [], "one", store=store, logs=logs)
    two = native_tools(project_root, c_compiler, [], "two", store=store, logs=logs)
    assert one != two


def test_without_static_libraries_they_are_linked_dynamically(project_root, c_compiler, store, logs, tmp_path):
    picky = fake(tmp_path / "cc", f'case "$*" in *-static*) exit 1;; esac; exec {c_compiler} "$@"')
    tools = native_tools(project_root, picky, [], "picky", store=store, logs=logs)
    assert probe(tools.isaprobe).architecture


def test_compiler_that_fails(project_root, store, logs, tmp_path):
    broken = fake(tmp_path / "cc", "echo stdlib.h: no such file >&2; exit 1")
    with pytest.raises(ToolchainError) as fault:
        native_tools(project_root, broken, [], "broken", store=store, logs=logs)
    assert "stdlib.h: no such file" in str(fault.value)
    assert fault.value.log == logs / "native.log"


def test_compiler_for_another_machine(project_root, store, logs, tmp_path):
    cross = fake(
        tmp_path / "cc",
        'while [ "$1" != -o ]; do shift; done; printf "\\177ELF foreign" > "$2"; chmod +x "$2"',
    )
    with pytest.raises(ToolchainError, match="do not run on this machine"):
        native_tools(project_root, cross, [], "cross", store=store, logs=logs)


ANSWER = '{"architecture": "x86_64", "vendor": "V", "model": "M", "features": ["avx2", "fma"], "xcr0": "0x7"}'


def test_answer(tmp_path):
    program = fake(tmp_path / "isaprobe", f"echo '{ANSWER}'")
    assert probe(program) == CpuFeatures(
        architecture="x86_64", vendor="V", model="M", features=frozenset({"avx2", "fma"}), xcr0="0x7"
    )


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("exit 3", "status 3"),
        ("kill -ILL $$", "status -4"),
        ("echo nonsense", "no usable answer"),
        ('echo \'{"architecture": "x86_64"}\'', "no usable answer"),
    ],
)
def test_bad_answer(tmp_path, script, words):
    with pytest.raises(CommandError, match=words):
        probe(fake(tmp_path / "isaprobe", script))


def test_nothing_to_find(monkeypatch, store, tmp_path):
    monkeypatch.setattr("cpuwheels.native.__file__", str(tmp_path / "native.py"))
    monkeypatch.setattr("importlib.metadata.distribution", _missing)
    assert find_helper("isaprobe", store) is None
    entry = store.root / "native" / "key" / "isaprobe"
    entry.parent.mkdir(parents=True)
    assert find_helper("isaprobe", store) is None
    fake(entry, "exit 0")
    assert find_helper("isaprobe", store) == entry


def _missing(name: str) -> None:
    raise PackageNotFoundError(name)


class TestFeaturesWithoutACompiler:
    @pytest.fixture(autouse=True)
    def no_helper(self, monkeypatch):
        monkeypatch.setattr("cpuwheels.native.find_helper", lambda *_: None)

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
        with pytest.raises(ToolchainError, match="nothing here tells what this CPU has"):
            features_here(store, tmp_path / "gone")


def test_features_are_isaprobes_where_it_is(monkeypatch, store, tmp_path):
    (tmp_path / "isaprobe").write_text(
        '#!/bin/sh\necho \'{"architecture": "x", "vendor": "", "model": "", "features": ["amx_bf16"], "xcr0": null}\'\n'
    )
    (tmp_path / "isaprobe").chmod(0o755)
    monkeypatch.setattr("cpuwheels.native.find_helper", lambda *_: tmp_path / "isaprobe")
    assert features_here(store, tmp_path / "gone") == {"amx_bf16"}
