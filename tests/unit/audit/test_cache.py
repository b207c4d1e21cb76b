from __future__ import annotations

import zipfile
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

import wheel_writer as ww
from cpuwheels.audit.binutils import Binutils
from cpuwheels.audit.cache import KIND, audited_binaries, audited_name
from cpuwheels.audit.isa_limits import Limit
from cpuwheels.audit.policy import AuditPolicy
from cpuwheels.core.errors import AuditError
from cpuwheels.wheel import canonical
from elf_writer import Elf

if TYPE_CHECKING:
    from pathlib import Path

    from cpuwheels.audit.policy import Audited
    from cpuwheels.core.store import Store

RAW = "demo-1.0+cpu-cp38-abi3-linux_x86_64.whl"


class Scene:
    """Audits wheels that differ in something."""

    def __init__(self, folder: Path, store: Store) -> None:
        self.folder = folder
        self.store = store
        self.count = 0
        (folder / "torch").mkdir()
        self.policy = AuditPolicy("manylinux_2_28", "x86_64", (), folder / "torch", (folder / "sysroot",), ("1",))

    def audit(self, policy: AuditPolicy | None = None, mode: int = 0o100755, **changes: bytes) -> tuple[str, Audited]:
        self.count += 1
        place = self.folder / str(self.count)
        members = ww.content(wheel=ww.WHEEL.replace("manylinux_2_28", "linux").encode(), **changes)
        raw = ww.write_raw(place / RAW, members, external_attr=mode << 16)
        return audited_binaries(
            raw, policy or self.policy, store=self.store, work=place / "work", log=self.folder / "log"
        )

    def audits(self) -> int:
        return (self.folder / "log").read_text().count("auditwheel repair")


@pytest.fixture
def scene(tmp_path: Path, store: Store) -> Scene:
    return Scene(tmp_path, store)


def test_the_binaries_alone_are_audited_and_kept(scene: Scene) -> None:
    _, audited = scene.audit()
    assert audited.platforms == ("manylinux_2_17_x86_64", "manylinux2014_x86_64")
    assert audited.versions == ("GLIBC_2.17",)
    assert audited_name(scene.folder / RAW, audited) == (
        "demo-1.0+cpu-cp38-abi3-manylinux2014_x86_64.manylinux_2_17_x86_64.whl"
    )
    with zipfile.ZipFile(audited.path) as archive:
        names = archive.namelist()
        assert "Tag: cp38-abi3-manylinux_2_17_x86_64" in archive.read("demo-0.dist-info/WHEEL").decode()
        assert archive.read("demo/_C.abi3.so") == ww.content()["demo/_C.abi3.so"]
        assert archive.getinfo("demo/_C.abi3.so").external_attr >> 16 == 0o100755
    assert names[0] == "demo/_C.abi3.so"
    assert "demo/__init__.py" not in names


def test_other_python_files_and_another_version_need_no_audit(scene: Scene) -> None:
    key, audited = scene.audit()
    other = scene.audit(**{"demo/__init__.py": b"import this\n", "demo/new.py": b""}, metadata=b"Name: demo\n")
    assert other == (key, audited)
    assert scene.audits() == 1


@pytest.mark.parametrize(
    "changes",
    [
        {"library": Elf(versions={"libc.so.6": {"GLIBC_2.17": "memmove"}}).write()},
        {"demo/_D.abi3.so": Elf(versions={"libc.so.6": {"GLIBC_2.17": "memcpy"}}).write()},
        {"demo/data.bin": Elf(versions={"libc.so.6": {"GLIBC_2.17": "memcpy"}}, text=b"more").write()},
    ],
    ids=["another library", "one more", "one among the package's data"],
)
def test_any_other_binary_is_audited(scene: Scene, changes: dict[str, bytes]) -> None:
    key, _ = scene.audit()
    assert scene.audit(**changes)[0] != key
    assert scene.audits() == 2


def test_the_same_binaries_with_other_permissions_are_audited(scene: Scene) -> None:
    executable, plain = scene.audit(), scene.audit(mode=0o100644)
    assert plain[0] != executable[0]
    for (_, audited), mode in ((executable, 0o100755), (plain, 0o100644)):
        with zipfile.ZipFile(audited.path) as archive:
            assert archive.getinfo("demo/_C.abi3.so").external_attr >> 16 == mode


def test_the_key_names_the_policy_its_folders_and_the_code(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    program = scene.folder / "as"
    program.write_text("")
    policies = [
        scene.policy,
        replace(scene.policy, floor="manylinux_2_31"),
        replace(scene.policy, machine="aarch64"),
        replace(scene.policy, excluded=("libtorch.so",)),
        replace(scene.policy, digests=("2",)),
        replace(scene.policy, limits=(Limit("_C", "z15"),)),
        replace(scene.policy, binutils=Binutils(program, program, "x86_64")),
    ]
    keys = {policy.key() for policy in policies}
    assert replace(scene.policy, torch_libraries=scene.folder).key() in keys  # where they lie does not matter
    monkeypatch.setattr("cpuwheels.audit.policy.code_digest", lambda: "other code")
    keys.add(scene.policy.key())
    assert len(keys) == 8


def test_what_fails_is_not_kept(scene: Scene, store: Store) -> None:
    with pytest.raises(AuditError, match="newer than"):
        scene.audit(library=Elf(versions={"libc.so.6": {"GLIBC_2.34": "dlopen"}}).write())
    assert list((store.root / KIND).glob("*")) == []


@pytest.mark.parametrize("compressor", ["the same", "another"])
def test_binaries_of_the_audit_before_are_not_compressed_again(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, compressor: str
) -> None:
    first = scene.audit()[1]
    if compressor == "another":
        monkeypatch.setattr("cpuwheels.wheel.deflate_cache.compressor_key", lambda: compressor)
    compressed: list[bytes] = []
    real = canonical.compress
    monkeypatch.setattr(canonical, "compress", lambda content: (compressed.append(content), real(content))[1])
    extra = Elf(versions={"libc.so.6": {"GLIBC_2.17": "memcpy"}}, text=b"more").write()
    second = scene.audit(**{"demo/_D.abi3.so": extra})[1]
    with zipfile.ZipFile(first.path) as one, zipfile.ZipFile(second.path) as other:
        before = one.read("demo/_C.abi3.so")
        assert (before in compressed) == (compressor == "another")
        assert extra in compressed
        assert other.read("demo/_C.abi3.so") == before
        assert other.read("demo/_D.abi3.so") == extra


def test_a_damaged_entry_is_audited_again(scene: Scene) -> None:
    _, audited = scene.audit()
    audited.path.write_bytes(audited.path.read_bytes()[:-1] + b"x")
    assert scene.audit()[1] == audited
    assert scene.audits() == 2


def test_where_the_hosts_libraries_take_part_nothing_is_kept(scene: Scene, store: Store) -> None:
    for _ in range(2):
        scene.audit(replace(scene.policy, library_folders=()))
    assert scene.audits() == 2
    assert not (store.root / KIND).exists()
