"""What a build asks the ``torch`` package in its environment, where the target's own torch cannot run here.

Copied into the build environment as its ``torch``. Upstream's ``setup.py`` asks which device torch was built for, and
its CMake project where torch's own CMake files are; ``cmake/steer/torch.cmake`` answers in their place. Nothing of it
computes anything.
"""

from torch import utils, version  # type: ignore[import-not-found,unused-ignore]

__all__ = ["utils", "version"]
__version__ = version.__version__
