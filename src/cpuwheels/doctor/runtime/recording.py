"""A machine in one text file: written on one machine, for example for a report, and read on another."""

from __future__ import annotations

import json
import re
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from cpuwheels.core.errors import UsageError
from cpuwheels.core.filesystem import storage_errors, write_atomic
from cpuwheels.core.models import parse_as
from cpuwheels.doctor.runtime.machine import Probe
from cpuwheels.doctor.runtime.reading import CPUINFO, CPUS, MEMINFO, NODES, STATUS, TRANSPARENT, read_machine
from cpuwheels.kernels.memory.cgroups import ROOT, Group, groups, read_or_nothing

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cpuwheels.doctor.runtime.machine import Machine

PROBE = "probe.json"

_HEAD = re.compile(r"^==> (\S+) <==$", re.MULTILINE)
_PLAIN = (f"{CPUS}/online", TRANSPARENT)
_TOPOLOGY = ("thread_siblings_list", "physical_package_id", "book_id")
_STATUS_LINES = re.compile(r"^(?:Cpus|Mems)_allowed_list:.*$", re.MULTILINE)
_MEMORY_LINES = re.compile(
    r"^(?:Node \d+ )?(?:MemTotal|MemFree|(?:Ina|A)ctive\(file\)|SReclaimable|HugePages_Total):.*$", re.MULTILINE
)
_STAT_LINES = re.compile(r"^(?:total_)?inactive_file .*$", re.MULTILINE)
_CPUINFO_LINES = re.compile(
    r"^(?:vendor_id|model name|flags|features|CPU (?:implementer|part))\s*:.*$", re.MULTILINE | re.IGNORECASE
)

_GROUP_FILES = {
    "memory": {
        1: ("memory.limit_in_bytes", "memory.usage_in_bytes", "memory.stat"),
        2: ("memory.max", "memory.high", "memory.current", "memory.stat"),
    },
    "cpu": {1: ("cpu.cfs_quota_us", "cpu.cfs_period_us"), 2: ("cpu.max",)},
}


def record(probe: Probe, root: Path = ROOT) -> str:
    """Return a machine as a text: `PROBE` and the files that `read_machine` reads.

    Control groups are numbered, since their names may be those of containers and users.

    Args:
        probe: What no file tells.
        root: The folder that ``proc`` and ``sys`` are in.
    """
    parts = {PROBE: _probe_text(probe)}
    parts |= {name: read_or_nothing(root / name) for name in _PLAIN}
    for name, lines in ((CPUINFO, _CPUINFO_LINES), (STATUS, _STATUS_LINES), (MEMINFO, _MEMORY_LINES)):
        parts[name] = _first_lines(lines, read_or_nothing(root / name))
    for path in sorted((root / NODES).glob("node[0-9]*/meminfo")):
        parts[path.relative_to(root).as_posix()] = _first_lines(_MEMORY_LINES, read_or_nothing(path))
    for pattern in (f"{NODES}/node[0-9]*/cpulist", *(f"{CPUS}/cpu[0-9]*/topology/{name}" for name in _TOPOLOGY)):
        parts |= {path.relative_to(root).as_posix(): read_or_nothing(path) for path in sorted(root.glob(pattern))}
    parts |= _control_groups(root)
    return "".join(f"==> {name} <==\n{text.rstrip()}\n" for name, text in parts.items() if text.strip())


def _probe_text(probe: Probe) -> str:
    data = probe.model_dump(mode="json", exclude_defaults=True)
    if probe.cpu:
        data["cpu"]["features"] = " ".join(sorted(probe.cpu.features))
    return json.dumps(data, indent=1) + "\n"


def _first_lines(pattern: re.Pattern[str], text: str) -> str:
    """Return the first line of each field that a pattern finds."""
    found = {line.partition(":")[0]: line for line in reversed(pattern.findall(text))}
    return "\n".join(found[name] for name in reversed(found))


def _control_groups(root: Path) -> dict[str, str]:
    parts: dict[str, str] = {}
    lines, mounts = [], []
    unified = False
    for controller, names in _GROUP_FILES.items():
        chain = groups(controller, root / "proc", root)
        holding = [group for group in chain if not group.unified] or chain
        if not holding:
            continue
        version = 2 if holding[0].unified else 1
        base = "sys/fs/cgroup" if version == 2 else f"sys/fs/cgroup/{controller}"  # noqa: PLR2004
        path = "/" + "/".join(map(str, range(1, len(holding))))
        if version == 1:
            lines.append(f"9:{controller}:{path}")
            mounts.append(f"1 1 0:1 / /{base} rw - cgroup cgroup rw,{controller}")
        elif not unified:
            unified = True
            lines.append(f"0::{path}")
            mounts.append(f"1 1 0:1 / /{base} rw - cgroup2 cgroup2 rw")
        parts |= _numbered(holding, base, names[version])
    if lines:
        parts |= {"proc/self/cgroup": "\n".join(lines), "proc/self/mountinfo": "\n".join(mounts)}
    return parts


def _numbered(chain: list[Group], base: str, names: tuple[str, ...]) -> dict[str, str]:
    """Return the files of a chain of groups, its own group first, under numbers in place of names."""
    depth = len(chain) - 1
    found: dict[str, str] = {}
    for place, group in enumerate(chain):
        folder = "/".join([base, *map(str, range(1, depth - place + 1))])
        texts = {name: read_or_nothing(group.folder / name) for name in names}
        if "memory.stat" in texts:
            texts["memory.stat"] = "\n".join(_STAT_LINES.findall(texts["memory.stat"]))
        found |= {f"{folder}/{name}": text for name, text in texts.items()}
    return found


def write_record(path: Path, text: str) -> None:
    """Write a recorded machine.

    Raises:
        StoreError: It cannot be written.
    """
    with storage_errors(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, text)


def read_record(path: Path) -> Machine:
    """Read a machine that was recorded.

    Raises:
        UsageError: It cannot be read, or is no recorded machine.
    """
    step = "name a file that `cpuwheels doctor --runtime --record FILE` wrote"
    try:
        text = path.read_text(encoding="utf-8")
        with TemporaryDirectory() as name:
            root = Path(name)
            files = dict(_parts(text))
            probe = _probe(files[PROBE])
            for file, content in files.items():
                (root / file).parent.mkdir(parents=True, exist_ok=True)
                (root / file).write_text(content, encoding="utf-8")
            return read_machine(probe, root)
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read: {error}", where="--machine", next_step=step) from error
    except (KeyError, AttributeError, ValidationError, ValueError) as error:
        raise UsageError(
            f"{path.name} is no recorded machine", where=path, output=str(error), next_step=step
        ) from error


def _probe(text: str) -> Probe:
    data = parse_as(dict[str, Any], text, PROBE)
    if "cpu" in data:
        data["cpu"]["features"] = data["cpu"]["features"].split()
    return Probe.model_validate(data)


def _parts(text: str) -> Iterator[tuple[str, str]]:
    _, *found = _HEAD.split(text)
    for name, content in zip(found[::2], found[1::2], strict=True):
        if ".." in Path(name).parts or Path(name).is_absolute():
            raise ValueError(f"it names {name}")
        yield name, content.lstrip("\n")
