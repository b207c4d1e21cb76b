"""When a job is bound to workers that are gone, and for how long nobody can do it."""

from __future__ import annotations

from cpuwheels.farm.given import Given, nobody_left
from farms import jobs_for


def test_it_is_stranded_once_all_of_its_workers_have_other_addresses() -> None:
    (job,) = jobs_for("a")
    bound = Given(job, frozenset({"one", "two"}), names=frozenset({"one"}), addresses=frozenset({"tls://1"}))
    assert not bound.is_stranded({"tls://1": "one", "tls://2": "two"})
    assert bound.is_stranded({"tls://3": "one", "tls://2": "two"})
    assert not bound.is_stranded({"tls://2": "two"}), "it waits for the worker to come back"
    assert not Given(job, frozenset({"one"})).is_stranded({"tls://2": "one"})


def test_for_how_long_nobody_can_do_it() -> None:
    (job,) = jobs_for("a")
    given = Given(job, frozenset({"one"}))
    assert [given.lost_for(able, now) for able, now in ((["one"], 1.0), ([], 2.0), ([], 5.0))] == [0.0, 0.0, 3.0]
    assert [given.lost_for(able, now) for able, now in ((["one"], 6.0), ([], 7.0))] == [0.0, 0.0]
    assert "no worker of the farm can do wheel x86 a any more" in str(nobody_left(job))
