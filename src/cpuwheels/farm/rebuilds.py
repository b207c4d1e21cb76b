"""Rebuilds of published wheels by a farm: sent all at once, and what a worker states is checked before it counts."""

from __future__ import annotations

from concurrent.futures import FIRST_COMPLETED, CancelledError, wait
from typing import TYPE_CHECKING

from cpuwheels.core.digests import make_key
from cpuwheels.core.errors import NotReproducedError, PostponedError, ProvenanceError
from cpuwheels.core.filesystem import appearing, storage_errors
from cpuwheels.core.plain_file import read_plain
from cpuwheels.farm.done import put_files, refused
from cpuwheels.farm.executor import FarmGoneError
from cpuwheels.farm.job import Job, Needs
from cpuwheels.rebuild.signing import sign_rebuild
from cpuwheels.rebuild.site.round import Rebuilt
from cpuwheels.rebuild.statement import LARGEST, SUFFIX, check_rebuild

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from concurrent.futures import Future
    from pathlib import Path

    from cpuwheels.attestation.sign import Signing
    from cpuwheels.core.budget import Budget
    from cpuwheels.core.console import Reporter
    from cpuwheels.farm.done import Done
    from cpuwheels.farm.executor import Executor
    from cpuwheels.farm.graph import Estimate
    from cpuwheels.rebuild.site.newest import NewWheel

_LOOK_SECONDS = 1.0
_MEMBERS = 5


class FarmRebuilder:
    """Has wheels rebuilt by a farm; see `cpuwheels.rebuild.site.round.Rebuilder`.

    Args:
        executor: Of the farm.
        identity: See `cpuwheels.farm.job.project_identity`.
        options: Of the command that rebuilds.
        rebuilder: URI of who rebuilds, as statements have to name it.
        estimate: What jobs take.
        reporter: Told which worker did it.
        signing: How statements are signed, here; not at all when None.
        priority: Of the jobs.
    """

    def __init__(
        self,
        executor: Executor,
        identity: str,
        options: Sequence[str],
        rebuilder: str,
        estimate: Estimate,
        reporter: Reporter,
        signing: Signing | None = None,
        priority: float = 0.0,
    ) -> None:
        self._executor, self._identity, self._options = executor, identity, tuple(options)
        self._rebuilder, self._estimate, self._reporter = rebuilder, estimate, reporter
        self._signing, self._priority = signing, priority
        self._sent: dict[str, tuple[Job, Future[Done]]] = {}

    def in_order(self, wheels: Sequence[NewWheel], budget: Budget) -> Iterator[NewWheel]:
        """Send all of the wheels, and yield each when there is a result; what the budget is too small for comes last.

        Args:
            wheels: What has to be rebuilt.
            budget: What may be used; once it is spent the jobs are given up.

        Raises:
            FarmError: No worker can rebuild one of them.
        """
        self._sent = {wheel.sha256: (job, self._executor.submit(job)) for wheel in wheels for job in [self._job(wheel)]}
        left = {wheel.sha256: wheel for wheel in wheels}
        while left and not budget.spent():
            waiting = {self._sent[name][1]: name for name in left}
            finished, _ = wait(waiting, timeout=_LOOK_SECONDS, return_when=FIRST_COMPLETED)
            yield from [left.pop(waiting[future]) for future in finished]
        if left:
            self._executor.cancel()
        yield from left.values()

    def __call__(self, wheel: NewWheel, out: Path) -> Rebuilt:
        """Put what came of a rebuild into a folder, signed if that is wanted.

        Raises:
            PostponedError: The farm is gone.
            FarmError: What a worker has sent is none of this wheel.
            CpuwheelsError: It was not rebuilt; of the class that the worker's command ended with.
        """
        job, future = self._sent[wheel.sha256]
        try:
            done = future.result()
        except FarmGoneError as error:
            raise PostponedError(error.what, where=error.where, next_step=error.next_step) from error
        except CancelledError as error:
            raise PostponedError("the farm's jobs were given up", next_step="run it again") from error
        if done.code not in {0, NotReproducedError.exit_code}:
            raise done.error(job)
        self._reporter.info(f"rebuilt by {done.by}")
        with storage_errors(out), appearing(out) as fresh:
            put_files(done, fresh)
            result = self._checked(wheel, done, fresh)
            if self._signing is not None:
                sign_rebuild(fresh / f"{wheel.name}{SUFFIX}", self._signing)
        return result

    def _checked(self, wheel: NewWheel, done: Done, folder: Path) -> Rebuilt:
        """Return what a statement says, if it is about this wheel, by this rebuilder, and what the command said."""
        path = folder / f"{wheel.name}{SUFFIX}"
        try:
            statement = check_rebuild(read_plain(path, LARGEST), wheel.name, wheel.sha256, path)
        except (OSError, ProvenanceError) as error:
            raise refused(done, str(error).partition("\n")[0], wheel.name) from error
        summary = statement.predicate
        if summary.verifier.id != self._rebuilder:
            raise refused(done, f"its statement is by {summary.verifier.id}", wheel.name)
        reproduced = summary.details.result == "reproduced"
        if reproduced != (done.code == 0):
            raise refused(done, "its statement says something else than its exit code", wheel.name)
        if reproduced:
            return Rebuilt(True, f"{wheel.name} was built again, and the bytes are the same")
        places = ", ".join(one or "the archive" for one in summary.details.differing[:_MEMBERS])
        return Rebuilt(False, f"{wheel.name} was built again, and the bytes differ: {places}")

    def _job(self, wheel: NewWheel) -> Job:
        needs = Needs(can=f"build:{wheel.target}", memory=self._estimate.memory(wheel.target))
        source = wheel.pinned_url
        key = make_key(kind="rebuild", target=wheel.target, of=source, options=self._options, identity=self._identity)
        return Job(
            key=key,
            kind="rebuild",
            target=wheel.target,
            source=source,
            options=self._options,
            needs=needs,
            seconds=self._estimate.seconds("rebuild", wheel.target),
            priority=self._priority,
            identity=self._identity,
        )
