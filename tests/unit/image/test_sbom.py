"""The bill of materials of an image: packages with their digests, and the wheel with a link to its own."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import pytest

from cpuwheels.config.debian_lock import DebianLock, DebianPackage
from cpuwheels.core.errors import ImageError, UnsafeArchiveError
from cpuwheels.image.contents import Contents, Wheel, debian_packages, locked, wheel_in
from cpuwheels.image.layers import Member, write_layer
from cpuwheels.image.oci import Image, Settings
from cpuwheels.image.sbom import image_sbom
from cpuwheels.wheel.sbom.schema import FILE, LONGEST, read_document
from wheel_writer import write_raw

LABELS = {
    "org.opencontainers.image.version": "1.0+cpu",
    "org.opencontainers.image.licenses": "Apache-2.0",
    "cpuwheels.target": "x86",
    "cpuwheels.without": "triton",
}
BILL = {
    "bomFormat": "CycloneDX",
    "specVersion": "1.7",
    "serialNumber": "urn:uuid:5d6a4a4f-98d6-5a3f-9c21-5f4a9a0f2f11",
    "version": 1,
}
LOCK = "Demo_A==1.0 \\\n    --hash=sha256:00\n    # via x\nleft-out==2.0 ; python_version < '4'\n"


def package(name: str, version: str = "1:2.0-1") -> DebianPackage:
    path = f"pool/{name}_{version.rpartition(':')[2]}_amd64.deb"
    return DebianPackage(name=name, version=version, path=path, size=1, sha256="a" * 64)


def lock(*names: str) -> DebianLock:
    return DebianLock(suites={}, architecture="amd64", packages=tuple(map(package, names)))


FILES = {
    "usr/share/doc/libc6/copyright": "Format: 1.0\n\nFiles: *\nCopyright: a\nLicense: LGPL-2.1+\n",
    "x/demo_a-1.0.dist-info/METADATA": "Name: Demo_A\nVersion: 1.0\nLicense-Expression: MIT\n",
    "x/torch-2.13.0+cpu.dist-info/METADATA": "Name: torch\nVersion: 2.13.0+cpu\nClassifier: License :: BSD License\n",
}


def image(folder: Path) -> Image:
    members = {name: Member(text.encode()) for name, text in FILES.items()}
    layer = write_layer(members, 5, folder / "layer", "one")
    return Image("x86_64", 1_700_000_000, Settings("1:1", {}, ["vllm"], "/", 8000, ["true"], LABELS), (layer,))


CONTENTS = Contents(
    debian_packages([lock("libc6", "libstdc++6"), lock("libc6", "g++")]),
    (locked(Path("locks/x86-1.0-py3.11.txt"), LOCK),),
    "2.13.0+cpu",
    Wheel("vllm-1.0+cpu-x.whl", "1.0+cpu", "b" * 64, "urn:cdx:5d6a4a4f-98d6-5a3f-9c21-5f4a9a0f2f11/1", "c" * 64),
)


def test_everything_in_it_is_listed_once(tmp_path: Path) -> None:
    one = image(tmp_path)
    data = read_document(image_sbom("vllm-cpu", one, CONTENTS))
    subject = data["metadata"]["component"]
    digest = hashlib.sha256(one.manifest()).hexdigest()
    assert (subject["type"], subject["hashes"][0]["content"]) == ("container", digest)
    assert subject["purl"] == f"pkg:oci/vllm-cpu@sha256:{digest}?arch=amd64"
    assert {each["name"]: each["value"] for each in subject["properties"]} == {
        "cpuwheels:target": "x86",
        "cpuwheels:without": "triton",
    }
    assert {
        each.get("purl", each["name"]): each.get("hashes", [{}])[0].get("content") for each in data["components"]
    } == {
        "pkg:deb/debian/libc6@1:2.0-1?arch=amd64": "a" * 64,
        "pkg:deb/debian/libstdc%2B%2B6@1:2.0-1?arch=amd64": "a" * 64,
        "pkg:deb/debian/g%2B%2B@1:2.0-1?arch=amd64": "a" * 64,
        "x86-1.0-py3.11.txt": hashlib.sha256(LOCK.encode()).hexdigest(),
        "pkg:pypi/demo-a@1.0": None,
        "pkg:pypi/left-out@2.0": None,
        "pkg:pypi/torch@2.13.0%2Bcpu": None,
        "pkg:pypi/vllm@1.0%2Bcpu?file_name=vllm-1.0%2Bcpu-x.whl": "b" * 64,
    }
    assert {each["name"]: each["licenses"] for each in data["components"] if "licenses" in each} == {
        "libc6": [{"license": {"name": "LGPL-2.1+"}}],
        "demo-a": [{"expression": "MIT"}],
        "torch": [{"license": {"name": "BSD License"}}],
        "vllm": [{"expression": "Apache-2.0"}],
    }
    wheel = next(each for each in data["components"] if each["name"] == "vllm")
    assert wheel["externalReferences"] == [
        {"type": "bom", "url": CONTENTS.wheel.sbom, "hashes": [{"alg": "SHA-256", "content": "c" * 64}]}
    ]


def test_torch_of_a_debian_package_is_not_listed_twice(tmp_path: Path) -> None:
    data = read_document(image_sbom("vllm-cpu", image(tmp_path), replace(CONTENTS, torch="")))
    assert "torch" not in {each["name"] for each in data["components"]}


def test_another_manifest_is_another_document(tmp_path: Path) -> None:
    one = image(tmp_path)
    again = image_sbom("vllm-cpu", one, CONTENTS)
    assert image_sbom("vllm-cpu", one, CONTENTS) == again
    assert image_sbom("vllm-cpu", replace(one, machine="aarch64"), CONTENTS) != again


def test_a_wheels_own_is_named_by_its_number_and_digest(tmp_path: Path) -> None:
    content = json.dumps(BILL).encode()
    wheel = write_raw(tmp_path / "a-1-x.whl", {f"a-1.dist-info/{FILE}": content})
    digest = hashlib.sha256(content).hexdigest()
    link = "urn:cdx:5d6a4a4f-98d6-5a3f-9c21-5f4a9a0f2f11/1"
    assert wheel_in(wheel, "1", "d" * 64) == Wheel("a-1-x.whl", "1", "d" * 64, link, digest)
    earlier = write_raw(tmp_path / "b-1-x.whl", {"b-1.dist-info/METADATA": b""})
    assert wheel_in(earlier, "1", "d" * 64) == Wheel("b-1-x.whl", "1", "d" * 64)


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (b"{", "not valid JSON"),
        (json.dumps({**BILL, "serialNumber": "urn:uuid:../.."}).encode(), "serialNumber"),
        (json.dumps({name: value for name, value in BILL.items() if name != "serialNumber"}).encode(), "serialNumber"),
        (b'{"version": 1, "version": 2}', "is there twice"),
    ],
)
def test_a_wheel_with_another_document_is_refused(tmp_path: Path, content: bytes, fault: str) -> None:
    wheel = write_raw(tmp_path / "a-1-x.whl", {f"a-1.dist-info/{FILE}": content})
    with pytest.raises(ImageError, match=r"the bill of materials of a-1-x.whl cannot be linked") as raised:
        wheel_in(wheel, "1", "d" * 64)
    assert fault in raised.value.what


def test_no_document_is_read_without_end(tmp_path: Path) -> None:
    wheel = write_raw(tmp_path / "a-1-x.whl", {f"a-1.dist-info/{FILE}": b" " * (LONGEST + 1)})
    with pytest.raises(UnsafeArchiveError, match="more than"):
        wheel_in(wheel, "1", "d" * 64)
