from __future__ import annotations

from pathlib import Path

import pytest

import wheel_writer as ww
from cpuwheels.audit.linux import elf_files
from cpuwheels.audit.symbol_providers import Torch, check_providers
from cpuwheels.config.platform_policy import load_policy
from cpuwheels.core.errors import AuditError
from cpuwheels.environment.torch_debian import PARTS
from elf_writer import Elf

POLICY = load_policy("manylinux_2_28", "x86_64")
USES_TORCH = ("libtorch.so", "libc.so.6")


class Scene:
    """A wheel, torch's libraries and a sysroot."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.torch = folder / "torch" / "lib"
        self.sysroot = folder / "sysroot"
        self.system = [self.sysroot]
        for path, elf in {
            self.torch / "libtorch.so": Elf(needed=("libtorch_cpu.so",)),
            self.torch / "libtorch_cpu.so": Elf(needed=("librt.so.1", "libodd.so.1"), exports=("at_empty", "at_add")),
            self.torch / "libshm.so": Elf(exports=("not_for_wheels",)),
            self.sysroot / "libc.so.6": Elf(exports=("memcpy",), hidden=("gettid",)),
            self.sysroot / "librt.so.1": Elf(exports=("shm_open",)),
            self.sysroot / "libodd.so.1": Elf(exports=("odd",)),
        }.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(elf.write())

    def check(self, **modules: Elf) -> None:
        files = {f"demo/{name}.abi3.so": elf.write() for name, elf in modules.items()}
        wheel = ww.write_good(self.folder, **files)
        torch = Torch(self.torch, ("libtorch*.so", "libc10.so"))
        check_providers(dict(elf_files(wheel)), wheel, torch=torch, policy=POLICY, system=self.system)


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


@pytest.mark.parametrize(
    "modules",
    [
        {"_C": Elf()},
        {"_C": Elf(loose=("PyModule_Create2", "_Py_Dealloc"))},
        {"_C": Elf(needed=USES_TORCH, loose=("at_empty", "at_add"))},
        {"_C": Elf(loose=("shared",)), "_D": Elf(exports=("shared",))},
        {"_C": Elf(needed=USES_TORCH, loose=("shm_open",))},
        {"_C": Elf(weak=("gettid", "nowhere"))},
        {"_C": Elf(versions={"libc.so.6": {"GLIBC_2.17": "gettid"}})},
    ],
    ids=["none", "python", "torch", "wheel", "brought by torch", "weak", "versioned"],
)
def test_symbols_that_every_system_has(scene: Scene, modules: dict[str, Elf]) -> None:
    scene.check(**modules)


def test_every_folder_of_the_sysroot_is_searched(scene: Scene) -> None:
    other = scene.folder / "other"
    other.mkdir()
    (scene.sysroot / "librt.so.1").rename(other / "librt.so.1")
    uses = Elf(needed=USES_TORCH, loose=("shm_open",))
    with pytest.raises(AuditError, match="provides shm_open"):
        scene.check(_C=uses)
    scene.system.append(other)
    scene.check(_C=uses)


def test_torchs_libraries_may_call_each_other_by_sonames_with_a_version(scene: Scene) -> None:
    """Debian's do, and modules are linked to the names without."""
    (scene.torch / "libtorch.so").write_bytes(Elf(needed=("libtorch_cpu.so.2.14",)).write())
    cpu = Elf(soname="libtorch_cpu.so.2.14", needed=("librt.so.1",), exports=("at_empty",))
    (scene.torch / "libtorch_cpu.so").write_bytes(cpu.write())
    scene.check(_C=Elf(needed=USES_TORCH, loose=("at_empty", "shm_open")))


@pytest.mark.parametrize(
    ("elf", "missing"),
    [
        (Elf(needed=USES_TORCH, loose=("gettid", "at_add")), "gettid"),
        (Elf(needed=USES_TORCH, loose=("nowhere", "gettid", "shm_open")), "gettid, nowhere"),
        (Elf(needed=("libc.so.6",), loose=("shm_open",)), "shm_open"),
        (Elf(needed=USES_TORCH, loose=("odd",)), "odd"),
        (Elf(needed=USES_TORCH, loose=("not_for_wheels",)), "not_for_wheels"),
        (Elf(loose=tuple(f"f{n}" for n in range(12))), "f0, f1, f10, f11, f2, f3, f4, f5, f6, f7 and 2 more"),
    ],
    ids=["newer than the floor", "nowhere", "not brought along", "no library of the policy", "not excluded", "many"],
)
def test_symbols_that_some_systems_lack(scene: Scene, elf: Elf, missing: str) -> None:
    with pytest.raises(AuditError) as caught:
        scene.check(_C=elf, _D=Elf(needed=USES_TORCH, loose=("at_empty",)))
    assert caught.value.what == f"nothing on every manylinux_2_28_x86_64 system provides {missing}"
    assert caught.value.output == f"demo/_C.abi3.so: {missing}"
    assert "libtorch.so, libtorch_cpu.so" in caught.value.next_step


def test_what_debians_torch_has_in_a_library_of_its_own_is_torchs(scene: Scene) -> None:
    uses = Elf(needed=USES_TORCH, loose=("Sleef_expf8_u10",))
    with pytest.raises(AuditError, match="Sleef_expf8_u10"):
        scene.check(_C=uses)
    (scene.torch / PARTS).mkdir()
    (scene.torch / PARTS / "libsleef.so.3").write_bytes(Elf(exports=("Sleef_expf8_u10",)).write())
    scene.check(_C=uses)


def test_torchs_libraries_are_needed_only_for_such_symbols(scene: Scene) -> None:
    for path in scene.torch.iterdir():
        path.unlink()
    scene.torch.rmdir()
    scene.check(_C=Elf(loose=("PyErr_Clear",)))
    with pytest.raises(AuditError, match="cannot be read") as caught:
        scene.check(_C=Elf(loose=("at_add",)))
    assert caught.value.where == str(scene.torch)


def test_a_damaged_library_of_torch_is_told(scene: Scene) -> None:
    (scene.torch / "libtorch_cpu.so").write_bytes(b"\x7fELF")
    with pytest.raises(AuditError, match="not a readable ELF file"):
        scene.check(_C=Elf(loose=("at_add",)))
