"""Wheels of commits, written for tests of the index."""

from __future__ import annotations

from pathlib import Path

from wheel_notes import wheel_note
from wheel_sboms import with_sbom
from wheel_writer import with_record, write_raw

NAME = "vllm-0.32.1.dev{n}+g{c}.cpu-cp38-abi3-{tag}.whl"
EPOCH = 1_790_000_000
TAGS = {"x86": "manylinux_2_27_x86_64", "arm": "manylinux_2_27_aarch64"}


def wheel(
    folder: Path,
    number: int = 1,
    target: str = "x86",
    note_target: str = "",
    *,
    kernels: str = "k",
    untried: tuple[str, ...] = (),
) -> Path:
    commit = f"{number:040x}"
    version = f"0.32.1.dev{number}+g{commit[-9:]}.cpu"
    info = f"vllm-{version}.dist-info"
    note = wheel_note(
        target=note_target or target,
        commit=commit,
        epoch=EPOCH + number % 10_000 * 40_000,  # a number may be any hash
        kernel_key=kernels,
        untried={"_C": untried} if untried else {},
    )
    members = {
        "vllm/_C.abi3.so": b"code",
        f"{info}/METADATA": f"Metadata-Version: 2.4\nName: vllm\nVersion: {version}\n".encode(),
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: cp38-abi3-{TAGS[target]}\n".encode(),
        f"{info}/cpuwheels.json": note.render(),
    }
    path = folder / f"{target}{number}" / NAME.format(n=number, c=commit[-9:], tag=TAGS[target])
    write_raw(path, with_record(with_sbom(members, info, path.name), info))
    path.with_name("record.json").write_text("{}")
    return path
