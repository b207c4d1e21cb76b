"""The model of a target's container image in ``matrix.yaml``."""

from __future__ import annotations

from pydantic import Field

from cpuwheels.core.models import Strict


class ImageBase(Strict):
    """The lowest layers of an image: Debian packages with Python."""

    root: str
    """Lock of the Debian packages of the base: ``locks/<name>.yaml``."""
    compiler: str | None = None
    """Lock of the C++ compiler of the flavour with torch.compile; its packages may repeat the base's."""
    python: str = Field(pattern=r"^3\.\d+$")
    """Version of the base's Python, such as ``3.11``; the requirements' lock has to be of the same."""


class ImagePins(ImageBase):
    """What a target's container image is made from, besides the wheel and its locked requirements."""

    without: tuple[str, ...] = ()
    """Requirements that are locked, but left out of the image."""
    alternate: ImageBase | None = None
    """A base with Debian's torch, used only where no CPU wheel of the wheel's torch can be had."""

    def on(self, base: ImageBase) -> ImagePins:
        """Return the same image on another base."""
        return ImagePins(root=base.root, compiler=base.compiler, python=base.python, without=self.without)
