"""``nox -s rebuild``: the order of a rebuild, from a published wheel to a statement and a report in one folder.

All happens in a folder of the stores. What came of it appears in one rename, so whenever this is cut short, nothing is
left of it in the output.
"""

from __future__ import annotations

import contextlib
import hashlib
import shutil
import time
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from cpuwheels.attestation.envelope import sign_envelope
from cpuwheels.attestation.keys import open_signer
from cpuwheels.attestation.statement import check_build
from cpuwheels.core.arguments import named_arguments
from cpuwheels.core.digests import file_digest
from cpuwheels.core.errors import CpuwheelsError, NotReproducedError
from cpuwheels.core.filesystem import appearing, storage_errors
from cpuwheels.core.store import Store
from cpuwheels.pipeline.in_toto import Subject
from cpuwheels.pipeline.slsa import SUFFIX as PROVENANCE_SUFFIX
from cpuwheels.pipeline.variation.machine import Machine
from cpuwheels.rebuild.build import BuildFailedError, Place, rebuilt, require_closed
from cpuwheels.rebuild.diffoscope import diffoscope
from cpuwheels.rebuild.members import compare_members, fault_of
from cpuwheels.rebuild.mirror.use import open_mirror, settings_of
from cpuwheels.rebuild.preparation import prepare
from cpuwheels.rebuild.program import with_python
from cpuwheels.rebuild.report import PAGE, Result, difference_text, report_page
from cpuwheels.rebuild.statement import (
    LOCAL_REBUILDER,
    SIGNED_SUFFIX,
    SUFFIX,
    Attestation,
    Details,
    ProgramStated,
    make_statement,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from cpuwheels.attestation.sign import Signing
    from cpuwheels.config.matrix import Matrix, Target
    from cpuwheels.config.paths import Paths
    from cpuwheels.core.console import Reporter
    from cpuwheels.pipeline.in_toto import ResourceDescriptor
    from cpuwheels.rebuild.members import Compared
    from cpuwheels.rebuild.plan import RebuildPlan
    from cpuwheels.rebuild.preparation import Prepared, WheelChoice
    from cpuwheels.rebuild.program import Program
    from cpuwheels.rebuild.published import Published

DIFFERENCES = "differences.json"
REBUILT = "rebuilt"
"""Folder of the wheel that came out, if it is another one."""


@dataclass(frozen=True)
class RebuildOptions:
    """What the user may choose for a rebuild.

    Attributes:
        choice: Which wheel is meant, and what is believed of it.
        rebuilder: URI of who rebuilds.
        signing: How the statement is signed; not at all when None.
        out: Folder of the result; below ``dist/rebuilds`` when None.
        mirror: Where everything is taken from, with the network closed; None for the network.
        memory: Cap of the build, as given.
        jobs: Upper bound for compilations at once, as given.
    """

    choice: WheelChoice
    rebuilder: str = LOCAL_REBUILDER
    signing: Signing | None = None
    out: Path | None = None
    mirror: Path | None = None
    memory: str | None = None
    jobs: str | None = None

    @property
    def share(self) -> tuple[str, ...]:
        """Options of the build that limit its memory and compilations."""
        return tuple(named_arguments({"--memory": self.memory, "--jobs": self.jobs}))


def rebuild(
    paths: Paths, matrix: Matrix, target: Target, options: RebuildOptions, reporter: Reporter
) -> tuple[Result, Path]:
    """Build a published wheel again, compare, and return the result with the folder that has it.

    Args:
        paths: Folders to read and write.
        matrix: The configuration of this version: which repositories are trusted.
        target: Which wheel is meant, where an index has several.
        options: What the user chose.
        reporter: Told of every step.

    Raises:
        BuildFailedError: The build fails; it has printed why.
        CpuwheelsError: A step's own error.
    """
    store = Store(paths.cache)
    if options.signing is not None and options.signing.key is not None:
        open_signer(options.signing.key, options.signing.public_key)  # refused now, and not after hours
    mirror = open_mirror(options.mirror) if options.mirror else None
    if mirror is not None:
        require_closed(Machine())
    with store.scratch("rebuild") as base:
        given = prepare(paths, matrix, target, options.choice, base, store=store, reporter=reporter)
        out = options.out or paths.dist / "rebuilds" / f"{given.published.wheel.stem}-{given.published.sha256[:16]}"
        settings = settings_of(mirror, {"UV_CACHE_DIR": str(base / "uv")})
        with _keeping_logs(paths, base, reporter), settings:
            facts = given.found.plan.program
            log = base / "dist/logs/driver.log"
            given = replace(given, program=with_python(given.program, facts, base / "driver", log))
            reporter.info(f"building: {' '.join(given.found.plan.arguments())}")
            began, started = datetime.now(UTC), time.monotonic()
            place = Place(base, mirror, options.share)
            with rebuilt(given.found.plan, given.program, given.matrix, place, store) as wheel:
                result = _result(given, wheel, options, began, time.monotonic() - started, base)
                return _written(result, wheel, base / "result", out, options.signing), out


def _result(
    given: Prepared, wheel: Path, options: RebuildOptions, began: datetime, seconds: float, base: Path
) -> Result:
    """Return what came of a rebuild.

    Args:
        given: What was rebuilt.
        wheel: What came out.
        options: What the user chose.
        began: When the build began.
        seconds: It took.
        base: A folder for diffoscope.
    """
    published, found = given.published, given.found
    compared = _compared(published, wheel)
    statement = make_statement(
        published.wheel.name,
        published.sha256,
        _details(found.plan, given.program, wheel, compared, network=options.mirror is None),
        rebuilder=options.rebuilder,
        moment=began.strftime("%Y-%m-%dT%H:%M:%SZ"),
        read=_read(published, found.content),
    )
    text, why = diffoscope(published.wheel, wheel, base) if compared else ("", "")
    return Result(
        statement=statement,
        compared=compared,
        origin=published.origin,
        sizes=(published.wheel.stat().st_size, wheel.stat().st_size),
        seconds=seconds,
        provenance=found.by,
        diffoscope=text,
        without_diffoscope=why,
    )


def require_same(result: Result, folder: Path) -> None:
    """Check that the rebuilt wheel has the same bytes.

    Raises:
        NotReproducedError: It has others; the first differences are listed.
    """
    if not result.reproduced:
        raise NotReproducedError(
            result.sentence,
            where=folder / PAGE,
            output=difference_text(result),
            next_step="read the report; rebuild once more elsewhere to see which of both is the odd one",
        )


def _compared(published: Published, wheel: Path) -> Compared | None:
    """Return what differs; None if nothing does."""
    if published.wheel.name == wheel.name and published.sha256 == file_digest(wheel):
        return None
    try:
        return compare_members(published.wheel, wheel)
    except (CpuwheelsError, OSError) as error:
        return fault_of(error)


def _details(plan: RebuildPlan, program: Program, wheel: Path, compared: Compared | None, *, network: bool) -> Details:
    sha256 = file_digest(wheel)
    content = wheel.with_name(f"{wheel.name}{PROVENANCE_SUFFIX}").read_bytes()
    made = check_build(content, wheel.name, sha256, wheel)
    definition = made.predicate.build_definition
    used = definition.resolved_dependencies
    machine = Machine()
    return Details(
        result="differs" if compared else "reproduced",
        rebuilt=Subject(name=wheel.name, digest={"sha256": sha256}),
        program=ProgramStated(commit=program.commit, tree=program.tree, code=program.code),
        parameters=plan.asked.model_dump(by_alias=True, exclude_defaults=True) | {"toolchain": plan.toolchain},
        locked=plan.locked,
        network="open" if network else "closed",
        sandbox=str((definition.internal_parameters or {}).get("sandbox", ""))[:80],
        machine=machine.description,
        pinned=tuple(one for one in used if one.digest),
        otherwise=tuple(_otherwise(plan.dependencies, used))[:200],
        differing=tuple(one.member for one in compared.differences[:50]) if compared else (),
        remarks=plan.remarks,
    )


def _otherwise(before: Sequence[ResourceDescriptor], now: Sequence[ResourceDescriptor]) -> list[str]:
    """Return what of the inputs is not the same; of cpuwheels itself both builds have the same commit."""
    if not before:
        return []
    left, right = _named(before), _named(now)
    return [
        f"{name}: {left.get(name, 'nothing')} → {right.get(name, 'nothing')}"[:1200]
        for name in dict.fromkeys([*left, *right])
        if left.get(name) != right.get(name)
    ]


def _named(inputs: Sequence[ResourceDescriptor]) -> dict[str, str]:
    found = {}
    for one in inputs:
        if one.stage not in {"cpuwheels", "sandbox"}:
            digest = ", ".join(f"{kind} {value}" for kind, value in sorted((one.digest or {}).items()))
            found[f"{one.stage} {one.name or one.uri}"] = digest or str(one.uri)
    return found


def _read(published: Published, content: bytes) -> tuple[Attestation, ...]:
    if not content:
        return ()
    digest = {"sha256": hashlib.sha256(content).hexdigest()}
    return (Attestation(uri=f"urn:cpuwheels:provenance:sha256:{published.sha256}", digest=digest),)


def _written(result: Result, wheel: Path, staged: Path, out: Path, signing: Signing | None) -> Result:
    """Write what came of a rebuild into a folder, which appears as a whole, and return it as it was written."""
    name = result.statement.subject[0].name
    content = result.statement.render()
    envelope = None
    if signing is not None and signing.key is not None:
        signer = open_signer(signing.key, signing.public_key)
        envelope = sign_envelope(content, signer)
        result = replace(result, signed=signer.public_key.keyid)
    with storage_errors(out, next_step="make the folder writable, or pass --out"):
        staged.mkdir()
        (staged / f"{name}{SUFFIX}").write_bytes(content)
        if envelope is not None:
            (staged / f"{name}{SIGNED_SUFFIX}").write_bytes(envelope)
        if result.compared is not None:
            (staged / DIFFERENCES).write_text(result.compared.model_dump_json(indent=1) + "\n", encoding="utf-8")
            (staged / REBUILT).mkdir()
            shutil.copyfile(wheel, staged / REBUILT / wheel.name)
        (staged / PAGE).write_text(report_page(result), encoding="utf-8")
        with appearing(out) as fresh:
            shutil.copytree(staged, fresh, dirs_exist_ok=True)
    return result


@contextlib.contextmanager
def _keeping_logs(paths: Paths, base: Path, reporter: Reporter) -> Iterator[None]:
    """Keep the logs of a build that fails in the output folder."""
    try:
        yield
    except (BuildFailedError, CpuwheelsError):
        kept = paths.dist / "logs" / "rebuild" / datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%f")
        if (base / "dist/logs").is_dir():
            with storage_errors(kept):
                shutil.copytree(base / "dist/logs", kept)
            reporter.info(f"logs of the rebuild: {kept}")
        raise
