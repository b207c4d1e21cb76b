"""What a wheel requires, resolved by uv for one platform and several Python versions, as a lock (PEP 751)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import tomli_w
from packaging.markers import Marker
from packaging.utils import canonicalize_name
from packaging.version import Version
from uv import find_uv_bin

from cpuwheels.config.host import markers
from cpuwheels.core.errors import BuildEnvironmentError, CommandError
from cpuwheels.core.parse import parse_toml
from cpuwheels.core.process import run
from cpuwheels.fetch.uv import NEWEST_GLIBC, uv_environment
from cpuwheels.verification.serving.requirements import APART

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from cpuwheels.config.matrix import Target
    from cpuwheels.environment.torch_index import TorchOffer

_PLATFORMS = {"Linux": "linux", "Darwin": "darwin"}

_OPTIONS = ("--only-binary", ":all:", "--no-header", "--quiet")


@dataclass(frozen=True)
class Resolution:
    """What is resolved.

    Attributes:
        target: For its machine and system.
        requirements: Of the wheel.
        offer: The place of torch.
        pythons: Versions such as ``3.11``, oldest first and without a gap.
        work: Folder of what uv reads and writes.
        log: uv's output.
    """

    target: Target
    requirements: Sequence[str]
    offer: TorchOffer
    pythons: Sequence[str]
    work: Path
    log: Path

    def lock(self) -> dict[str, Any]:
        """Return one lock for all of the Python versions.

        uv reads what a package requires from one of its wheels, which may be for another platform: that of
        intel-openmp 2024.2.1 for i686 requires less than that for x86-64. So what each Python version needs is
        resolved once more from the wheels of this platform, and what the lock lacks is asked for by name.

        Raises:
            BuildEnvironmentError: No set of packages meets the requirements.
        """
        asked: list[str] = []
        while True:
            lock = self._universal(asked)
            missing = [each for python in self.pythons for each in self._missing(lock, python)]
            if not missing:
                return lock
            if set(missing) <= set(asked):
                raise self._error(f"the lock lacks {', '.join(missing)}, though they were asked for")
            asked += missing

    def _universal(self, asked: Iterable[str]) -> dict[str, Any]:
        first, last = self.pythons[0], Version(self.pythons[-1])
        after = f"{last.major}.{last.minor + 1}"
        python = f">={first},<{after}"
        where = f"sys_platform == '{_PLATFORMS[self.target.system]}' and platform_machine == '{self.target.machine}'"
        # uv takes no upper bound from requires-python.
        self._write_project(python, f"{where} and python_full_version < '{after}'", asked)
        lock = self._compile("--universal", "--python-version", first)
        for package in lock["packages"]:
            package.pop("sdist", None)
        return lock | {"created-by": "cpuwheels", "requires-python": python, "environments": [where]}

    def _missing(self, lock: Mapping[str, Any], python: str) -> list[str]:
        """Return what a Python version needs and a lock lacks, each with that version as its marker."""
        about = markers(self.target, python)
        locked = {
            canonicalize_name(package["name"]): package["version"]
            for package in lock["packages"]
            if "marker" not in package or Marker(package["marker"]).evaluate(about)
        }
        constraints = self.work / "constraints.txt"
        constraints.write_text("".join(f"{name}=={version}\n" for name, version in locked.items()), encoding="utf-8")
        needed = self._compile(
            "--python-platform", self._platform(), "--python-version", python, "--constraints", constraints
        )
        constraints.unlink()
        return [
            f"{package['name']}=={package['version']}; python_version == '{python}'"
            for package in needed["packages"]
            if canonicalize_name(package["name"]) not in locked
        ]

    def _platform(self) -> str:
        if self.target.system == "Darwin":
            return "aarch64-apple-darwin"
        # The newest, since the wheel's requirements need not keep its own floor.
        return f"{self.target.machine}-manylinux_2_{NEWEST_GLIBC}"

    def _write_project(self, python: str, environment: str, asked: Iterable[str]) -> None:
        flat = self.offer.kind == "find-links"
        index = {"name": "torch", "url": self.offer.location, "explicit": True} | ({"format": "flat"} if flat else {})
        own = ("torch",) if flat else APART
        dependencies = [*self.requirements, *asked]
        sources = {name: {"index": "torch"} for name in own}
        table = {
            "project": {"name": "wheel", "version": "0", "requires-python": python, "dependencies": dependencies},
            "tool": {"uv": {"environments": [environment], "index": [index], "sources": sources}},
        }
        (self.work / "pyproject.toml").write_text(tomli_w.dumps(table), encoding="utf-8")

    def _compile(self, *options: str | Path) -> dict[str, Any]:
        output = self.work / "pylock.uv.toml"
        command = [find_uv_bin(), "pip", "compile", "pyproject.toml", "--format", "pylock.toml", *_OPTIONS, *options]
        try:
            env = uv_environment(project=True)
            run([*command, "--output-file", output.name], log=self.log, env=env, cwd=self.work)
        except CommandError as error:
            raise self._error(f"what it requires cannot be resolved ({self.log})", error.output) from error
        lock = parse_toml(output.read_bytes(), output)
        output.unlink()
        return lock

    def _error(self, what: str, output: str = "") -> BuildEnvironmentError:
        return BuildEnvironmentError(
            what,
            where="Requires-Dist of the wheel",
            log=self.log,
            output=output,
            next_step="uv's output says which package; the package index may not be reachable",
        )
