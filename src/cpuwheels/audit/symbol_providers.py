"""Who provides the symbols that name no version: Python, torch, the wheel itself, or every system of the floor.

A sysroot that hides what is newer than the floor does not stop a call of it: the linker of a shared library
leaves the symbol undefined, without a version. No check of versions sees it, the building machine's own C
library provides it, and on a system of the floor's age the library does not load.
"""

from __future__ import annotations

import fnmatch
import io
import zipfile
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cpuwheels.core.elf import exported, linkable, read_needed
from cpuwheels.core.errors import AuditError
from cpuwheels.environment.torch_debian import PARTS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from cpuwheels.config.platform_policy import Policy
    from cpuwheels.core.elf import ElfFacts

_PYTHON = ("Py", "_Py")
_SHOWN_SYMBOLS = 10


@dataclass(frozen=True)
class Torch:
    """Where torch's libraries are.

    Attributes:
        folder: Of torch's libraries.
        excluded: Sonames (wildcards allowed) of those that the wheel may use.
    """

    folder: Path
    excluded: tuple[str, ...]

    def libraries(self) -> list[Path]:
        """Return the libraries that the wheel may use."""
        # A wheel's bundled libraries, OpenMP's among them, may be next to the package.
        beside = self.folder.parent.with_name("torch.libs")
        files = sorted([*self.folder.iterdir(), *(beside.iterdir() if beside.is_dir() else ())])
        return [path for path in files if any(fnmatch.fnmatchcase(path.name, pattern) for pattern in self.excluded)]

    def parts(self) -> list[Path]:
        """Return the libraries that PyTorch's wheels have inside of those; a wheel is not linked to them."""
        folder = self.folder / PARTS
        return sorted(folder.iterdir()) if folder.is_dir() else []


def check_providers(
    facts: Mapping[str, ElfFacts],
    wheel: Path,
    *,
    torch: Torch,
    policy: Policy,
    system: Sequence[Path],
    log: Path | None = None,
) -> None:
    """Raise if a symbol without a version may be missing on a system of the floor's age.

    Names of Python's C API are the interpreter's. The others have to be in one of torch's libraries, in one
    of the wheel's, or in a library of the sysroot that the file or what it is linked to brings along (as
    torch does librt), in a version that is not hidden there for being newer than the floor.

    Args:
        facts: Of every ELF file of the wheel.
        wheel: The wheel, with everything bundled.
        torch: Torch's libraries.
        policy: Says which libraries every system has.
        system: The sysroot's library folders.
        log: Log file of the step.

    Raises:
        AuditError: Each offending file and its symbols are listed, or a library cannot be read.
    """
    wanted = {name: {it for it in elf.loose if not it.startswith(_PYTHON)} for name, elf in facts.items()}
    if not any(wanted.values()):
        return
    try:
        libraries = torch.libraries()
        _take_away(wanted, lambda names: _find_in_torch(names, [*libraries, *torch.parts()]))
        links = {name.rpartition("/")[2]: elf.needed for name, elf in facts.items()}
        for path in libraries:
            # Debian's torch has sonames with a version, and modules are linked to the names without.
            needed, soname = _needed(path)
            links |= {path.name: needed, soname: needed}
        offers = _Offers(system)
        for name, symbols in wanted.items():
            sonames = filter(policy.has, sorted(_reached(name.rpartition("/")[2], links)))
            symbols.difference_update(*(offers.of(soname) for soname in sonames if symbols))
        # The wheel comes last because its libraries must be unpacked for it; hardly anything gets here.
        _take_away(wanted, lambda names: _find_in_wheel(names, wheel, sorted(facts)))
    except (OSError, ValueError) as error:
        raise AuditError(
            f"a library cannot be read: {error}",
            where=torch.folder,
            log=log,
            next_step="remove the environment and the sysroot from the cache and build again",
        ) from error
    if missing := set().union(*wanted.values()):
        raise AuditError(
            f"nothing on every {policy.name} system provides {_shown(missing)}",
            where=wheel.name,
            output="\n".join(f"{name}: {_shown(symbols)}" for name, symbols in sorted(wanted.items()) if symbols),
            log=log,
            next_step="a C library function newer than the floor: patch the call out, or add a replacement to the "
            "toolchain's compat library; anything else: its library is missing on the module's link line "
            f"(of torch's, these were searched: {', '.join(path.name for path in libraries) or 'none'})",
        )


class _Offers:
    """What the sysroot's libraries offer to a linker, each read once."""

    def __init__(self, folders: Sequence[Path]) -> None:
        self._folders = folders
        self._read: dict[str, frozenset[str]] = {}

    def of(self, soname: str) -> frozenset[str]:
        if soname not in self._read:
            found = next((folder / soname for folder in self._folders if (folder / soname).is_file()), None)
            if found is None:
                return frozenset()
            with found.open("rb") as stream:
                self._read[soname] = linkable(stream)
        return self._read[soname]


def _take_away(wanted: Mapping[str, set[str]], find: Callable[[set[str]], set[str]]) -> None:
    if names := set().union(*wanted.values()):
        found = find(names)
        for symbols in wanted.values():
            symbols.difference_update(found)


def _find_in_torch(names: set[str], libraries: Iterable[Path]) -> set[str]:
    found: set[str] = set()
    for path in libraries:
        with path.open("rb") as stream:
            found |= exported(stream, names - found)
    return found


def _find_in_wheel(names: set[str], wheel: Path, members: Iterable[str]) -> set[str]:
    found: set[str] = set()
    with zipfile.ZipFile(wheel) as archive:
        for member in members:
            found |= exported(io.BytesIO(archive.read(member)), names - found)
    return found


def _needed(path: Path) -> tuple[tuple[str, ...], str]:
    with path.open("rb") as stream:
        return read_needed(stream)


def _reached(start: str, links: Mapping[str, Sequence[str]]) -> set[str]:
    """Return the sonames that loading a file brings along, as far as their links are known."""
    reached: set[str] = set()
    ahead = [start]
    while ahead:
        new = set(links.get(ahead.pop(), ())) - reached
        reached |= new
        ahead += new
    return reached


def _shown(symbols: set[str]) -> str:
    more = f" and {len(symbols) - _SHOWN_SYMBOLS} more" if len(symbols) > _SHOWN_SYMBOLS else ""
    return ", ".join(sorted(symbols)[:_SHOWN_SYMBOLS]) + more
