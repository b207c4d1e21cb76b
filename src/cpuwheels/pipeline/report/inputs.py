"""The inputs of a wheel as a list: name, version, digest, and where each comes from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cpuwheels.source.acl import NAME as ACL_NAME

if TYPE_CHECKING:
    from cpuwheels.pipeline.provenance import Provenance
    from cpuwheels.pipeline.recorded_build import BuildRecord


@dataclass(frozen=True)
class Input:
    """One input of a wheel.

    Attributes:
        name: For people.
        version: Its version, tag or state.
        digest: Of its content; empty if it has none.
        origin: Where it comes from, or why it is another than upstream's; empty if it is not known.
        fallback: Whether it is used in place of the first choice.
    """

    name: str
    version: str
    digest: str
    origin: str = ""
    fallback: bool = False


def inputs_of(made: Provenance, record: BuildRecord | None = None) -> list[Input]:
    """Return the inputs of a wheel.

    Args:
        made: What it is made from, as in the wheel or in its build record.
        record: Its build record, which knows the origins.
    """
    origin = record.origin if record else {}
    torch = any(text.startswith("torch ") for text in made.alternates)
    source = f"{made.source.version}{f' at commit {made.source.commit}' if made.source.commit else ''}"
    found = [
        Input("vLLM", source, made.source.digest, origin.get("source", "")),
        Input("compiler", made.toolchain.version, made.toolchain.digest),
        Input("torch", made.torch.version, made.torch.digest, origin.get("torch", ""), torch),
    ]
    if made.onednn is not None:
        fallback = made.onednn.kind == "alternate"
        why = f"in place of {made.onednn.tag}" if fallback else made.onednn.tag
        found.append(Input("oneDNN", made.onednn.version, made.onednn.digest, why, fallback))
    if made.acl is not None:
        absent = made.acl.version is None
        found.append(Input(ACL_NAME, "none" if absent else made.acl.tag, made.acl.version or "", made.acl.kind, absent))
    if made.tcmalloc is not None:
        found.append(Input("tcmalloc", made.tcmalloc.version, made.tcmalloc.digest, "gperftools"))
    return found + [Input(patch.file, patch.state, patch.sha256, "patch") for patch in made.all_patches]
