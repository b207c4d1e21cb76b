"""What a wheel contains besides vLLM: libraries next to the modules or linked into them, with their licences.

The texts come from the pinned sources of each library: its own tree, or its Debian package. They go into the wheel as
its licence files (PEP 639).
"""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from packaging.licenses import canonicalize_license_expression

from cpuwheels.config.debian_lock import LICENCES, load_lock
from cpuwheels.core.digests import file_digest, make_key
from cpuwheels.core.elf import is_elf, read_needed
from cpuwheels.core.errors import WheelError
from cpuwheels.fetch.debian.deb import read_member
from cpuwheels.fetch.debian.mirrors import debian_mirrors
from cpuwheels.fetch.debian.root import fetch_package
from cpuwheels.kernels.tcmalloc import FILE as TCMALLOC
from cpuwheels.source import acl as arm

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from cpuwheels.config.context import BuildContext
    from cpuwheels.config.debian_lock import DebianLock, DebianPackage
    from cpuwheels.config.matrix import Matrix
    from cpuwheels.kernels.tcmalloc import Tcmalloc
    from cpuwheels.source.acl import Acl
    from cpuwheels.source.onednn import OneDnn
    from cpuwheels.toolchain.result import Toolchain
    from cpuwheels.wheel.core_metadata import Project

FOLDER = "third-party"
"""Folder of the texts below the licence files of a wheel."""

KIND = "licences"

_PATTERNS = ("LICEN[CS]E*", "COPYING*", "NOTICE*", "THIRD-PARTY-PROGRAMS*", "LICENSES/*")
"""Files of a source tree that state its terms."""

_ONEDNN = "Apache-2.0 AND BSD-3-Clause AND BSL-1.0"
"""Its own licence, that of Xbyak and ittnotify, and Boost's for its hashing."""

_GCC = "GPL-3.0-or-later WITH GCC-exception-3.1"

_RUNTIME = ("libstdc++", "libgcc")
"""Static libraries of a compiler that are linked into what it makes."""

_BASE = re.compile(r"gcc-(\d+)-base")
"""Debian's packages with the terms of the runtime of a release of GCC."""

_COMMON = "usr/share/common-licenses"
_DOC = "usr/share/doc/{}/copyright"


@dataclass(frozen=True)
class Component:
    """A library in a wheel.

    Attributes:
        name: As its project names it.
        version: Of its source or package.
        license: SPDX expression.
        digest: Of its source; the SHA-256 of `package` if it comes from one; of the compiler for the runtime of a
            compiler of this machine.
        libraries: Sonames under which the wheel may hold it; otherwise it is linked into the modules.
        texts: Licence file of the wheel → digest of its content.
        package: File name of the Debian package that its bytes come from.
        archive: Path below a Debian mirror of the archive of its sources; `digest` is then that file's.
    """

    name: str
    version: str
    license: str
    digest: str
    libraries: tuple[str, ...]
    texts: Mapping[str, str]
    package: str | None = None
    archive: str | None = None


@dataclass(frozen=True)
class Components:
    """The libraries in a wheel and their licences.

    Attributes:
        listed: The libraries.
        folder: Where the texts are, by their names in the wheel.
    """

    listed: tuple[Component, ...]
    folder: Path


@dataclass(frozen=True)
class _Packaged:
    """A licence file of a Debian package."""

    package: DebianPackage
    member: str


@dataclass(frozen=True)
class _Wanted:
    """A library whose texts are still to be collected: from its tree, or from packages."""

    component: Component
    texts: Mapping[str, Path | _Packaged]

    @property
    def digests(self) -> list[str]:
        packages = sorted(text.package.sha256 for text in self.texts.values() if isinstance(text, _Packaged))
        return [self.component.name, self.component.digest, *sorted(self.texts), *packages]


def get_components(
    context: BuildContext,
    toolchain: Toolchain,
    modules: Iterable[Path],
    *,
    onednn: OneDnn | None,
    acl: Acl | None,
    tcmalloc: Tcmalloc | None,
) -> Components:
    """Return the libraries in a wheel; the texts of their licences are from the store or collected now.

    Args:
        context: The run.
        toolchain: Its runtime is in the modules if it has a static C++ library.
        modules: The extension modules and their libraries: which system libraries they need.
        onednn: Linked into them, if at all.
        acl: Likewise.
        tcmalloc: Next to them, if at all.

    Raises:
        WheelError: A source tree states no terms, or the compiler's lock does not tell which package is in the wheel.
        DownloadError: A package is on no mirror and not in the store.
        ToolchainError: A package has no such text.
    """
    wanted = [*_compiled_in(context.matrix, onednn, acl, tcmalloc), *_packaged(context, toolchain, modules)]

    def make(folder: Path) -> None:
        for each in wanted:
            for name, text in each.texts.items():
                path = folder / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(_read(context, text))

    folder = context.store.get(KIND, make_key(layout=1, wanted=[each.digests for each in wanted]), make)
    listed = (
        replace(each.component, texts={name: file_digest(folder / name) for name in sorted(each.texts)})
        for each in wanted
    )
    return Components(tuple(listed), folder)


def with_components(project: Project, components: Components, own: Path, folder: Path) -> Project:
    """Return a project's metadata with the licences of the libraries in its wheel.

    Args:
        project: As its source declares it.
        components: The libraries.
        own: Folder with the licence files that the metadata names.
        folder: Made; all licence files are copied there.
    """
    texts = {name for component in components.listed for name in component.texts}
    for names, place in ((project.license_files, own), (sorted(texts), components.folder)):
        for name in names:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(place / name, folder / name)
    files = tuple(dict.fromkeys((*project.license_files, *sorted(texts))))
    return replace(project, license_files=files, license_expression=_combined(project, components.listed))


def _combined(project: Project, components: Iterable[Component]) -> str:
    """Return the licence expression of the whole wheel; none if its source declares none (PEP 639)."""
    if not project.license_expression:
        return ""
    parts = [f"({project.license_expression})" if " OR " in project.license_expression else project.license_expression]
    parts += [part for component in components for part in component.license.split(" AND ")]
    return str(canonicalize_license_expression(" AND ".join(dict.fromkeys(parts))))


def _compiled_in(matrix: Matrix, onednn: OneDnn | None, acl: Acl | None, tcmalloc: Tcmalloc | None) -> list[_Wanted]:
    pinned = [archive for pin in matrix.onednn.values() for archive in pin.alternates]
    archives = {one.sha256: one.debian for one in (*pinned, matrix.gperftools) if one is not None}
    found = []
    if onednn is not None:
        libraries = ("libcpuwheels_dnnl.so",)
        component = Component(
            "oneDNN", onednn.version, _ONEDNN, onednn.digest, libraries, {}, None, archives.get(onednn.digest)
        )
        found.append(_of_tree(component, onednn.folder))
    if acl is not None and acl.folder is not None:
        commit = acl.commit or ""
        found.append(_of_tree(Component(arm.NAME, acl.tag, "MIT", commit, (), {}), acl.folder))
    if tcmalloc is not None:
        library = TCMALLOC.rpartition("/")[2]
        component = Component(
            "gperftools",
            tcmalloc.version,
            "BSD-3-Clause",
            tcmalloc.digest,
            (library,),
            {},
            None,
            archives.get(tcmalloc.digest),
        )
        found.append(_of_tree(component, tcmalloc.source))
    return found


def _of_tree(component: Component, folder: Path) -> _Wanted:
    found = {path for pattern in _PATTERNS for path in folder.glob(pattern) if path.is_file()}
    if not found:
        raise WheelError(
            f"the sources of {component.name} {component.version} state no licence",
            where=folder,
            next_step=f"add the name of the file to {__name__}",
        )
    return _Wanted(component, {_name(component.name, str(path.relative_to(folder))): path for path in sorted(found)})


def _packaged(context: BuildContext, toolchain: Toolchain, modules: Iterable[Path]) -> list[_Wanted]:
    """Return what comes from Debian packages: the compiler's runtime, and libnuma."""
    packages = {package.name: package for package in load_lock(context.root, LICENCES).packages}
    common, exception = packages["base-files"], _exception_of(toolchain, packages)
    found: list[_Wanted] = []
    if any(part.endswith("libstdc++.a") for part in toolchain.cxx_libraries):
        runtime = runtime_components(context, toolchain)
        found += [_of_package(each, exception, common, "GPL-3", folder="GCC-runtime") for each in runtime]
    if context.target.sysroot is not None and any("libnuma.so.1" in _needed(module) for module in modules):
        sysroot = load_lock(context.root, context.target.sysroot)
        package = next(package for package in sysroot.packages if package.name == "libnuma1")
        component = _from_package("numactl", "LGPL-2.1-only", package, "libnuma.so.1")
        found.append(_of_package(component, package, common, "LGPL-2.1", folder=component.name))
    return found


def _exception_of(toolchain: Toolchain, packages: Mapping[str, DebianPackage]) -> DebianPackage:
    """Return the package with the terms of a compiler's runtime: of its own release, else of the newest one locked."""
    bases = {match[1]: package for name, package in packages.items() if (match := _BASE.fullmatch(name))}
    return bases.get(toolchain.version.partition(".")[0]) or bases[max(bases, key=int)]


def runtime_components(context: BuildContext, toolchain: Toolchain) -> list[Component]:
    """Return what is linked into each module from the compiler's own static libraries, without the texts.

    Args:
        context: The run.
        toolchain: The compiler: the pinned one, whose lock has the packages, or one of this machine.

    Raises:
        MatrixError: The lock cannot be read.
        WheelError: It does not tell which of its packages holds a library.
    """
    if toolchain.kind != "debian" or context.target.toolchain is None:
        return [Component(name, toolchain.version, _GCC, toolchain.digest, (), {}) for name in _RUNTIME]
    lock = load_lock(context.root, context.target.toolchain)
    return [_from_package(name, _GCC, _package_of(lock, name, context.target.toolchain)) for name in _RUNTIME]


def _package_of(lock: DebianLock, library: str, name: str) -> DebianPackage:
    """Return the package of a compiler's lock that holds ``<library>.a``: a cross compiler's is for its target."""
    pattern = re.compile(rf"{re.escape(library)}-\d+-dev(-\w+-cross)?")
    found = [package for package in lock.packages if pattern.fullmatch(package.name)]
    if len(found) != 1:
        raise WheelError(
            f"{len(found)} packages may hold the {library}.a that is in the wheel",
            where=f"locks/{name}.yaml",
            output="\n".join(package.name for package in found),
            next_step=f"lock one package that matches {pattern.pattern}",
        )
    return found[0]


def _from_package(name: str, spdx: str, package: DebianPackage, *libraries: str) -> Component:
    file = package.path.rpartition("/")[2]
    return Component(name, package.version, spdx, package.sha256, libraries, {}, file)


def _of_package(
    component: Component, package: DebianPackage, common: DebianPackage, terms: str, *, folder: str
) -> _Wanted:
    texts = {"copyright": _Packaged(package, _DOC.format(package.name)), terms: _Packaged(common, f"{_COMMON}/{terms}")}
    return _Wanted(component, {_name(folder, name): text for name, text in texts.items()})


def _name(folder: str, name: str) -> str:
    # The characters that PEP 639 allows in the path of a licence file.
    return f"{FOLDER}/{re.sub('[^A-Za-z0-9._-]+', '-', folder)}/{name}"


def _needed(module: Path) -> tuple[str, ...]:
    with module.open("rb") as stream:
        return read_needed(stream)[0] if is_elf(stream) else ()


def _read(context: BuildContext, text: Path | _Packaged) -> bytes:
    if isinstance(text, _Packaged):
        mirrors = debian_mirrors(context)
        return read_member(fetch_package(text.package, mirrors, context.store), text.member)
    return text.read_bytes()
