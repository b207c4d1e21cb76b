"""The bill of materials of a wheel, from its note, its metadata and the digests of its binaries, and from nothing else.

So a wheel with kernels of another one has the same as one that compiled them, and one under another name has its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cyclonedx.model.component import Commit, Component, ComponentType, Patch, Pedigree

from cpuwheels.config.package_urls import debian, generic, github, library, pypi
from cpuwheels.core.digests import COMMIT
from cpuwheels.source.acl import NAME as ACL
from cpuwheels.wheel.sbom import licences
from cpuwheels.wheel.sbom.document import Document, Formulation
from cpuwheels.wheel.sbom.parts import component, file, patch, reference

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from cpuwheels.pipeline.provenance import ComponentFacts, PackageFacts, PatchFacts, WheelNote

_VLLM = "vllm-project/vllm"
_APPLIED = "applied"
_COMPILERS = {"GNU": "gcc", "AppleClang": "clang"}
"""Names of compilers by CMake's."""


@dataclass(frozen=True)
class Subject:
    """A wheel, as its metadata and its file name have it.

    Attributes:
        file: Its file name.
        name: Of its distribution.
        version: With its local label, if it has one.
        expression: Its licence; empty if it declares none.
        torch: What it requires of torch, such as ``==2.13.0+cpu``.
    """

    file: str
    name: str
    version: str
    expression: str
    torch: str


def wheel_sbom(note: WheelNote, subject: Subject, binaries: Mapping[str, str]) -> bytes:
    """Return the bill of materials of a wheel.

    Args:
        note: What it was made from.
        subject: What it is.
        binaries: Path of each extension module and library in it → SHA-256.
    """
    libraries = {each.name: _files(each, note, binaries) for each in note.components}
    others = binaries.keys() - {path for paths in libraries.values() for path in paths}
    parts = [_library(each, note, {path: binaries[path] for path in libraries[each.name]}) for each in note.components]
    acl = [reference(each) for each in parts if each.name == ACL]
    return Document(
        subject=_wheel(note, subject, {path: binaries[path] for path in others}),
        epoch=note.source.epoch,
        components=[*parts, _torch(subject.torch)],
        formulation=_formulation(note),
        # It is part of oneDNN there, and of nothing else.
        required={reference(each): acl for each in parts if each.name == "oneDNN" and acl},
    ).render()


def _wheel(note: WheelNote, subject: Subject, binaries: Mapping[str, str]) -> Component:
    return component(
        subject.name,
        subject.version,
        purl=pypi(subject.name, subject.version, subject.file),
        expression=subject.expression,
        parts=[file(path, digest) for path, digest in binaries.items()],
        pedigree=Pedigree(
            ancestors=[_upstream(note)], commits=_commits(note.source.commit), patches=_patches(note.patches)
        ),
        properties={
            "alternates": "; ".join(note.alternates),
            "kernels": note.kernel_key,
            "policy": note.policy,
            "target": note.target,
        },
    )


def _upstream(note: WheelNote) -> Component:
    """Return vLLM as upstream published it."""
    source = note.source
    if source.sdist:
        purl = pypi("vllm", source.version, f"vllm-{source.version}.tar.gz")
        return component("vllm", source.version, purl=purl, digest=source.digest)
    purl = github(_VLLM, source.commit) if source.commit else generic("vllm", source.version)
    # The digest of a tree is one of names and digests, which no other program computes.
    return component("vllm", source.version, purl=purl, properties={"digest": source.digest})


def _library(facts: ComponentFacts, note: WheelNote, files: Mapping[str, str]) -> Component:
    onednn = note.onednn if facts.name == "oneDNN" else None
    commit = facts.digest if COMMIT.fullmatch(facts.digest) else None
    pedigree = Pedigree(commits=_commits(commit), patches=_patches(onednn.patches) if onednn else ())
    purl = library(facts.name, facts.version, facts.digest, package=facts.package, archived=facts.archive)
    return component(
        facts.name,
        facts.version,
        purl=purl,
        # A compiler of the building machine is named by a key.
        digest=facts.digest if facts.package or facts.archive else "",
        expression=facts.license,
        parts=[file(path, digest) for path, digest in files.items()],
        pedigree=pedigree if pedigree.commits or pedigree.patches else None,
        properties={"digest": "" if facts.package or facts.archive or commit else facts.digest},
    )


def _files(facts: ComponentFacts, note: WheelNote, binaries: Mapping[str, str]) -> list[str]:
    """Return the paths of a component's libraries in the wheel."""
    sonames = note.bundled_libraries
    return [path for path in sorted(binaries) if sonames.get(path, path.rpartition("/")[2]) in facts.libraries]


def _torch(specifier: str) -> Component:
    """Return the torch that is expected where the wheel is installed."""
    version = specifier.removeprefix("==") if specifier.startswith("==") else ""
    return component("torch", version, purl=pypi("torch", version), expression=licences.TORCH, external=True)


def _commits(commit: str | None) -> list[Commit]:
    return [Commit(uid=commit)] if commit else []


def _patches(patches: Iterable[PatchFacts]) -> list[Patch]:
    return [patch(one.file, one.sha256, one.fixes) for one in patches if one.state == _APPLIED]


def _formulation(note: WheelNote) -> Formulation:
    tools, packing = _tools(note.tools), _tools(note.packing_tools)
    locks = (
        [component("locks/build-tools.txt", kind=ComponentType.FILE, digest=note.tools_lock)] if note.tools_lock else []
    )
    family, _, version = note.toolchain.version.partition(" ")
    family = _COMPILERS.get(family, family)
    compiler = component(
        family,
        version,
        kind=ComponentType.APPLICATION,
        purl=generic(family, version),
        expression=licences.COMPILERS.get(family, ""),
        parts=_packages(note.toolchain.packages, "compiler"),
        properties={"digest": note.toolchain.digest},
    )
    sysroot = [component("sysroot", kind=ComponentType.PLATFORM, parts=_packages(note.toolchain.sysroot, "sysroot"))]
    torch = component(
        "torch",
        note.torch.version,
        purl=pypi("torch", note.torch.version),
        expression=licences.TORCH,
        parts=_packages(note.torch.packages, "torch"),
        properties={"digest": note.torch.digest},
        within="build",
    )
    compiling = [compiler, torch, *tools, *locks, *(sysroot if note.toolchain.sysroot else [])]
    known = {reference(each): each for each in [*compiling, *packing]}
    return Formulation(
        uid=note.kernel_key,
        components=list(known.values()),
        tasks={
            "kernels": [reference(each) for each in compiling],
            "wheel": [reference(each) for each in [*packing, *locks]],
        },
    )


def _tools(versions: Mapping[str, str]) -> list[Component]:
    return [
        component(
            name,
            version,
            kind=ComponentType.APPLICATION,
            purl=pypi(name, version),
            expression=licences.TOOLS.get(name, ""),
        )
        for name, version in versions.items()
    ]


def _packages(packages: Iterable[PackageFacts], of: str) -> list[Component]:
    return [
        component(
            one.name,
            one.version,
            purl=debian(one.file, one.version),
            digest=one.sha256,
            expression=licences.of_package(one.name),
            within=of,
        )
        for one in packages
    ]
