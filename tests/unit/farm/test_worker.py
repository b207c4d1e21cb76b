"""A worker's one job: ended when it is not wanted any more, refused where there is no farm."""

from __future__ import annotations

import threading
from pathlib import Path

import psutil
import pytest

from cpuwheels.farm.done import Done
from cpuwheels.farm.worker import JobPlugin, PassingError, do_job
from farms import begun, jobs_for, site_in, wait_for


@pytest.mark.parametrize("how", ["transition", "teardown"])
def test_a_job_that_is_not_wanted_is_ended(tmp_path: Path, how: str) -> None:
    plugin = JobPlugin(site_in(tmp_path, "one", carries=True))
    (tmp_path / "events" / "hang-a").touch()
    (job,) = jobs_for("a")
    results: list[Done] = []
    thread = threading.Thread(target=lambda: results.append(plugin.run(job, ())))
    thread.start()
    wait_for(lambda: begun(tmp_path / "events", "build x86 a"))
    ((command, _),) = begun(tmp_path / "events", "build x86 a")
    plugin.transition(job.key, "waiting", "ready")
    plugin.transition("another", "executing", "released")
    assert psutil.pid_exists(command)
    if how == "transition":
        plugin.transition(job.key, "executing", "released")
    else:
        plugin.teardown(None)  # type: ignore[arg-type]
    thread.join(60)
    assert results[0].code != 0
    assert not psutil.pid_exists(command)


def test_outside_of_a_farm_there_is_nothing_to_do() -> None:
    with pytest.raises(ValueError, match="No worker"):
        do_job(jobs_for("a")[0].model_dump_json())


def test_what_may_pass_keeps_its_result() -> None:
    done = Done("k", code=1)
    assert PassingError(done).done is done
