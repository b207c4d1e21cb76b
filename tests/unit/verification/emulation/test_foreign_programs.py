"""Which handler runs programs of another machine, and what is said if there is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from contexts import build_context
from cpuwheels.core.errors import ToolchainError
from cpuwheels.verification.emulation import foreign_programs
from cpuwheels.verification.emulation.foreign_programs import program_prefix, registered, registration

ARM = "enabled\ninterpreter /usr/bin/qemu-aarch64\nflags: POCF\noffset 0\nmagic {magic}\nmask {mask}\n".format(
    magic="7f454c460201010000000000000000000200b700", mask="ffffffffffffff00fffffffffffffffffeffffff"
)


# As scripts/qemu-binfmt-conf.sh of QEMU has them.
@pytest.mark.parametrize(
    ("machine", "magic", "mask"),
    [
        ("aarch64", "7f454c460201010000000000000000000200b700", "ffffffffffffff00fffffffffffffffffeffffff"),
        ("s390x", "7f454c4602020100000000000000000000020016", "ffffffffffffff00fffffffffffffffffffeffff"),
        ("x86_64", "7f454c4602010100000000000000000002003e00", "ffffffffffffff00fffffffffffffffffeffffff"),
    ],
)
def test_a_registration_is_for_one_machines_programs(machine: str, magic: str, mask: str) -> None:
    name, kind, offset, *rest = registration(machine, Path("/store/qemu")).removeprefix(":").split(":")
    assert (name, kind, offset) == ("cpuwheels", "M", "")
    assert [part.replace("\\x", "") for part in rest[:2]] == [magic, mask]
    assert rest[2:] == ["/store/qemu", "PF"]


@pytest.mark.parametrize(
    ("entry", "machine", "found"),
    [
        pytest.param(ARM, "aarch64", "/usr/bin/qemu-aarch64", id="the machine's"),
        pytest.param(ARM, "s390x", "", id="another machine's"),
        pytest.param(ARM.replace("POCF", "POC"), "aarch64", "", id="looked for in the program's root"),
        pytest.param(ARM.replace("enabled", "disabled"), "aarch64", "", id="disabled"),
        pytest.param("enabled\ninterpreter /usr/bin/jexec\nflags: F\nextension .jar\n", "aarch64", "", id="no magic"),
    ],
)
def test_a_handler_of_the_machine_is_used_if_it_works_in_a_root(
    entry: str, machine: str, found: str, tmp_path: Path
) -> None:
    (tmp_path / "status").write_text("enabled\n")
    (tmp_path / "register").write_text("")
    (tmp_path / "qemu").write_text(entry)
    assert registered(machine, tmp_path) == found
    (tmp_path / "status").write_text("disabled\n")
    assert registered(machine, tmp_path) == ""
    assert registered(machine, tmp_path / "not mounted") == ""


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What stands in for the script that sets up namespaces, and no handler of this machine."""
    path = tmp_path / "script.py"
    monkeypatch.setattr(foreign_programs, "_SCRIPT", path)
    monkeypatch.setattr(foreign_programs, "find_emulator", lambda _, machine: Path(f"/store/qemu-{machine}"))
    monkeypatch.setattr(foreign_programs, "registered", lambda _: "")
    return path


def test_the_pinned_emulator_is_registered_in_front_of_the_command(script: Path, tmp_path: Path) -> None:
    script.write_text("import os, sys\nos.execvp(sys.argv[2], sys.argv[2:])\n")
    prefix = program_prefix(build_context(tmp_path), "aarch64")
    assert prefix[-2:] == [script, registration("aarch64", Path("/store/qemu-aarch64"))]


REFUSED = "import sys\nprint('the kernel refuses a binfmt_misc of its own (Linux 6.7): EPERM')\nsys.exit(125)\n"


def test_a_kernel_that_refuses_is_told_with_what_to_do(script: Path, tmp_path: Path) -> None:
    script.write_text(REFUSED)
    with pytest.raises(
        ToolchainError, match=r"aarch64 do not run on this machine: .* of its own \(Linux 6\.7\): EPERM"
    ) as caught:
        program_prefix(build_context(tmp_path), "aarch64")
    for part in ("Linux 6.7 or newer", "qemu-user-binfmt", "a machine with aarch64"):
        assert part in caught.value.next_step


def test_a_handler_that_the_machine_has_is_announced(
    script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script.write_text(REFUSED)
    monkeypatch.setattr(foreign_programs, "registered", lambda machine: f"/usr/bin/qemu-{machine}")
    context = build_context(tmp_path)
    assert program_prefix(context, "s390x") == []
    (said,) = context.reporter.announcements
    assert "run by /usr/bin/qemu-s390x" in said
    assert "EPERM" in said


def test_it_serves_where_no_emulator_is_pinned(script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: object) -> Path:
        raise ToolchainError("no emulator is pinned for riscv64 Linux", where="matrix.yaml: emulator")

    monkeypatch.setattr(foreign_programs, "find_emulator", none)
    with pytest.raises(ToolchainError, match="no emulator is pinned for riscv64 Linux"):
        program_prefix(build_context(tmp_path), "aarch64")
    monkeypatch.setattr(foreign_programs, "registered", lambda _: "/usr/bin/qemu")
    assert program_prefix(build_context(tmp_path), "aarch64") == []
    assert not script.exists()
