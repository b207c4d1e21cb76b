"""The model of ``patches/series.yaml``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import Version
from pydantic import AfterValidator, Field

from cpuwheels.core.models import Strict, load_yaml

SourceName = Literal["vllm", "onednn"]


def _specifier(text: str) -> str:
    try:
        SpecifierSet(text)
    except InvalidSpecifier as error:
        msg = f"{text!r} is not a version range such as '>=0.28,<0.33'"
        raise ValueError(msg) from error
    return text


class Lacks(Strict):
    """A condition: a text that a file of the source does not contain."""

    file: str
    """Path in the source."""
    text: str = Field(min_length=1)
    """Searched letter for letter. A file that is missing does not meet the condition."""


class Patch(Strict):
    """One patch against upstream's sources: vLLM's, or those of oneDNN in its kernels."""

    file: str = Field(pattern=r"^\d{4}-[a-z0-9-]+\.patch$")
    """File name in ``patches/``."""
    source: SourceName = "vllm"
    """Whose sources it changes: ``vllm`` or ``onednn``."""
    versions: Annotated[str, AfterValidator(_specifier)]
    """Versions of that source it is for, as a PEP 440 range; development versions count as their release."""
    targets: tuple[str, ...] = ()
    """Target ids it is for; all when empty."""
    only_if_lacks: Lacks | None = None
    """Applied only to sources that lack a text: for a fault that comes and goes between two releases."""
    fixes: tuple[str, ...] = ()
    """Faults of upstream's kernels that it fixes, by their names in docs/findings.md: ``--upstream-kernels`` leaves it
    out. Empty for what a build or the wheel needs in any case."""
    speeds: tuple[str, ...] = ()
    """Operators that it makes faster, if that is all it is for: ``--upstream-speed`` leaves it out, and so does
    ``--upstream-kernels``."""
    why: str
    """What it changes and why steering cannot."""
    upstream: str
    """The upstream issue or pull request, or ``none`` with the reason."""

    def is_for(self, version: str, target: str, source: SourceName = "vllm") -> bool:
        """Return whether the patch belongs to a build for ``target`` from this version of a source."""
        if self.source != source or (self.targets and target not in self.targets):
            return False
        return Version(version).base_version in SpecifierSet(self.versions)


class Series(Strict):
    """The patches in the order they are applied."""

    patches: tuple[Patch, ...]

    def changes(self, source: SourceName, target: str) -> bool:
        """Return whether there is a patch for any version of a source on a target."""
        return any(patch.source == source and (not patch.targets or target in patch.targets) for patch in self.patches)

    def chosen(
        self, version: str, target: str, *, with_fixes: bool, with_speed: bool = True, source: SourceName = "vllm"
    ) -> tuple[Patch, ...]:
        """Return the patches for a build, in order.

        Args:
            version: Of the source.
            target: Target id.
            with_fixes: Whether those that fix faults of upstream's kernels are among them.
            with_speed: Whether those that make them faster are, too. They are never without those that fix faults.
            source: Whose patches.
        """
        meant = (patch for patch in self.patches if patch.is_for(version, target, source))
        return tuple(
            patch
            for patch in meant
            if (with_fixes or not patch.fixes) and ((with_fixes and with_speed) or not patch.speeds)
        )


def load_series(root: Path) -> Series:
    """Read ``patches/series.yaml`` from the project's folder.

    Raises:
        MatrixError: It is missing or does not fit the model.
    """
    return load_yaml(root / "patches" / "series.yaml", Series)
