"""The libraries in a wheel: which are listed, from where their licences are, and how the metadata name them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from contexts import build_context
from cpuwheels.config.context import BuildContext
from cpuwheels.config.debian_lock import DebianLock, DebianPackage, load_lock
from cpuwheels.config.matrix import Target, load_matrix
from cpuwheels.core.errors import DownloadError, ToolchainError, WheelError
from cpuwheels.fetch.debian.resolve import lock_text
from cpuwheels.kernels.tcmalloc import Tcmalloc
from cpuwheels.source.acl import Acl
from cpuwheels.source.onednn import OneDnn
from cpuwheels.wheel.components import Components, get_components, runtime_components, with_components
from cpuwheels.wheel.core_metadata import read_project
from deb_writer import Deb
from elf_writer import Elf
from kernel_request import TARGET, toolchain
from layout import ROOT
from sample_source import sha256

COMMON = "usr/share/common-licenses"
TEXTS = {
    "base-files": {f"{COMMON}/GPL-3": "the GPL", f"{COMMON}/LGPL-2.1": "the LGPL"},
    "gcc-14-base": {"usr/share/doc/gcc-14-base/copyright": "the exception"},
    "gcc-15-base": {"usr/share/doc/gcc-15-base/copyright": "the exception of 15"},
    "libnuma1": {"usr/share/doc/libnuma1/copyright": "of libnuma"},
}
LOCKS = {
    "licenses": ("base-files", "gcc-14-base", "gcc-15-base"),
    "sysroot": ("libnuma1",),
    "compiler": ("libgcc-14-dev", "libgcc-s1", "libstdc++-14-dev", "libstdc++6"),
}


class Place:
    """A project with its locks, a mirror, and the trees of libraries."""

    def __init__(self, base: Path) -> None:
        self.base = base
        names = {name for lock in LOCKS.values() for name in lock}
        self.packages = {name: self._package(name, TEXTS.get(name, {})) for name in sorted(names)}
        for lock, names in LOCKS.items():
            self._write_lock(lock, [self.packages[name] for name in names])
        self.onednn = OneDnn(self.tree("onednn", "LICENSE", "THIRD-PARTY-PROGRAMS"), "v3", "3.7", "d" * 64, "alternate")
        self.acl = Acl(self.tree("acl", "LICENSE", "LICENSES/MIT.txt"), "v52", "c" * 40, "pinned", {})
        source = self.tree("gperftools", "COPYING")
        self.tcmalloc = Tcmalloc("2.16", "e" * 64, "key", base / "libtcmalloc_minimal.so", source)

    @property
    def context(self) -> BuildContext:
        target = TARGET.model_copy(update={"sysroot": "sysroot", "toolchain": "compiler"})
        return build_context(
            self.base / "cache", target, root=self.base / "root", mirrors=((self.base / "mirror").as_uri(),)
        )

    def tree(self, name: str, *files: str) -> Path:
        for file in files:
            path = self.base / name / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{file} of {name}")
        return self.base / name

    def module(self, *needed: str) -> Path:
        path = self.base / "module.so"
        path.write_bytes(Elf(needed=needed).write())
        return path

    def get(
        self, modules: Iterable[Path] = (), kind: str = "debian", version: str = "14.2.0", **changes: object
    ) -> Components:
        parts = {"onednn": self.onednn, "acl": self.acl, "tcmalloc": self.tcmalloc} | changes
        return get_components(self.context, toolchain(kind=kind, version=version), modules, **parts)  # type: ignore[arg-type]

    def _package(self, name: str, files: dict[str, str]) -> DebianPackage:
        path = Deb(files).write(self.base / "mirror" / f"{name}.deb")
        return DebianPackage(name=name, version="1-2", path=path.name, size=path.stat().st_size, sha256=sha256(path))

    def _write_lock(self, name: str, packages: list[DebianPackage]) -> None:
        path = self.base / "root" / "locks" / f"{name}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(lock_text(DebianLock(suites={}, architecture="amd64", packages=tuple(packages))))


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_archives_that_debian_keeps_are_named(place: Place) -> None:
    context = place.context
    archive = context.matrix.gperftools
    assert archive is not None
    assert {one.name: one.archive for one in place.get().listed if one.archive} == {}
    tcmalloc = replace(place.tcmalloc, digest=archive.sha256)
    (alternate, *_) = context.matrix.onednn["v3.13"].alternates
    onednn = replace(place.onednn, digest=alternate.sha256)
    listed = place.get(tcmalloc=tcmalloc, onednn=onednn).listed
    assert {one.name: one.archive for one in listed if one.archive} == {
        "gperftools": archive.debian,
        "oneDNN": alternate.debian,
    }


def test_each_library_is_listed_with_its_licence(place: Place) -> None:
    found = place.get([place.module("libnuma.so.1", "libc.so.6")])
    assert [(one.name, one.version, one.license) for one in found.listed] == [
        ("oneDNN", "3.7", "Apache-2.0 AND BSD-3-Clause AND BSL-1.0"),
        ("Arm Compute Library", "v52", "MIT"),
        ("gperftools", "2.16", "BSD-3-Clause"),
        ("libstdc++", "1-2", "GPL-3.0-or-later WITH GCC-exception-3.1"),
        ("libgcc", "1-2", "GPL-3.0-or-later WITH GCC-exception-3.1"),
        ("numactl", "1-2", "LGPL-2.1-only"),
    ]
    texts = {name: (found.folder / name).read_text() for one in found.listed for name in one.texts}
    assert texts == {
        "third-party/oneDNN/LICENSE": "LICENSE of onednn",
        "third-party/oneDNN/THIRD-PARTY-PROGRAMS": "THIRD-PARTY-PROGRAMS of onednn",
        "third-party/Arm-Compute-Library/LICENSE": "LICENSE of acl",
        "third-party/Arm-Compute-Library/LICENSES/MIT.txt": "LICENSES/MIT.txt of acl",
        "third-party/gperftools/COPYING": "COPYING of gperftools",
        "third-party/GCC-runtime/copyright": "the exception",
        "third-party/GCC-runtime/GPL-3": "the GPL",
        "third-party/numactl/copyright": "of libnuma",
        "third-party/numactl/LGPL-2.1": "the LGPL",
    }
    assert all(digest == sha256(found.folder / name) for one in found.listed for name, digest in one.texts.items())


def test_what_is_from_a_package_has_the_packages_name_and_digest(place: Place) -> None:
    found = place.get([place.module("libnuma.so.1")])
    assert {one.name: (one.package, one.digest) for one in found.listed if one.package is not None} == {
        name: (f"{package}.deb", sha256(place.base / "mirror" / f"{package}.deb"))
        for name, package in {"libstdc++": "libstdc++-14-dev", "libgcc": "libgcc-14-dev", "numactl": "libnuma1"}.items()
    }


@pytest.mark.parametrize(
    ("version", "text"),
    [("14.2.0", "the exception"), ("15.3.0", "the exception of 15"), ("13.3.0", "the exception of 15")],
)
def test_the_terms_of_the_runtime_are_those_of_its_release(place: Place, version: str, text: str) -> None:
    found = place.get(version=version)
    assert (found.folder / "third-party/GCC-runtime/copyright").read_text() == text


def test_the_runtime_of_a_compiler_of_this_machine_is_from_no_package(place: Place) -> None:
    runtime = [one for one in place.get(kind="host").listed if one.name in {"libstdc++", "libgcc"}]
    assert [(one.version, one.digest, one.package) for one in runtime] == [("14.2.0", "tc", None)] * 2


@pytest.mark.parametrize("target", load_matrix(ROOT).targets, ids=lambda target: target.id)
def test_each_compilers_lock_tells_where_its_runtime_is_from(target: Target, place: Place) -> None:
    if target.toolchain is None:
        assert target.compiler.family == "AppleClang"
        return
    context = build_context(place.base / "cache", target, root=ROOT)
    chain = toolchain(kind="debian", cxx_libraries=("/tc/libstdc++.a",))
    names = {package.path.rpartition("/")[2]: package for package in load_lock(ROOT, target.toolchain).packages}
    for component in runtime_components(context, chain):
        assert names[component.package or ""].sha256 == component.digest
        release = target.toolchain.split("-")[1]
        assert names[component.package or ""].name.startswith(f"{component.name}-{release}-dev")
        assert target.machine == "x86_64" or "-cross_" in (component.package or "")


@pytest.mark.parametrize("packages", [("libgcc-14-dev", "libstdc++6"), ("libstdc++-14-dev", "libstdc++-15-dev")])
def test_a_lock_that_does_not_tell_where_the_runtime_is_from_is_refused(
    packages: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(LOCKS, "compiler", packages)
    with pytest.raises(WheelError, match=r"[02] packages may hold the libstdc\+\+\.a"):
        Place(tmp_path).get()


def test_only_what_the_wheel_holds_is_listed(place: Place) -> None:
    shared = toolchain(cxx_libraries=())
    found = get_components(
        place.context,
        shared,
        [place.module("libc.so.6")],
        onednn=None,
        acl=replace(place.acl, folder=None),
        tcmalloc=None,
    )
    assert found.listed == ()


def test_the_second_build_needs_no_mirror(place: Place) -> None:
    first = place.get()
    for package in place.packages:
        (place.base / "mirror" / f"{package}.deb").unlink()
    assert place.get() == first
    other = replace(place.tcmalloc, source=place.tree("gperftools", "COPYING", "NOTICE"))
    assert "third-party/gperftools/NOTICE" in place.get(tcmalloc=other).listed[2].texts
    with pytest.raises(DownloadError, match="libnuma1"):
        place.get([place.module("libnuma.so.1")])


def test_sources_without_terms_are_refused(place: Place) -> None:
    with pytest.raises(WheelError, match=r"gperftools 2\.16 state no licence"):
        place.get(tcmalloc=replace(place.tcmalloc, source=place.tree("bare", "README")))


def test_a_package_without_the_text_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TEXTS, "gcc-14-base", {"usr/share/doc/gcc-14-base/README": "?"})
    with pytest.raises(ToolchainError, match="has no usr/share/doc/gcc-14-base/copyright"):
        Place(tmp_path).get()


def test_the_metadata_name_every_text(place: Place, tmp_path: Path) -> None:
    own = place.tree("own", "LICENSE")
    head = b"Metadata-Version: 2.4\nName: demo\nVersion: 1\nLicense-File: LICENSE\n"
    project = read_project(head + b"License-Expression: MIT OR Apache-2.0\n")
    found = with_components(project, place.get(acl=None), own, tmp_path / "all")
    assert found.license_expression == (
        "(MIT OR Apache-2.0) AND Apache-2.0 AND BSD-3-Clause AND BSL-1.0 AND GPL-3.0-or-later WITH GCC-exception-3.1"
    )
    assert found.license_files == (
        "LICENSE",
        "third-party/GCC-runtime/GPL-3",
        "third-party/GCC-runtime/copyright",
        "third-party/gperftools/COPYING",
        "third-party/oneDNN/LICENSE",
        "third-party/oneDNN/THIRD-PARTY-PROGRAMS",
    )
    assert all((tmp_path / "all" / name).is_file() for name in found.license_files)
    assert (tmp_path / "all" / "LICENSE").read_text() == "LICENSE of own"


def test_a_project_without_an_expression_gets_none(place: Place, tmp_path: Path) -> None:
    project = read_project(b"Metadata-Version: 2.1\nName: demo\nVersion: 1\nLicense: MIT\n")
    found = with_components(project, place.get(), tmp_path, tmp_path / "all")
    assert (found.license_expression, found.license_text) == ("", "MIT")
