"""The audit of a macOS wheel: everything wrong with its Mach-O files, and the platform tag of the target's floor.

It checks what can be checked on Linux: nothing is loaded. docs/targets/macos.md lists what is left for a Mac.
"""

from __future__ import annotations

import re
import zipfile
from functools import partial
from typing import TYPE_CHECKING

from cpuwheels.audit.instructions import judge_contents
from cpuwheels.audit.macos_symbols import STUB, providers
from cpuwheels.audit.policy import Audited
from cpuwheels.config.platform_policy import macos_floor
from cpuwheels.core.environ import closed_environment
from cpuwheels.core.errors import AuditError
from cpuwheels.core.filesystem import remove_tree, storage_errors
from cpuwheels.core.macho import is_macho, read_macho
from cpuwheels.core.process import run
from cpuwheels.core.text import first_names
from cpuwheels.wheel.dist_info import content_digest, dist_info_of, render_record

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from cpuwheels.audit.macos_symbols import Providers
    from cpuwheels.audit.policy import AuditPolicy
    from cpuwheels.core.macho import Code, MachOFacts
    from cpuwheels.core.store import Store

_SHOWN_SYMBOLS = 10
_TAG = re.compile(rb"^(Tag: [^-\r\n]+-[^-\r\n]+-)[^\r\n]+$", re.MULTILINE)


def audit_macos_wheel(wheel: Path, out: Path, terms: AuditPolicy, log: Path, store: Store | None = None) -> Audited:
    """Check a wheel's Mach-O files and give the wheel the floor's platform tag.

    Args:
        wheel: A wheel with the plain tag of the machine that built it.
        out: Emptied, then holds the audited wheel alone.
        terms: What it is checked against; the first of its library folders has the list of libSystem's symbols.
        log: Log file of the step.
        store: As in `cpuwheels.audit.linux.audit_wheel`.

    Raises:
        AuditError: It holds no module for macOS, or something is wrong with one: everything is listed. Or a module
            holds an instruction beyond its limit.
    """
    oldest = macos_floor(terms.floor)
    try:
        offered = providers(terms.torch_libraries, terms.excluded, terms.library_folders[0] / STUB)
        with zipfile.ZipFile(wheel) as archive:
            members = {info.filename: archive.read(info) for info in archive.infolist() if not info.is_dir()}
            modes = {info.filename: info.external_attr for info in archive.infolist()}
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise AuditError(
            f"the wheel or what it needs cannot be read: {error}",
            where=wheel,
            log=log,
            next_step="remove torch's and zig's entries from the store and build again",
        ) from error
    binaries, faults = read_binaries(members)
    faults += wheel_faults(binaries, oldest=oldest, machine=terms.machine, offered=offered)
    if faults:
        raise AuditError(
            f"{len(faults)} things are wrong with the binaries of {wheel.name}",
            where=wheel,
            output="\n".join(faults),
            log=log,
            next_step="each line names the file; most come from how the kernels were compiled and linked",
        )
    judged = (
        judge_contents(
            ((name, (code, members[name])) for name, facts in binaries.items() if (code := facts.code)),
            partial(_write_elf, terms.binutils.objcopy, log),
            terms.limits,
            terms.binutils,
            folder=out.with_name(f"{out.name}-files"),
            where=wheel,
            log=log,
            store=store,
        )
        if terms.binutils
        else ()
    )
    platform = f"{terms.floor}_{terms.machine}"
    path = out / f"{wheel.stem.rpartition('-')[0]}-{platform}.whl"
    with storage_errors(out):
        remove_tree(out)
        out.mkdir(parents=True)
        _write_tagged(path, members, modes, platform)
    return Audited(
        path=path,
        platforms=(platform,),
        policy=platform,
        bundled=(),
        versions=(f"macOS_{_text(oldest)}",),
        instructions=judged,
    )


def read_binaries(members: dict[str, bytes]) -> tuple[dict[str, MachOFacts], list[str]]:
    """Return the facts of a wheel's Mach-O files, sorted by their path, and what is wrong with the others."""
    binaries, faults = {}, []
    for name, content in sorted(members.items()):
        if content[:4] == b"\x7fELF":
            faults.append(f"{name} is a file for Linux")
        elif is_macho(content):
            try:
                binaries[name] = read_macho(content)
            except ValueError as error:
                faults.append(f"{name} is {error}")
    if not any(map(is_macho, members.values())):
        faults.append("there is no Mach-O file in it: the kernels were not installed")
    return binaries, faults


def wheel_faults(
    binaries: dict[str, MachOFacts], *, oldest: tuple[int, int], machine: str, offered: Providers
) -> Iterator[str]:
    """Yield everything wrong with a wheel's Mach-O files, one line each."""
    for name, facts in binaries.items():
        yield from (f"{name} {fault}" for fault in macho_faults(facts, oldest, machine, offered))


def macho_faults(facts: MachOFacts, oldest: tuple[int, int], machine: str, offered: Providers) -> Iterator[str]:
    """Yield what is wrong with one Mach-O file."""
    if facts.machine != machine:
        yield f"is for {facts.machine}, not for {machine}"
    if facts.minimum_os is None:
        yield "does not say which macOS it is for"
    elif facts.minimum_os != oldest:
        yield f"is for macOS {_text(facts.minimum_os)} or newer, the floor is {_text(oldest)}"
    if facts.code is None:
        yield "holds no instructions"
    yield from path_faults(facts)
    for library in facts.needed:
        if not offered.has(library):
            yield f"needs {library}, which neither torch nor every macOS {_text(oldest)} is known to have"
    yield from import_faults(facts, offered)
    yield from facts.signature_faults


def _write_elf(objcopy: Path, log: Path, path: Path, of: tuple[Code, bytes]) -> None:
    """Write a Mach-O file's instructions as an ELF file with the same code at the same addresses."""
    code, content = of
    raw = path.with_suffix(".bin")
    raw.write_bytes(content[code.start : code.start + code.size])
    form = ["-I", "binary", "-O", "elf64-littleaarch64", "-B", "aarch64"]
    flags = ".data=.text,contents,alloc,load,readonly,code"
    place = ["--rename-section", flags, f"--change-section-address=.data={code.address:#x}"]
    # A function replaces objcopy's own symbols, which objdump would take for data.
    names = ["--strip-all", "--add-symbol=code=.text:0,function,global"]
    run([objcopy, *form, *place, *names, raw, path], log=log, env=closed_environment())


def path_faults(facts: MachOFacts) -> Iterator[str]:
    """Yield the parts of a file's paths that belong to the machine that built it."""
    if facts.name and not facts.name.startswith("@rpath/"):
        yield f"calls itself {facts.name!r}, not relative to @rpath"
    for entry in facts.search_path:
        if not re.match(r"@loader_path(/|$)", entry):
            yield f"has search path {entry!r}, not relative to @loader_path"


def import_faults(facts: MachOFacts, offered: Providers) -> Iterator[str]:
    """Yield the symbols that a file may not find when it is loaded, by where it looks for them.

    A weak symbol may be missing, and the code that uses it has to ask first; nothing here does.
    """
    missing: dict[str, list[str]] = {}
    for wanted in facts.imports:
        if wanted.weak or not offered.offers(wanted):
            missing.setdefault(wanted.library or "the process", []).append(wanted.name)
    for library, names in sorted(missing.items()):
        yield f"takes unknown symbols from {library}: {first_names(names, _SHOWN_SYMBOLS)}"


def _write_tagged(path: Path, members: dict[str, bytes], modes: dict[str, int], platform: str) -> None:
    """Write the wheel with another platform in its ``WHEEL``, and the ``RECORD`` that belongs to it."""
    dist_info = dist_info_of(members)
    own, record = f"{dist_info}/WHEEL", f"{dist_info}/RECORD"
    files = {name: content for name, content in members.items() if name != record}
    files[own] = _TAG.sub(rb"\g<1>" + platform.encode(), files[own])
    rows = [(name, content_digest(content), str(len(content))) for name, content in files.items()]
    files[record] = render_record([*rows, (record, "", "")])
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            entry = zipfile.ZipInfo(name)
            entry.external_attr = modes.get(name, 0)
            archive.writestr(entry, content)


def _text(version: tuple[int, int]) -> str:
    return ".".join(map(str, version))
