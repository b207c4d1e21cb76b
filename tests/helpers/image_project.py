"""A project whose images hold a small wheel in place of vLLM's."""

from __future__ import annotations

import io
import os
import shutil
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from cpuwheels.config.image_pins import ImagePins
from cpuwheels.config.matrix import Matrix, load_matrix
from cpuwheels.config.options import BuildOptions, ImageOptions
from cpuwheels.config.paths import Paths
from cpuwheels.core.console import Reporter
from cpuwheels.core.entry_links import link_entries
from cpuwheels.core.store import default_root
from cpuwheels.image import check
from cpuwheels.image.build import Written, build_images
from cpuwheels.image.tools import Tools
from cpuwheels.pipeline.context import open_context
from layout import ROOT
from loopback import DEAD
from sample_source import sha256
from small_wheels import write_wheel
from torch_wheels import PYTHON, write_torch
from wheel_notes import wheel_note

HERE = ROOT / "tests" / "integration" / "tiny_image"
EPOCH = 1_750_000_000


class ImageProject:
    """A project with one wheel, whose requirements are wheels of the test's own.

    Args:
        base: Where everything is.
        target: The target's id.
        pins: What its image is made from.
        torch: Version that the wheel requires.
        offered: Whether there is a CPU wheel of it.
    """

    def __init__(self, base: Path, target: str, pins: ImagePins, torch: str, *, offered: bool) -> None:
        self.base, self.target, self.torch = base, target, torch
        self.pins = pins.model_copy(update={"without": ("left-out",)})
        self.output = io.StringIO()
        locks = base / "root" / "locks"
        (locks / "serve").mkdir(parents=True)
        for path in (ROOT / "locks").glob("*.yaml"):
            shutil.copy(path, locks)
        self.index = base / "index"
        cmake = self.offer("cmake", "4.0.0", {})
        script = {"demo-1.0.dist-info/entry_points.txt": "[console_scripts]\ndemo = demo:main\n"}
        demo = self.offer("demo", "1.0", {"demo/__init__.py": "def main():\n    print('demo')\n", **script})
        extra = self.offer("left-out", "1.0", {"left_out.py": ""}, stem="left_out")
        (locks / "build-tools.txt").write_text(f"cmake==4.0.0 --hash=sha256:{sha256(cmake)}\n")
        for python in {PYTHON, "3.14"}:
            (locks / "serve" / f"{target}-1.0-py{python}.txt").write_text(
                f"demo==1.0 \\\n    --hash=sha256:{sha256(demo)}\nleft-out==1.0 \\\n    --hash=sha256:{sha256(extra)}\n"
            )
        (base / "links").mkdir()
        if offered:
            wheel = write_torch(base / "links", f"{torch}+cpu")
            with zipfile.ZipFile(wheel, "a") as archive:
                archive.writestr("torch/lib/libgomp.so.1", "runtime")
        self.wheel = self.vllm()

    def offer(self, name: str, version: str, files: dict[str, str], stem: str = "") -> Path:
        """Write a wheel and put it on the index."""
        wheel = write_wheel(self.base / "wheels", stem or name, version, files)
        page = self.index / name / "index.html"
        page.parent.mkdir(parents=True)
        page.write_text(f'<a href="{wheel.as_uri()}">{wheel.name}</a>')
        return wheel

    def vllm(self, server: str = "", folder: str = "wheel") -> Path:
        """Write a wheel of vLLM."""
        info, target = "vllm-1.0+cpu.dist-info", load_matrix(ROOT).target(self.target)
        files = {
            "vllm/__init__.py": "",
            "vllm/server.py": server or (HERE / "server.py").read_text(),
            "vllm/worker.py": (HERE / "worker.py").read_text(),
            "vllm/libs/libtcmalloc_minimal.so.4": "allocator",
            **{f"vllm/{library.name}.abi3.so": "kernels" for library in target.libraries},
            f"{info}/entry_points.txt": "[console_scripts]\nvllm = vllm.server:main\n",
            f"{info}/cpuwheels.json": wheel_note(epoch=EPOCH, commit="c" * 40).render().decode(),
        }
        needs = [f"torch=={self.torch}", "demo==1.0", "left-out==1.0"]
        tag = f"cp38-abi3-manylinux_2_28_{target.machine}"
        return write_wheel(self.base / folder, "vllm", "1.0+cpu", files, *needs, tag=tag)

    def matrix(self) -> Matrix:
        """Return a matrix with the target's image, and no wheel of torch but the test's own."""
        found = load_matrix(ROOT)
        torch = found.torch[self.torch].model_copy(update={"wheels": (), "index": f"{DEAD}/cpu"})
        targets = tuple(
            one.model_copy(update={"image": self.pins}) if one.id == self.target else one for one in found.targets
        )
        return found.model_copy(update={"targets": targets, "torch": {self.torch: torch}})

    def paths(self, name: str) -> Paths:
        """Return the folders of a user who has nothing but downloads."""
        cache = self.base / name / "cache"
        link_entries(default_root(), ["downloads"], cache)
        return Paths(self.base / "root", cache, self.base / name / "dist")

    def build(self, name: str, **options: Any) -> Written:
        """Write the image."""
        chosen = ImageOptions(**{"wheels": (self.wheel,), "out": self.base / name / "image", **options})
        reporter = Reporter(self.target, Console(file=self.output, width=1000))
        return build_images(self.paths(name), self.matrix(), [self.target], chosen, reporter)

    def tools(self, name: str) -> Tools:
        """Return the programs that check images."""
        matrix, reporter = self.matrix(), Reporter(self.target, Console(file=io.StringIO()))
        return Tools(open_context(self.paths(name), matrix, matrix.target(self.target), BuildOptions(), reporter))

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Let uv and torch's search know the project's index and folder and nothing else."""
        with pytest.MonkeyPatch.context() as patch:
            for name in [name for name in os.environ if name.startswith(("UV_", "PIP_"))]:
                patch.delenv(name)
            patch.setenv("PIP_CONFIG_FILE", os.devnull)
            patch.setenv("PIP_FIND_LINKS", str(self.base / "links"))
            patch.setenv("UV_DEFAULT_INDEX", self.index.as_uri())
            patch.setenv("UV_CACHE_DIR", str(self.base / "uv"))
            patch.setenv("UV_NO_CONFIG", "1")
            patch.setattr(check, "_MODELS", HERE)
            yield
