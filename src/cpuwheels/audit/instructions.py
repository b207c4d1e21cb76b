"""No library holds an instruction beyond its instruction sets: the target's own assembler decides.

Every program is disassembled, and one instruction of each distinct shape is given to the assembler of the same
toolchain, with ``-march`` set to what it may accept. No table of instructions here can be out of date.
"""

from __future__ import annotations

import fnmatch
from collections import Counter
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from pydantic import TypeAdapter

from cpuwheels.audit.binutils import EVERYTHING, refused_instructions
from cpuwheels.audit.disassembly import collect, is_decoded, locate
from cpuwheels.audit.isa_limits import Limit, limit_for, module_of
from cpuwheels.audit.unwind_table import read_functions
from cpuwheels.core.capture import blocks
from cpuwheels.core.concurrency import run_parallel
from cpuwheels.core.digests import code_digest, file_digest, make_key
from cpuwheels.core.errors import AuditError
from cpuwheels.core.filesystem import remove_tree, storage_errors
from cpuwheels.core.text import first_lines
from cpuwheels.kernels.memory.limits import usable_cpus

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from cpuwheels.audit.binutils import Binutils
    from cpuwheels.core.store import Store

KIND = "judged"

_JUDGED = "judged.json"
_SHOWN = 20

Content = TypeVar("Content")


@dataclass(frozen=True)
class Judged:
    """What was found in one file that holds nothing beyond its limit.

    Attributes:
        file: Its path in the wheel.
        march: The architecture that it was checked against.
        forms: Distinct instructions that the assembler has checked.
        guarded: Functions that use more and are allowed to, with the number of such instructions.
        unjudged: Distinct texts that no assembler takes: data between functions, or unknown to the disassembler.
        missing: A line for each instruction that it should hold and does not.
        untried: Those of the limit's untried kernels that it holds.
    """

    file: str
    march: str
    forms: int
    guarded: tuple[str, ...]
    unjudged: tuple[str, ...]
    missing: tuple[str, ...] = ()
    untried: tuple[str, ...] = ()


_JUDGEMENT = TypeAdapter(tuple[Judged, list[str]])


def judge_contents(
    contents: Iterable[tuple[str, Content]],
    write: Callable[[Path, Content], object],
    limits: Sequence[Limit],
    binutils: Binutils,
    *,
    folder: Path,
    where: Path,
    log: Path,
    store: Store | None = None,
) -> tuple[Judged, ...]:
    """Check the instructions of a wheel's files, which are written to a folder one after the other.

    Args:
        contents: The files by their path in the wheel, as the caller has read them.
        write: Makes an ELF file, by its path, of one.
        limits: What they may hold.
        binutils: Of the target's toolchain.
        folder: For these files and what the assembler reads; emptied first, and removed.
        where: The wheel, for messages.
        log: Log file of the step.
        store: As in `check_instructions`.

    Raises:
        AuditError, CommandError: See `check_instructions`.
    """
    files = {}
    with storage_errors(folder):
        remove_tree(folder)
        folder.mkdir(parents=True)
        for number, (name, content) in enumerate(contents):
            files[name] = folder / f"{number}.so"
            write(files[name], content)
    judged = check_instructions(files, limits, binutils, work=folder, where=where, log=log, store=store)
    with storage_errors(folder):
        remove_tree(folder)
    return judged


def check_instructions(
    files: Mapping[str, Path],
    limits: Sequence[Limit],
    binutils: Binutils,
    *,
    work: Path,
    where: Path,
    log: Path,
    store: Store | None = None,
) -> tuple[Judged, ...]:
    """Check the instructions of a wheel's ELF files.

    Args:
        files: By their path in the wheel.
        limits: What they may hold.
        binutils: Of the target's toolchain.
        work: For what the assembler reads.
        where: The wheel, for messages.
        log: Log file of the step.
        store: Keeps what was found in each file, so that only other files are disassembled again; nothing is kept if
            it is not given.

    Raises:
        AuditError: Every function that holds an instruction beyond its file's limit is listed, with the first; or an
            instruction is missing that a kernel needs which has to be there.
        CommandError: A file cannot be disassembled.
    """
    judges = [binutils.digest, binutils.machine, *binutils.names()] if store else []
    tasks = []
    for number, (name, path) in enumerate(sorted(files.items())):
        if (limit := limit_for(name, limits)) is None:
            continue
        own = work / f"judge-{number}"
        if store:
            tasks.append(partial(_kept, path, name, limit, binutils, own, store, judges))
        else:
            tasks.append(partial(judge, path, name, limit, binutils, own))
    # More threads would wait: only the disassembler and the assembler run side by side, what this process does is not.
    results = run_parallel(tasks, min(2, usable_cpus().count))
    judged = [result for result, _ in results]
    findings = [line for _, beyond in results for line in beyond]
    missing = [line for result in judged for line in result.missing]
    with log.open("a", encoding="utf-8") as stream:
        stream.writelines(f"{it.file}: {it.forms} instruction forms checked by -march={it.march}\n" for it in judged)
        stream.writelines(f"{line}\n" for line in (*findings, *missing))
    if findings:
        raise AuditError(
            f"instructions beyond what their library may hold, in {len(findings)} functions",
            where=where,
            output="\n".join(first_lines(findings, _SHOWN, "see the log")),
            log=log,
            next_step="compile them for less; or name what asks the CPU first under 'guarded', or the instruction set "
            "under 'march' of the library in matrix.yaml if every CPU that it needs has it",
        )
    if missing:
        raise AuditError(
            "kernels that this release has are not in the wheel",
            where=where,
            output="\n".join(missing),
            log=log,
            next_step="the compiler did not offer what they need, or upstream's CMake asked otherwise: read the log of "
            "the configuration; 'expected' of the library in matrix.yaml lists the instructions",
        )
    return tuple(judged)


def _kept(
    path: Path, name: str, limit: Limit, binutils: Binutils, work: Path, store: Store, judges: list[str]
) -> tuple[Judged, list[str]]:
    """Return what `judge` finds, from the store if the same file was judged by the same programs and limit."""
    key = make_key(file=file_digest(path), name=name, limit=asdict(limit), judges=judges, code=code_digest())

    def make(folder: Path) -> None:
        (folder / _JUDGED).write_bytes(_JUDGEMENT.dump_json(judge(path, name, limit, binutils, work)))

    return _JUDGEMENT.validate_json((store.get(KIND, key, make) / _JUDGED).read_bytes())


def judge(path: Path, name: str, limit: Limit, binutils: Binutils, work: Path) -> tuple[Judged, list[str]]:
    """Return what was found in one file, and a line for each function that breaks its limit.

    Args:
        path: The file.
        name: Its path in the wheel.
        limit: What it may hold.
        binutils: Of the target's toolchain.
        work: For what the assembler reads; made.

    Raises:
        AuditError: The assembler does not know the architecture, or there is no instruction in the file.
        CommandError: It cannot be disassembled.
    """
    work.mkdir(parents=True, exist_ok=True)
    disassemble: list[str | Path] = [binutils.objdump, "-d", "-w", "--no-show-raw-insn"]
    found = collect(blocks([*disassemble, "--no-addresses", path]))
    if not found:
        raise AuditError(
            f"the disassembler found no instructions in {name}",
            where=path,
            next_step="try the command by hand: " + " ".join(map(str, [*disassemble, path])),
        )
    decoded = {shape: text for shape, text in found.items() if is_decoded(text)}
    refused = refused_instructions(decoded, (f"-march={limit.march}",), binutils, work)
    unknown = refused_instructions(refused, EVERYTHING.get(binutils.machine, ()), binutils, work)
    beyond = {shape: text for shape, text in refused.items() if shape not in unknown}
    guarded: Counter[str] = Counter()
    lines: dict[str, str] = {}
    if beyond:
        with path.open("rb") as stream:
            functions = read_functions(stream)
        missed = set(beyond)
        for place in locate(blocks([*disassemble, path]), frozenset(beyond)):
            missed.discard(place.shape)
            function = functions.name(place.address)
            if _is_guarded(function, f"{module_of(name)}:{beyond[place.shape].split()[0].decode()}", limit):
                guarded[function] += 1
            else:
                text = _shown(beyond[place.shape])
                lines.setdefault(function, f"{name}: {function}: {place.address:#x}: {text} (not in {limit.march})")
        for text in (_shown(beyond[shape]) for shape in sorted(missed)):
            lines[text] = f"{name}: {text} (not in {limit.march})"
    held = {text.split(maxsplit=1)[0].decode(errors="replace") for text in decoded.values()}
    undecoded = [text for shape, text in found.items() if shape not in decoded or shape in unknown]
    result = Judged(
        file=name,
        march=limit.march,
        forms=len(decoded) - len(unknown),
        guarded=tuple(f"{function} ({count})" for function, count in sorted(guarded.items())),
        unjudged=tuple(sorted(_shown(text) for text in undecoded)),
        missing=tuple(_missing(name, held, limit)),
        untried=tuple(kernels for kernels, instructions in limit.untried if not held.isdisjoint(instructions)),
    )
    return result, list(lines.values())


def _missing(name: str, held: Collection[str], limit: Limit) -> Iterator[str]:
    for pattern in limit.expected:
        if not fnmatch.filter(held, pattern):
            yield f"{name}: no {pattern}"


def _is_guarded(function: str, instruction: str, limit: Limit) -> bool:
    mnemonic = instruction.rpartition(":")[2]
    if any(mnemonic in instructions for _, instructions in limit.untried):
        return True
    return any(fnmatch.fnmatchcase(name, pattern) for name in (function, instruction) for pattern in limit.guarded)


def _shown(text: bytes) -> str:
    return " ".join(text.decode(errors="replace").split())
