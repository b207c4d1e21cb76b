"""A worker's one job: ended when it is not wanted any more, refused where there is no farm."""

from __future__ import annotations

import pickle
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from cpuwheels.core.elsewhere import taken_from
from cpuwheels.core.store import Store
from cpuwheels.farm.done import Done
from cpuwheels.farm.worker import JobPlugin, PassingError, _Run, do_job, forget_carried
from cpuwheels.shared.folder import Folder
from cpuwheels.shared.pull import SharedStore
from farms import begun, jobs_for, site_in, wait_for
from shared_stores import AUDIT, KERNELS, make_audit, make_kernels, other_store, share_all


@pytest.mark.parametrize("how", ["transition", "teardown"])
def test_a_job_that_is_not_wanted_is_ended(tmp_path: Path, how: str) -> None:
    plugin = JobPlugin(site_in(tmp_path, "one", carries=True))
    (tmp_path / "events" / "hang-a").touch()
    (job,) = jobs_for("a")
    ended: list[PassingError] = []

    def run() -> None:
        with pytest.raises(PassingError) as raised:
            plugin.run(job, ())
        ended.append(raised.value)

    thread = threading.Thread(target=run)
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
    assert ended[0].done.code != 0
    assert not psutil.pid_exists(command)


def test_what_has_ended_by_itself_takes_no_other_job_of_its_thread_with_it(tmp_path: Path) -> None:
    plugin = JobPlugin(site_in(tmp_path, "one", carries=True))
    first, second = jobs_for("a", "b")
    assert plugin.run(first, ()).code == 0
    run = _Run(threading.get_ident())
    plugin._end(first.key, run)
    assert not run.unwanted.is_set()
    assert plugin.run(second, ()).code == 0
    assert pickle.loads(pickle.dumps(plugin)).site == plugin.site, "it is sent to the worker's process"


def test_outside_of_a_farm_there_is_nothing_to_do() -> None:
    with pytest.raises(ValueError, match="No worker"):
        do_job(jobs_for("a")[0].model_dump_json())


def test_what_may_pass_keeps_its_result() -> None:
    done = Done("k", code=1)
    assert PassingError(done).done is done


def test_only_what_others_made_is_forgotten(tmp_path: Path) -> None:
    site = site_in(tmp_path, "one", carries=True)
    store = Store(site.paths.cache)
    other = other_store(tmp_path / "other")
    make_kernels(other)
    make_audit(other)
    share_all(other, Folder(tmp_path / "shared"))
    with taken_from(SharedStore(Folder(tmp_path / "shared"), None, print)):
        taken = [store.find("kernels", KERNELS), store.find("audited", AUDIT)]
    own = [make_kernels(store, "f" * 24), make_audit(store, "9" * 24)]
    worker: Any = SimpleNamespace(plugins={JobPlugin.name: JobPlugin(site)})
    assert all(each and each.exists() for each in taken)
    for key in (KERNELS, AUDIT, "f" * 24, "9" * 24):
        forget_carried(key, worker)
    assert not any(each and each.exists() for each in taken)
    assert all(each.exists() for each in own)
    forget_carried(KERNELS, SimpleNamespace(plugins={}))  # type: ignore[arg-type]
