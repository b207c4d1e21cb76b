"""What rebuilders got from the sources of a wheel: who has the same bytes, and who has others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field, StringConstraints

from cpuwheels.config.rebuilders import MOST, RebuilderName
from cpuwheels.core.models import Moment, Sha256, Strict

if TYPE_CHECKING:
    from collections.abc import Iterator

Verdict = Literal["reproduced", "differs"]
KeyId = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{1,128}$")]
Address = Annotated[str, StringConstraints(pattern=r"^https?://[^\s\"<>]+$", max_length=2048)]

_SHOWN = 16
"""Digits of a digest in a sentence."""


class Finding(Strict):
    """What one rebuilder says of a wheel."""

    name: RebuilderName
    """As the index's keeper calls it."""
    keyid: KeyId
    """Of the key that signed it."""
    state: Verdict
    """Whether it got the same bytes."""
    rebuilt: Sha256
    """Digest of the wheel that came out there."""
    moment: Moment
    """When the rebuild began, as it says."""
    before: Verdict | None = None
    """What an earlier statement of it says, if other bytes came out then."""
    report: Address | None = None
    """Its report, on its own site; nothing of it was verified."""


class Agreement(Strict):
    """What all known rebuilders say of a wheel."""

    findings: tuple[Finding, ...] = Field(default=(), max_length=MOST)
    """Of those who rebuilt it."""
    silent: tuple[RebuilderName, ...] = Field(default=(), max_length=MOST)
    """Rebuilders from which there is no statement that counts."""
    statements: Sha256 | None = None
    """Digest of the file with the signed statements; None if there are none."""

    @property
    def agreeing(self) -> tuple[Finding, ...]:
        """Those who got the same bytes."""
        return tuple(one for one in self.findings if one.state == "reproduced")

    @property
    def differing(self) -> tuple[Finding, ...]:
        """Those who got other bytes."""
        return tuple(one for one in self.findings if one.state == "differs")

    @property
    def known(self) -> int:
        """How many rebuilders there are."""
        return len(self.findings) + len(self.silent)

    def fulfils(self, required: int) -> bool:
        """Return whether so many agree, and more than differ."""
        return len(self.agreeing) >= required and len(self.agreeing) > len(self.differing)


def agreement_words(found: Agreement) -> str:
    """Return in a line how many rebuilders agree, and who differs."""
    count = "1 rebuilder agrees" if found.known == 1 else f"{found.known} rebuilders agree"
    return "; ".join([f"{len(found.agreeing)} of {count}", *_differing(found), *_silent(found)])


def _differing(found: Agreement) -> Iterator[str]:
    """Yield who got which other bytes; those with the same ones stand together, as they support each other."""
    digests = dict.fromkeys(one.rebuilt for one in found.differing)
    for digest in digests:
        names = [one.name for one in found.differing if one.rebuilt == digest]
        verb = "differs" if len(names) == 1 else "differ"
        yield f"{', '.join(names)} {verb} (sha256 {digest[:_SHOWN]}…)"


def _silent(found: Agreement) -> Iterator[str]:
    if found.silent:
        yield f"not yet: {', '.join(found.silent)}"
