from __future__ import annotations

import io
import subprocess
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

import wheel_writer as ww
from cpuwheels.audit import linux
from cpuwheels.audit.binutils import Binutils
from cpuwheels.audit.instructions import Judged
from cpuwheels.audit.linux import audit_wheel, check_floor, check_machine, elf_files, highest_versions
from cpuwheels.audit.policy import AuditPolicy
from cpuwheels.config.platform_policy import load_policy
from cpuwheels.core.elf import read_elf
from cpuwheels.core.errors import AuditError
from elf_writer import Elf

if TYPE_CHECKING:
    from pathlib import Path

POLICY = load_policy("manylinux_2_28", "x86_64")
NEW = Elf(
    versions={
        "libc.so.6": {"GLIBC_2.17": "memcpy", "GLIBC_2.34": "dlopen"},
        "libstdc++.so.6": {"GLIBCXX_3.4.30": "_ZSt28__throw_bad_array_new_lengthv"},
    }
)


def test_every_symbol_version_above_the_floor_is_listed(tmp_path: Path) -> None:
    wheel = ww.write_good(tmp_path, library=NEW.write())
    with pytest.raises(AuditError, match="2 symbol versions are newer than manylinux_2_28_x86_64") as caught:
        check_floor(dict(elf_files(wheel)), POLICY, where=wheel)
    assert caught.value.output.splitlines() == [
        "demo/_C.abi3.so: libc.so.6 GLIBC_2.34 (dlopen)",
        "demo/_C.abi3.so: libstdc++.so.6 GLIBCXX_3.4.30 (_ZSt28__throw_bad_array_new_lengthv)",
    ]


def test_a_wheel_above_the_floor_is_not_even_repaired(tmp_path: Path) -> None:
    wheel = ww.write_good(tmp_path, library=NEW.write())
    with pytest.raises(AuditError, match="newer than"):
        audit_wheel(wheel, tmp_path / "out", terms(tmp_path), tmp_path / "log")
    assert not (tmp_path / "out").exists()


def test_a_wheel_that_others_libraries_lift_above_the_floor_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own symbols are old enough, so only what auditwheel finds in the end says so."""
    wheel = ww.write_good(tmp_path, "demo-1.0+cpu-cp38-abi3-linux_x86_64.whl")

    def audited(found: str) -> str:
        monkeypatch.setattr(linux, "shown_policy", lambda *_, **__: found)
        return audit_wheel(wheel, tmp_path / "out", terms(tmp_path), tmp_path / "log").policy

    for policy in ("manylinux_2_17_x86_64", "manylinux_2_28_x86_64"):
        assert audited(policy) == policy
    with pytest.raises(AuditError, match="only good for manylinux_2_34_x86_64, the floor is manylinux_2_28"):
        audited("manylinux_2_34_x86_64")


def test_untried_kernels_are_told_by_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel = ww.write_good(tmp_path, "demo-1.0+cpu-cp38-abi3-linux_x86_64.whl")
    judged = (
        Judged("demo/_C.abi3.so", "m", 1, (), (), untried=("AMX-FP8",)),
        Judged("demo/_C_AVX2.abi3.so", "m", 1, (), ()),
    )
    monkeypatch.setattr(linux, "judge_contents", lambda *_, **__: judged)
    binutils = Binutils(tmp_path, tmp_path, "x86_64")
    told = replace(terms(tmp_path), binutils=binutils)
    assert audit_wheel(wheel, tmp_path / "out", told, tmp_path / "log").untried == {"_C": ("AMX-FP8",)}


def test_a_file_for_another_machine_is_refused(tmp_path: Path) -> None:
    """Such as a library of the building machine that was bundled into a wheel for another one."""
    wheel = ww.write_good(tmp_path)
    check_machine(dict(elf_files(wheel)), "x86_64", where=wheel)
    with pytest.raises(AuditError, match=r"1 files are not for s390x \(EM_S390\)") as caught:
        check_machine(dict(elf_files(wheel)), "s390x", where=wheel)
    assert caught.value.output == "demo/_C.abi3.so: EM_X86_64"


def test_the_highest_version_of_each_family_counts_by_number() -> None:
    elf = Elf(
        versions={
            "libc.so.6": {"GLIBC_2.9": "a", "GLIBC_2.17": "b"},
            "libnuma.so.1": {"libnuma_1.1": "numa_node_of_cpu"},
            "libgcc_s.so.1": {"GCC_3.0": "c"},
        }
    )
    older = Elf(versions={"libc.so.6": {"GLIBC_2.14": "d"}})
    for order in ((elf, older), (older, elf)):
        files = {str(number): facts(file) for number, file in enumerate(order)}
        assert highest_versions(files, POLICY) == ("GCC_3.0", "GLIBC_2.17")


def test_a_damaged_library_is_told(tmp_path: Path) -> None:
    wheel = ww.write_good(tmp_path, library=b"\x7fELF")
    with pytest.raises(AuditError, match=r"demo/_C\.abi3\.so is not a readable ELF file"):
        list(elf_files(wheel))


def test_a_library_that_cannot_be_found_is_told_in_auditwheels_words(tmp_path: Path) -> None:
    module = Elf(needed=("libc.so.6", "libnowhere.so.1"), versions={"libc.so.6": {"GLIBC_2.17": "memcpy"}})
    wheel = ww.write_good(tmp_path, library=module.write())
    told = terms(tmp_path, "libtorch*.so", system=(tmp_path / "empty",))
    with pytest.raises(AuditError, match="cannot repair") as caught:
        audit_wheel(wheel, tmp_path / "out", told, tmp_path / "log")
    assert "libnowhere.so.1" in caught.value.output
    assert "--exclude 'libtorch*.so'" in (tmp_path / "log").read_text()


@pytest.mark.parametrize("call", ["gettid", "PyErr_Clear"])
def test_a_call_that_only_the_building_machine_answers_is_refused(c_compiler: Path, tmp_path: Path, call: str) -> None:
    """The C library on the link line hides the function, as a lowered sysroot's does: no version is written."""
    hiding, source, library = tmp_path / "libc.so.6", tmp_path / "demo.c", tmp_path / "demo.so"
    source.write_text(f"int {call}(void);\nint PyInit__C(void) {{ return {call}(); }}\n")
    link = [c_compiler, "-shared", "-fPIC", "-nostdlib", "-s", "-Wl,--no-as-needed"]
    subprocess.run([*link, "-Wl,-soname,libc.so.6", "-o", hiding, "-xc", "/dev/null"], check=True)
    subprocess.run([*link, "-o", library, source, hiding], check=True)
    wheel = ww.write_good(tmp_path, "demo-1.0+cpu-cp38-abi3-linux_x86_64.whl", library=library.read_bytes())
    torch = tmp_path / "torch"
    torch.mkdir()

    def audited() -> Path:
        return audit_wheel(wheel, tmp_path / "out", terms(torch, "libtorch.so"), tmp_path / "log").path

    if call.startswith("Py"):
        assert audited().is_file()
    else:
        with pytest.raises(AuditError, match="nothing on every manylinux_2_28_x86_64 system provides gettid") as caught:
            audited()
        assert caught.value.output == "demo/_C.abi3.so: gettid"


def terms(torch: Path, *excluded: str, system: tuple[Path, ...] = ()) -> AuditPolicy:
    return AuditPolicy("manylinux_2_28", "x86_64", excluded, torch, system, digests=())


def facts(elf: Elf):  # type: ignore[no-untyped-def]
    return read_elf(io.BytesIO(elf.write()))
