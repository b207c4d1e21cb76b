"""Whether what an index says of rebuilders is what their signatures say, and whether enough of them agree."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cpuwheels.attestation.envelope import statement_in
from cpuwheels.core.errors import CpuwheelsError
from cpuwheels.index.agreement import agreement_words
from cpuwheels.index.layout import BUNDLE, wheel_path
from cpuwheels.index.rebuilders.collect import agreement_of, listed_wheels
from cpuwheels.index.rebuilders.statements import deciding, read_kept
from cpuwheels.rebuild.statement import check_rebuild

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from cpuwheels.index.agreement import Agreement, Finding
    from cpuwheels.index.bucket import Bucket
    from cpuwheels.index.entry import Entry
    from cpuwheels.index.rebuilders.known import KnownRebuilder


@dataclass(frozen=True)
class VerifiedAgreement:
    """What rebuilders say of a wheel, after every signature was verified.

    Attributes:
        entry: The wheel, as the index's pages have it.
        agreement: By the rebuilders of whoever verified it, which may be others than those that the index knows.
        faults: How the index differs from that.
    """

    entry: Entry
    agreement: Agreement
    faults: tuple[str, ...]

    @property
    def sentence(self) -> str:
        """For people."""
        return f"{self.entry.filename}: {agreement_words(self.agreement)}"


def verify_agreements(bucket: Bucket, rebuilders: Sequence[KnownRebuilder]) -> list[VerifiedAgreement]:
    """Return what rebuilders say of each wheel of an index; those that somebody differs about come first.

    Args:
        bucket: Where the index is kept.
        rebuilders: Whose statements count.

    Raises:
        PublishError: The index is damaged.
    """
    found = [_verified(bucket, entry, rebuilders) for entry in listed_wheels(bucket).values()]
    return sorted(found, key=lambda one: (not one.agreement.differing, one.entry.filename))


def require_agreement(found: Sequence[VerifiedAgreement], required: int) -> Iterator[str]:
    """Yield the wheels of which not so many rebuilders got the same bytes, or as many got others."""
    for one in found:
        if not one.agreement.fulfils(required):
            yield f"{one.sentence}; {required} have to agree, and more than differ"


def bundle_faults(bucket: Bucket, entry: Entry) -> Iterator[str]:
    """Yield what is wrong with the file of rebuilders' statements about a wheel; no signature is verified.

    Args:
        bucket: Where the index is kept.
        entry: What its pages say of the wheel.
    """
    wanted = entry.rebuilds.statements if entry.rebuilds else None
    if wanted is None:
        return
    path = f"{wheel_path(entry)}{BUNDLE}"
    content = bucket.read(path)
    if content is None:
        yield f"{path} is missing"
        return
    if hashlib.sha256(content).hexdigest() != wanted:
        yield f"{path} has other bytes than its pages say"
        return
    for line in content.splitlines():
        try:
            check_rebuild(statement_in(line, path), entry.filename, entry.sha256, path)
        except CpuwheelsError as error:
            yield f"{path}: {error.what}"


def _verified(bucket: Bucket, entry: Entry, rebuilders: Sequence[KnownRebuilder]) -> VerifiedAgreement:
    path = f"{wheel_path(entry)}{BUNDLE}"
    content = bucket.read(path) or b""
    statements, refused = read_kept(content, rebuilders, entry, path)
    digest = entry.rebuilds.statements if entry.rebuilds else None
    agreement = agreement_of(deciding(statements), rebuilders, {}, digest)
    keys = {key.keyid for one in rebuilders for key in one.keys}
    told = entry.rebuilds.findings if entry.rebuilds else ()
    # Whoever checks may rely on others than the index's keeper does: what those say is neither verified nor a fault.
    own = [one for one in told if one.keyid in keys]
    faults = [f"{path}: {one}" for one in refused] if len(own) == len(told) else []
    said, true = ({one.keyid: _core(one) for one in found} for found in (own, agreement.findings))
    faults += [
        f"{path}: what key {keyid} signed says {_words(true.get(keyid))}; the pages say {_words(said.get(keyid))}"
        for keyid in dict.fromkeys([*said, *true])
        if said.get(keyid) != true.get(keyid)
    ]
    return VerifiedAgreement(entry, agreement, tuple(faults))


def _core(one: Finding) -> tuple[str, str, str, str | None]:
    return (one.state, one.rebuilt, one.moment, one.before)


def _words(core: tuple[str, str, str, str | None] | None) -> str:
    return "nothing" if core is None else f"{core[0]} (sha256 {core[1][:16]}…, {core[2]})"
