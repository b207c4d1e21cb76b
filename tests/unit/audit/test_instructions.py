"""Which files are held against what, and what is told of them; a real assembler judges in the integration tests."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cpuwheels.audit.binutils import Binutils
from cpuwheels.audit.instructions import KIND, check_instructions
from cpuwheels.audit.isa_limits import Limit, limit_for, limits_of
from cpuwheels.audit.unwind_table import Functions
from cpuwheels.config.matrix import load_matrix
from cpuwheels.core.digests import file_digest
from cpuwheels.core.errors import AuditError
from cpuwheels.core.store import Store
from cpuwheels.source.acl import Acl
from elf_writer import Elf

if TYPE_CHECKING:
    from cpuwheels.core.store import Store


def test_every_library_of_the_matrix_on_linux_has_a_limit(project_root: Path) -> None:
    for target in load_matrix(project_root).targets:
        limits = limits_of(target)
        if target.system == "Linux":
            modules = {library.name for library in target.libraries} | {target.chooser or ""}
            assert {limit.module for limit in limits} == modules | {""}


@pytest.mark.parametrize(
    ("target", "file", "march"),
    [
        ("arm", "vllm/_C.abi3.so", "armv8-a"),
        ("arm", "vllm/_C_BF16.abi3.so", "armv8.2-a+bf16+dotprod+fp16+i8mm"),
        ("arm", "vllm.libs/libnuma-0a1b2c3d.so.1", "armv8.2-a+dotprod+fp16"),
        ("s390x", "vllm/_C.abi3.so", "z10"),
        ("x86", "vllm.libs/libcpuwheels_dnnl-0a1b2c3d.so", "generic64+avx2+fma+f16c+ibt"),
    ],
)
def test_what_all_use_is_held_against_the_lowest(project_root: Path, target: str, file: str, march: str) -> None:
    limit = limit_for(file, limits_of(load_matrix(project_root).target(target)))
    assert limit is not None
    assert limit.march == march


def test_no_library_of_the_matrix_may_hold_avx512_below_avx512(project_root: Path) -> None:
    limit = limit_for("vllm/_C_AVX2.abi3.so", limits_of(load_matrix(project_root).target("x86")))
    assert limit is not None
    assert "avx512" not in limit.march


@pytest.mark.parametrize(
    ("commit", "file", "march"),
    [
        ("c" * 40, "vllm.libs/libcpuwheels_dnnl-0a1b2c3d.so", "armv9-a+sme2"),
        (None, "vllm.libs/libcpuwheels_dnnl-0a1b2c3d.so", "armv8.2-a+dotprod+fp16"),
        ("c" * 40, "vllm.libs/libnuma-0a1b2c3d.so.1", "armv8.2-a+dotprod+fp16"),
        ("c" * 40, "vllm/_C_NEON.abi3.so", "armv8.2-a+dotprod+fp16"),
    ],
)
def test_only_what_holds_arm_compute_library_may_have_what_that_chooses_from(
    project_root: Path, commit: str | None, file: str, march: str
) -> None:
    acl = Acl(None, "v52.6.0", commit, "tag" if commit else "absent", {}, "armv9-a+sme2")
    limit = limit_for(file, limits_of(load_matrix(project_root).target("arm"), acl))
    assert limit is not None
    assert limit.march == march


def test_a_file_without_a_limit_is_left_alone() -> None:
    assert limit_for("vllm/_C.abi3.so", [Limit("_D", "z15")]) is None


def test_functions_are_named_by_where_they_begin() -> None:
    functions = Functions([0x1000, 0x2000], {0x1000: "first", 0x3000: "exported"})
    addresses = (0xFFF, 0x1000, 0x1FFF, 0x2001, 0x3004)
    assert [functions.name(address) for address in addresses] == [
        "no function",
        "first",
        "first",
        "function at 0x2000",
        "exported",
    ]


@pytest.fixture
def binutils(tmp_path: Path) -> Binutils:
    """Return an objdump that finds ``vnew`` where ``located`` says, and an assembler that knows it, but not below."""
    objdump, assembler = tmp_path / "objdump", tmp_path / "as"
    objdump.write_text(
        f"#!/bin/sh\ncase \"$*\" in *--no-addresses*) printf '\\tvnew %%eax\\n' ;; *) cat {tmp_path}/located ;; esac\n"
    )
    refusal = "x.s:1: Error: no such instruction"
    assembler.write_text(f'#!/bin/sh\ncase "$*" in *-march=*) echo "{refusal}"; exit 1 ;; esac\n')
    for program in (objdump, assembler):
        program.chmod(0o755)
    return Binutils(assembler, objdump, "x86_64")


@pytest.mark.parametrize(
    ("located", "line"),
    [
        ("    1000:\tvnew %eax\n", "vllm/_C.abi3.so: no function: 0x1000: vnew %eax (not in generic64)"),
        ("", "vllm/_C.abi3.so: vnew %eax (not in generic64)"),
    ],
    ids=["located", "nowhere"],
)
def test_an_instruction_beyond_the_limit_is_told_wherever_it_is(
    tmp_path: Path, binutils: Binutils, located: str, line: str
) -> None:
    library, log = tmp_path / "0.so", tmp_path / "log"
    library.write_bytes(Elf().write())
    (tmp_path / "located").write_text(located)

    def check(*guarded: str) -> None:
        limits, files = [Limit("", "generic64", guarded)], {"vllm/_C.abi3.so": library}
        check_instructions(files, limits, binutils, work=tmp_path, where=tmp_path, log=log)

    with pytest.raises(AuditError, match="in 1 functions") as caught:
        check("another", "_D:vnew")
    assert caught.value.output == line
    assert line in log.read_text()
    if located:
        check("_C:vnew")


def test_untried_kernels_may_be_held_and_are_told_only_if_they_are(tmp_path: Path, binutils: Binutils) -> None:
    library, log = tmp_path / "0.so", tmp_path / "log"
    library.write_bytes(Elf().write())
    (tmp_path / "located").write_text("    1000:\tvnew %eax\n")

    def check(*untried: tuple[str, tuple[str, ...]]) -> tuple[str, ...]:
        limits, files = [Limit("", "generic64", untried=untried)], {"vllm/_C.abi3.so": library}
        (judged,) = check_instructions(files, limits, binutils, work=tmp_path, where=tmp_path, log=log)
        return judged.untried

    assert check(("Newest", ("vother", "vnew")), ("Next", ("vnext",))) == ("Newest",)
    # Names are whole ones, not patterns.
    with pytest.raises(AuditError, match="in 1 functions"):
        check(("Newest", ("vne*",)))


def test_the_matrix_names_untried_instructions_one_by_one(project_root: Path) -> None:
    target = load_matrix(project_root).target("x86")
    limits = {limit.module: dict(limit.untried) for limit in limits_of(target)}
    assert limits["_C"] == {"AMX-FP8": ("tdphf8ps", "tdpbf8ps"), "AVX10.2": ("vcvtph2hf8", "vcvtph2bf8")}
    assert not any(untried for module, untried in limits.items() if module != "_C")


def test_an_assembler_that_judges_nothing_is_no_pass(tmp_path: Path, binutils: Binutils) -> None:
    binutils.assembler.write_text('#!/bin/sh\necho "Error: unknown architecture"\nexit 1\n')
    library = tmp_path / "0.so"
    library.write_bytes(Elf().write())
    with pytest.raises(AuditError, match="cannot check instructions") as caught:
        check_instructions(
            {"_C.so": library}, [Limit("", "x")], binutils, work=tmp_path, where=tmp_path, log=tmp_path / "log"
        )
    assert "unknown architecture" in caught.value.output


@pytest.mark.parametrize(("expected", "missing"), [(("vnew",), []), (("vn*",), []), (("vnew", "tile*"), ["tile*"])])
def test_a_kernel_that_should_be_there_is_missed(
    tmp_path: Path, binutils: Binutils, expected: tuple[str, ...], missing: list[str]
) -> None:
    binutils.assembler.write_text("#!/bin/sh\n")  # takes everything
    library, log = tmp_path / "0.so", tmp_path / "log"
    library.write_bytes(Elf().write())
    limits, files = [Limit("", "generic64", expected=expected)], {"vllm/_C.abi3.so": library}
    if not missing:
        check_instructions(files, limits, binutils, work=tmp_path, where=tmp_path, log=log)
        return
    with pytest.raises(AuditError, match="kernels that this release has are not in the wheel") as caught:
        check_instructions(files, limits, binutils, work=tmp_path, where=tmp_path, log=log)
    assert caught.value.output == "\n".join(f"vllm/_C.abi3.so: no {name}" for name in missing)
    assert missing[0] in log.read_text()


def test_only_a_release_has_to_have_all_kernels(project_root: Path) -> None:
    target = load_matrix(project_root).target("x86")
    whole = {limit.module: limit.expected for limit in limits_of(target, whole=True)}
    assert "tdpbf16ps" in whole["_C"]
    assert "vpmovzxbw" in whole["_C_AVX512"]
    assert not any(limit.expected for limit in limits_of(target))


def test_only_another_file_limit_or_program_is_judged_again(tmp_path: Path, binutils: Binutils, store: Store) -> None:
    (tmp_path / "located").write_text("    1000:\tvnew %eax\n")
    binutils.objdump.write_text(
        binutils.objdump.read_text().replace("#!/bin/sh\n", f"#!/bin/sh\necho >> {tmp_path}/asked\n")
    )
    library, other = tmp_path / "0.so", tmp_path / "1.so"
    library.write_bytes(Elf().write())
    other.write_bytes(Elf(text=b"more").write())

    def asked(file: Path, limit: Limit, programs: Binutils = binutils, name: str = "vllm/_C.abi3.so") -> bool:
        before = (tmp_path / "asked").stat().st_size if (tmp_path / "asked").exists() else 0
        (judged,) = check_instructions(
            {name: file}, [limit], programs, work=tmp_path, where=tmp_path, log=tmp_path / "log", store=store
        )
        assert (judged.file, judged.march, judged.guarded) == (name, limit.march, ("no function (1)",))
        return (tmp_path / "asked").stat().st_size > before

    limit = Limit("", "generic64", ("_*:vnew",))
    assert asked(library, limit)
    assert not asked(library, limit)
    assert asked(library, limit, name="vllm/_D.abi3.so")
    assert asked(other, limit)
    assert asked(library, replace(limit, march="generic32"))
    assert asked(library, limit, replace(binutils, digest="another toolchain"))
    assert not asked(library, limit)
    binutils.assembler.write_text(f"{binutils.assembler.read_text()}# another one\n")
    assert asked(library, limit)


def test_what_breaks_its_limit_does_so_each_time(tmp_path: Path, binutils: Binutils, store: Store) -> None:
    library, log = tmp_path / "0.so", tmp_path / "log"
    library.write_bytes(Elf().write())
    (tmp_path / "located").write_text("")
    for _ in range(2):
        with pytest.raises(AuditError, match="in 1 functions") as caught:
            check_instructions(
                {"_C.so": library}, [Limit("", "x")], binutils, work=tmp_path, where=tmp_path, log=log, store=store
            )
        assert caught.value.output == "_C.so: vnew %eax (not in x)"
    assert len([entry for entry in (store.root / KIND).iterdir() if entry.is_dir()]) == 1


def test_programs_have_the_same_name_in_the_stores_of_every_machine(tmp_path: Path) -> None:
    found = []
    for machine in ("one", "two"):

        def make(folder: Path, machine: str = machine) -> None:
            (folder / "usr" / "bin").mkdir(parents=True)
            for name in ("as", "objdump"):
                (folder / "usr" / "bin" / name).write_text(f"looks for its libraries in {tmp_path / machine}")
            (folder / "bin").symlink_to("usr/bin")

        entry = Store(tmp_path / machine).get("toolchains", "a" * 24, make)
        found.append(Binutils(entry / "bin" / "as", entry / "bin" / "objdump", "x86_64"))
    assert found[0].assembler.read_text() != found[1].assembler.read_text()
    assert (
        found[0].names() == found[1].names() == [f"toolchains/{'a' * 24}/usr/bin/{name}" for name in ("as", "objdump")]
    )


def test_programs_of_the_machine_are_named_by_their_digests(binutils: Binutils) -> None:
    before = binutils.names()
    assert before == [file_digest(binutils.assembler), file_digest(binutils.objdump)]
    binutils.assembler.write_text("another")
    assert binutils.names() != before
