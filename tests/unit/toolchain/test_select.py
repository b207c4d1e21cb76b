from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest
from rich.console import Console

from contexts import build_context
from cpuwheels.config.options import BuildOptions
from cpuwheels.core.console import Reporter
from cpuwheels.core.errors import DownloadError, ToolchainError
from cpuwheels.toolchain.select import check_choice, resolve_toolchain
from cpuwheels.toolchain.sysroot import Sysroot
from fake_compiler import TARGET, Fake

if TYPE_CHECKING:
    from pathlib import Path

    from cpuwheels.config.matrix import Target
    from cpuwheels.config.options import ToolchainChoice
    from cpuwheels.toolchain.result import Toolchain

LOCK = """\
suites: {test: [compiler]}
architecture: amd64
packages:
- {name: compiler, version: '1', path: pool/compiler.deb, size: 10, sha256: '%s'}
""" % ("0" * 64)

BARE = TARGET.model_copy(update={"sysroot": None})
"""A target that builds against the machine's own libraries."""


class Machine:
    """A machine with a project folder, compilers on PATH, and no Debian mirror that has anything."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.bin = folder / "bin"
        self.bin.mkdir()
        (folder / "locks").mkdir()
        (folder / "locks/compiler.yaml").write_text(LOCK)
        self.said = io.StringIO()
        self.reporter = Reporter("x86", Console(file=self.said, width=10_000))

    def resolve(self, target: Target, choice: ToolchainChoice, environ: dict[str, str] | None = None) -> Toolchain:
        mirror = (self.folder / "mirror").as_uri()
        context = build_context(
            self.folder / "store",
            target,
            root=self.folder,
            options=BuildOptions(toolchain=choice),
            reporter=self.reporter,
            logs=self.folder / "logs",
            mirrors=(mirror,),
        )
        return resolve_toolchain(context, environ=environ or {})


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    system = tmp_path / "system"
    system.mkdir()
    for name in ("sh", "cat"):
        (system / name).symlink_to(f"/bin/{name}")
    made = Machine(tmp_path)
    monkeypatch.setenv("PATH", f"{made.bin}:{system}")
    # No lock names a mirror outside this machine, whatever its own apt sources say.
    return made


def test_auto_takes_the_first_good_host_compiler(machine: Machine) -> None:
    Fake(version="12.2.0").write(machine.bin, "g++-14")
    good = Fake(version="13.3.0").write(machine.bin, "g++-13")
    found = machine.resolve(BARE, "auto")
    assert (found.kind, found.cxx, found.version) == ("host", good, "13.3.0")
    assert found.refused == ("g++-14: GNU 12.2.0: older than GNU 12.3, which x86 needs",)
    assert "not used: g++-14: GNU 12.2.0" in machine.said.getvalue()
    assert (good.with_name("g++-13.parts") / "c++/13.3.0", "/toolchain/c++/0") in found.prefix_maps


def test_auto_says_why_the_pinned_compiler_is_used(machine: Machine) -> None:
    Fake(version="12.2.0").write(machine.bin, "g++")
    with pytest.raises(DownloadError):
        machine.resolve(TARGET, "auto")
    (said,) = machine.reporter.announcements
    assert said == (
        "not used: g++: GNU 12.2.0: older than GNU 12.3, which x86 needs; "
        "the pinned compiler locks/compiler.yaml is used instead"
    )


def test_auto_without_any_compiler_goes_to_the_pinned_one(machine: Machine) -> None:
    with pytest.raises(DownloadError):
        machine.resolve(TARGET, "auto")
    assert "this machine has no g++-14, g++-13, g++; using the pinned locks/compiler.yaml" in machine.said.getvalue()


def test_the_digest_is_that_of_the_compilers_content_and_of_the_sysroot(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("one-g++", "same-g++", "other-g++")
    one, same, other = (str(Fake().write(machine.bin, name)) for name in names)
    (machine.bin / "other-g++.parts" / "cc1plus").write_text("rebuilt, of the same version\n")
    sysroot = machine.folder / "locks/sysroot.yaml"
    sysroot.write_text(LOCK)
    root = Sysroot(machine.folder / "root", "x86_64-linux-gnu")
    monkeypatch.setattr("cpuwheels.toolchain.select.unpacked_sysroot", lambda *_: root)
    monkeypatch.setattr("cpuwheels.toolchain.select.compat_library", lambda *_: machine.folder / "compat/compat.a")

    def digest(cxx: str, target: Target = TARGET) -> str:
        return machine.resolve(target, "host", {"CXX": cxx}).digest

    before = digest(one)
    assert digest(same) == before
    assert digest(other) != before
    assert digest(one, TARGET.model_copy(update={"floor": "manylinux_2_31"})) != before
    sysroot.write_text(LOCK.replace("0" * 64, "1" * 64))
    assert digest(one) != before


def test_debian_does_not_look_at_the_host(machine: Machine) -> None:
    Fake().write(machine.bin, "g++")
    with pytest.raises(DownloadError):
        machine.resolve(TARGET, "debian")
    assert machine.reporter.announcements == []


def test_host_with_none_good_lists_each(machine: Machine) -> None:
    Fake(version="12.2.0").write(machine.bin, "g++-14")
    Fake(static=False).write(machine.bin, "g++")
    with pytest.raises(ToolchainError, match=r"it needs GNU 12\.3 or newer") as caught:
        machine.resolve(TARGET, "host", {"CXX": "nowhere-g++"})
    lines = caught.value.output.splitlines()
    assert [line.split(":")[0] for line in lines] == ["CXX=nowhere-g++", "g++-14", "g++"]
    assert "--toolchain debian" in caught.value.next_step


def test_a_target_without_a_lock_needs_a_host_compiler(machine: Machine) -> None:
    with pytest.raises(ToolchainError, match="no compiler of this machine") as caught:
        machine.resolve(TARGET.model_copy(update={"toolchain": None}), "auto")
    assert caught.value.output == "none of them is there"
    assert "--toolchain debian" not in caught.value.next_step


FOREIGN = BARE.model_copy(update={"id": "s390x", "machine": "s390x"})


def test_for_another_machine_its_own_compilers_are_not_mentioned(machine: Machine) -> None:
    Fake(version="14.2.0").write(machine.bin, "g++")
    with pytest.raises(DownloadError):
        machine.resolve(FOREIGN, "auto")
    assert machine.reporter.announcements == []
    assert "this machine has no s390x-linux-gnu-g++-14, " in machine.said.getvalue()


def test_a_cross_compiler_of_this_machine_is_taken(machine: Machine) -> None:
    cxx = Fake(machine="s390x-linux-gnu").write(machine.bin, "s390x-linux-gnu-g++")
    found = machine.resolve(FOREIGN, "auto")
    assert (found.kind, found.cxx, found.machine) == ("host", cxx, "s390x")


@pytest.mark.parametrize("choice", ["auto", "host"])
def test_one_message_where_neither_can_be_used(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, choice: ToolchainChoice
) -> None:
    monkeypatch.setattr("platform.machine", lambda: "s390x")
    Fake(version="12.2.0", machine="s390x-linux-gnu").write(machine.bin, "g++")
    for ask in (lambda: machine.resolve(FOREIGN, choice), lambda: check_choice(FOREIGN, choice, machine.folder, {})):
        with pytest.raises(ToolchainError, match="no compiler of this machine can build s390x") as caught:
            ask()
        assert caught.value.output == "g++: GNU 12.2.0: older than GNU 12.3, which s390x needs"
        assert "build on Linux x86_64, where the pinned compiler locks/compiler.yaml runs" in caught.value.next_step
    assert machine.reporter.announcements == []


def test_the_pinned_compiler_is_refused_where_it_does_not_run(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("platform.machine", lambda: "s390x")
    with pytest.raises(ToolchainError, match="the pinned compiler runs on Linux x86_64; this machine is Linux s390x"):
        check_choice(FOREIGN, "debian", machine.folder, {})


@pytest.mark.parametrize("choice", ["auto", "debian"])
def test_nothing_is_asked_beforehand_where_the_pinned_compiler_runs(machine: Machine, choice: ToolchainChoice) -> None:
    check_choice(FOREIGN, choice, machine.folder, {})
