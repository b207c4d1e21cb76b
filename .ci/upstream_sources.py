"""What the reports for upstream are made of: the folders of tests/reproducers/, and what runs have left there."""

from __future__ import annotations

import json
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cpuwheels.config.patch_series import Patch

ROOT = Path(__file__).parents[1]
SOURCES = ROOT / "tests" / "reproducers"
PAGES = ROOT / "docs" / "upstream"
OUTPUTS = SOURCES / "outputs.json"
"""What was printed on both wheels, by report."""
WHEELS = SOURCES / "wheels.json"
"""How reproducers ended on single wheels without patches, by the wheel's file name."""
OPEN = SOURCES / "open.toml"
MOST_LINES = 25
MACHINES = {"x86": "x86-64", "arm": "Arm", "s390x": "IBM Z"}
"""Those that faults are of, by the target that has their patches."""


@dataclass(frozen=True)
class Report:
    """One fault.

    Attributes:
        slug: Name of its folder and its page.
        title: Of the page.
        fault: Its name in docs/findings.md.
        problem: What happens and why.
        expected: What the reproducer should print, in words.
        unpatched: How it ends without the patch: ``exit 1``, or the name of a signal.
        libraries: The libraries that show it.
        machine: The target whose CPUs show it.
        features: Those that a CPU needs to show it.
        lacking: Those that a CPU must not have to show it. ``without`` in the file.
        onednn: Releases of oneDNN that it shows with, in words; empty if with all.
        env: Variables that make it show.
        here: The libraries of our wheels that are run in place of upstream's, if their names differ.
        only: The patches that it is about, if others fix a fault of the same name.
    """

    slug: str
    title: str
    fault: str
    problem: str
    expected: str
    unpatched: str
    libraries: tuple[str, ...]
    machine: str = "x86"
    features: tuple[str, ...] = ()
    lacking: tuple[str, ...] = ()
    onednn: str = ""
    env: Mapping[str, str] = field(default_factory=dict)
    here: tuple[str, ...] = ()
    only: tuple[str, ...] = ()

    @property
    def run_on(self) -> tuple[str, ...]:
        """The libraries of our wheels that it is run on."""
        return self.here or self.libraries

    @property
    def folder(self) -> Path:
        """Its folder."""
        return SOURCES / self.slug

    def patches(self, series: Sequence[Patch]) -> tuple[Patch, ...]:
        """Return those of the series that fix it."""
        fix = (patch for patch in series if self.fault in patch.fixes and machine_of(patch) == self.machine)
        return tuple(patch for patch in fix if not self.only or patch.file.removesuffix(".patch") in self.only)


def machine_of(patch: Patch) -> str:
    """Return the target that shows what a patch fixes."""
    return "x86" if not patch.targets or "x86" in patch.targets else patch.targets[0]


def load_reports() -> list[Report]:
    """Read the folders."""
    found = []
    for path in sorted(SOURCES.glob("*/about.toml")):
        about = tomllib.loads(path.read_text(encoding="utf-8"))
        lists = {name: tuple(about.pop(name)) for name in ("libraries", "here", "only") if name in about}
        features, lacking = tuple(about.pop("with", ())), tuple(about.pop("without", ()))
        found.append(Report(slug=path.parent.name, features=features, lacking=lacking, **lists, **about))
    return found


def load_json(path: Path) -> dict[str, Any]:
    """Read what runs have left: `OUTPUTS` or `WHEELS`."""
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    return found


def keep_json(path: Path, key: str, value: Any) -> None:  # noqa: ANN401
    """Write one entry of such a file."""
    kept = load_json(path) | {key: value}
    path.write_text(json.dumps(dict(sorted(kept.items())), indent=1) + "\n", encoding="utf-8")


def load_open(table: str = "open") -> list[dict[str, str]]:
    """Read which faults (``open``) and which single patches (``patch``) have no report, and why."""
    found: list[dict[str, str]] = tomllib.loads(OPEN.read_text(encoding="utf-8")).get(table, [])
    return found
