"""A bill of materials that is missing, damaged, or says something else than wheel or note: each fault is one line."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from cpuwheels.audit.sbom import LIBRARY, sbom_faults
from cpuwheels.pipeline.sbom import Subject, wheel_sbom
from wheel_notes import wheel_note

FILE = "vllm-1.0+cpu-cp38-abi3-manylinux_2_27_x86_64.whl"
METADATA = b"Metadata-Version: 2.4\nName: vllm\nVersion: 1.0+cpu\nRequires-Dist: torch==2.14.0\n"
BINARIES = {"vllm/_C.abi3.so": "1" * 64, "vllm.libs/libnuma-1.so.1": "2" * 64, "vllm/libs/libtcmalloc.so": "3" * 64}
PATCH = {"file": "0001-a.patch", "sha256": "4" * 64, "state": "applied"}
NOTE = wheel_note(
    source={"version": "1.0", "digest": "5" * 64, "epoch": 5, "sdist": True},
    patches=[PATCH, PATCH | {"file": "0002-b.patch", "state": "not needed"}],
    onednn={"tag": "v3", "version": "c" * 40, "digest": "c" * 40, "kind": "pinned", "patches": [PATCH]},
    bundled_libraries={"vllm.libs/libnuma-1.so.1": "libnuma.so.1"},
    components=[
        {"name": name, "version": "1", "license": "MIT", "digest": digest, "libraries": libraries, "texts": {}, **more}
        for name, digest, libraries, more in (
            ("oneDNN", "c" * 40, [], {}),
            ("numactl", "6" * 64, ["libnuma.so.1"], {"package": "libnuma1_1_amd64.deb"}),
            ("gperftools", "7" * 64, ["libtcmalloc.so"], {"archive": "pool/g.tar.gz"}),
            ("libgcc", "key-of-a-compiler", [], {}),
        )
    ],
)
SUBJECT = Subject(FILE, "vllm", "1.0+cpu", "MIT", "==2.14.0")
GOOD = wheel_sbom(NOTE, SUBJECT, BINARIES)


def faults(content: bytes | None = GOOD, note: bytes = NOTE.render(), **changes: Any) -> list[str]:
    given = {"metadata": METADATA, "wheel": FILE, "binaries": BINARIES} | changes
    return list(sbom_faults(content, note, **given))


def changed(change: Callable[[dict[str, Any], dict[str, Any]], object]) -> list[str]:
    """Return the faults of a document that was changed; the change is given it and its components by name."""
    data = json.loads(GOOD)
    change(data, {one["name"]: one for one in data["components"]})
    return faults(json.dumps(data).encode())


def test_one_that_agrees() -> None:
    assert faults() == []


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        ({"content": None}, "it has no sboms/cpuwheels.cdx.json"),
        ({"content": b"{}"}, "its sboms/cpuwheels.cdx.json is not CycloneDX 1.7"),
        ({"note": b"{"}, "cpuwheels.json is not valid JSON: "),
        (
            {"metadata": METADATA.replace(b"torch==2.14.0", b"torch; sys_platform ~= 'x'")},
            "METADATA has a requirement that cannot be evaluated: Undefined",
        ),
        ({"wheel": FILE.replace("2_27", "2_28")}, f"does not name {FILE.replace('2_27', '2_28')}"),
        ({"metadata": METADATA.replace(b"1.0+cpu", b"1.1+cpu")}, "is of 'vllm' '1.0+cpu', the wheel is vllm 1.1+cpu"),
        ({"metadata": METADATA.replace(b"2.14.0", b"2.13.0")}, "has torch '2.14.0', the wheel requires torch==2.13.0"),
        ({"binaries": BINARIES | {"vllm/evil.so": "8" * 64}}, "does not list vllm/evil.so"),
        ({"binaries": BINARIES | {"vllm/_C.abi3.so": "8" * 64}}, "another digest of vllm/_C.abi3.so than the wheel"),
        (
            {"binaries": {name: digest for name, digest in BINARIES.items() if name != "vllm/_C.abi3.so"}},
            "lists 'vllm/_C.abi3.so', which the wheel does not have",
        ),
    ],
)
def test_another_wheel_note_or_document(given: dict[str, Any], fault: str) -> None:
    (found,) = faults(**given)
    assert fault in found


CHANGES: list[tuple[Callable[[dict[str, Any], dict[str, Any]], object], str]] = [
    (lambda data, _: data["components"].pop(0), "does not list"),
    (
        lambda data, by: data["components"].append(by["numactl"] | {"bom-ref": "x", "components": []}),
        "lists 'numactl' twice",
    ),
    (lambda _, by: by["numactl"].update(name="other"), "does not list numactl"),
    (lambda _, by: by["numactl"].update(purl="pkg:generic/numactl@1"), "has 'pkg:generic/numactl@1' for numactl"),
    (lambda _, by: by["numactl"].update(version="2"), "has another version, licence or digest of numactl"),
    (lambda _, by: by["numactl"].update(licenses=[{"expression": "GPL-3.0-only"}]), "licence or digest of numactl"),
    (lambda _, by: by["gperftools"]["hashes"][0].update(content="9" * 64), "licence or digest of gperftools"),
    (lambda _, by: by["gperftools"].pop("hashes"), "licence or digest of gperftools"),
    (lambda _, by: by["oneDNN"]["pedigree"]["commits"][0].update(uid="d" * 40), "licence or digest of oneDNN"),
    (lambda _, by: by["libgcc"]["properties"][0].update(value="other"), "licence or digest of libgcc"),
    (
        lambda _, by: by["numactl"]["components"][0]["hashes"][0].update(content="9" * 64),
        "another digest of vllm.libs/",
    ),
    (lambda _, by: by["numactl"].pop("components"), "does not list vllm.libs/libnuma-1.so.1"),
    (lambda _, by: by["oneDNN"]["pedigree"].pop("patches"), "lists other patches of oneDNN"),
    (lambda data, _: pedigree(data)["patches"][0]["diff"].update(url="patches/0001-a.patch"), "patches of vLLM"),
    (lambda data, _: pedigree(data)["ancestors"][0]["hashes"][0].update(content="9" * 64), "names another source"),
    (lambda data, _: pedigree(data).pop("ancestors"), "names another source"),
    (lambda data, _: data["metadata"].pop("component"), "is of None None"),
    (
        lambda data, _: data["metadata"]["component"].update(purl=f"pkg:pypi/evil@1?file_name={FILE}"),
        f"does not name {FILE}",
    ),
]


def pedigree(data: dict[str, Any]) -> Any:
    return data["metadata"]["component"]["pedigree"]


@pytest.mark.parametrize(("change", "fault"), CHANGES)
def test_each_tampered_part_is_named(change: Callable[[dict[str, Any], dict[str, Any]], object], fault: str) -> None:
    found = changed(change)
    assert any(fault in line for line in found), found
    assert all(line.startswith("its sboms/cpuwheels.cdx.json ") for line in found)


def test_names_of_libraries() -> None:
    for name in ("a/_C.abi3.so", "a.libs/libnuma-1.so.1.0.0", "a/libx.dylib", "a/libx.1.so"):
        assert LIBRARY.fullmatch(name), name
    for name in ("a/_C.py", "a/libx.so.txt", "a/so"):
        assert not LIBRARY.fullmatch(name), name
