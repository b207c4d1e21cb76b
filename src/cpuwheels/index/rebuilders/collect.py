"""``nox -s collect-rebuilds``: asks the sites of rebuilders, and puts what counts of their statements into an index.

What an index has taken stays, also when a site is gone or does not show it any more, as long as the rebuilder is one of
those that count. So nobody who serves a site can take a statement back.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cpuwheels.index.agreement import Agreement
from cpuwheels.index.commit_pages import Commits
from cpuwheels.index.entry import stamp
from cpuwheels.index.layout import BUNDLE, COMMITS, FORMAT_FILE, NIGHTLY, SITES, lasting_view, wheel_path
from cpuwheels.index.overview import root_page
from cpuwheels.index.publish import finish, publish_rebuilds
from cpuwheels.index.reading import check_format, read_commit_page, read_entries
from cpuwheels.index.rebuilders.site import ask_site
from cpuwheels.index.rebuilders.statements import deciding, findings_of, read_kept
from cpuwheels.index.retention import views_of
from cpuwheels.index.simple_pages import page_text
from cpuwheels.index.sites import Site, Sites, read_sites

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from cpuwheels.core.console import Reporter
    from cpuwheels.index.bucket import Bucket
    from cpuwheels.index.entry import Entry
    from cpuwheels.index.rebuilders.known import KnownRebuilder
    from cpuwheels.index.rebuilders.site import SiteAnswer
    from cpuwheels.index.rebuilders.statements import CountedStatement

_SHOWN = 20


@dataclass(frozen=True)
class Collection:
    """What came of asking.

    Attributes:
        sites: What each site answered.
        changed: Wheels of which the pages say something else now.
    """

    sites: Sites
    changed: tuple[Entry, ...]


def collect(bucket: Bucket, rebuilders: Sequence[KnownRebuilder], reporter: Reporter, now: datetime) -> Collection:
    """Ask the sites of rebuilders about an index's wheels, and have its pages say what they say.

    Nobody holds the index while sites are asked, which takes as long as they let it, and then only what changes is read
    again. A wheel that is published meanwhile has its turn the next time.

    Args:
        bucket: Where the index is kept.
        rebuilders: Whose statements count; those of others are taken out.
        reporter: Told what each site answered.
        now: The time.

    Raises:
        PublishError: The index cannot be understood or changed, or another publisher is at work.
    """
    entries = listed_wheels(bucket)
    kept = {sha256: _kept(bucket, entry, rebuilders) for sha256, entry in entries.items()}
    known: dict[str, set[str]] = {one.name: set() for one in rebuilders}
    for one in (one for found in kept.values() for one in found.statements):
        known[one.rebuilder].add(one.digest)
    answers: dict[str, SiteAnswer] = {}
    for rebuilder in rebuilders:
        name = rebuilder.name
        with reporter.stage("rebuilder", f"{name}: {rebuilder.url}"):
            answers[name] = ask_site(rebuilder, entries, known[name], now)
            _tell(name, answers[name], reporter)
    plans = [_plan(entry, kept[sha256], rebuilders, answers) for sha256, entry in entries.items()]
    with bucket.alone():
        check_format(bucket)
        finish(bucket)
        changed = []
        for plan in (plan for plan in plans if plan.changes):
            current = next((one for one in read_entries(bucket, plan.view) if one.sha256 == plan.entry.sha256), None)
            if current is None:  # it was taken out meanwhile
                continue
            last = plan
            if current != plan.entry:
                last = _plan(current, _kept(bucket, current, rebuilders), rebuilders, answers)
            publish_rebuilds(bucket, last.published, last.content)
            entries[current.sha256] = last.published
            changed.append(last.published)
        sites = Sites(asked=stamp(now), sites=_sites(bucket, rebuilders, answers, list(entries.values()), now))
        bucket.write(SITES, page_text(sites).encode())
        commits = read_commit_page(bucket, COMMITS, Commits)
        bucket.write_pages(root_page(commits, read_entries(bucket, NIGHTLY), sites))
    return Collection(sites, tuple(changed))


def listed_wheels(bucket: Bucket) -> dict[str, Entry]:
    """Return all wheels of an index by digest.

    Raises:
        PublishError: It is damaged.
    """
    names = bucket.names()
    if FORMAT_FILE in names:
        check_format(bucket)
    return {one.sha256: one for view in views_of(names) for one in read_entries(bucket, view)}


@dataclass(frozen=True)
class _Kept:
    """What an index has about a wheel.

    Attributes:
        content: Its file of statements; empty if there is none.
        statements: Those of them that count.
    """

    content: bytes
    statements: tuple[CountedStatement, ...]


@dataclass(frozen=True)
class _Plan:
    """What the pages of a wheel are to say.

    Attributes:
        entry: What they say.
        published: What they are to say.
        content: The file of statements as it is to be; empty for none.
        changes: Whether anything has to be written.
    """

    entry: Entry
    published: Entry
    content: bytes
    changes: bool

    @property
    def view(self) -> str:
        """A page that lists the wheel as long as it is there."""
        return lasting_view(self.entry)


def _kept(bucket: Bucket, entry: Entry, rebuilders: Sequence[KnownRebuilder]) -> _Kept:
    """Return what the index has about a wheel; all of it is verified again."""
    path = f"{wheel_path(entry)}{BUNDLE}"
    told = entry.rebuilds is not None and entry.rebuilds.statements is not None
    content = (bucket.read(path) or b"") if told else b""
    return _Kept(content, tuple(read_kept(content, rebuilders, entry, path)[0]))


def _plan(entry: Entry, kept: _Kept, rebuilders: Sequence[KnownRebuilder], answers: Mapping[str, SiteAnswer]) -> _Plan:
    fetched = [one for answer in answers.values() for one in answer.statements.get(entry.sha256, [])]
    statements = deciding([*kept.statements, *fetched])
    content = b"".join(one.line for one in statements)
    agreement = _agreement(entry, statements, rebuilders, answers)
    changes = agreement != entry.rebuilds or content != kept.content
    return _Plan(entry, entry.model_copy(update={"rebuilds": agreement}), content, changes)


def _agreement(
    entry: Entry,
    statements: Sequence[CountedStatement],
    rebuilders: Sequence[KnownRebuilder],
    answers: Mapping[str, SiteAnswer],
) -> Agreement | None:
    if not rebuilders:
        return None
    before = {(one.name, one.moment): one.report for one in (entry.rebuilds.findings if entry.rebuilds else ())}
    reports = {
        one.digest: found
        for one in statements
        if (found := before.get((one.rebuilder, one.statement.predicate.time_verified)))
    }
    for one in statements:  # a site names no report for a statement of another's
        if found := answers[one.rebuilder].reports.get(one.digest):
            reports[one.digest] = found
    content = b"".join(one.line for one in statements)
    return agreement_of(statements, rebuilders, reports, hashlib.sha256(content).hexdigest() if content else None)


def agreement_of(
    statements: Sequence[CountedStatement],
    rebuilders: Sequence[KnownRebuilder],
    reports: Mapping[str, str],
    digest: str | None,
) -> Agreement:
    """Return what rebuilders say of a wheel together.

    Args:
        statements: What `deciding` returned.
        rebuilders: All that are known.
        reports: Addresses of reports, by the digest of the envelope that each belongs to.
        digest: Of the file that has the statements.
    """
    findings = findings_of(statements, reports)
    spoken = {one.name for one in findings}
    silent = tuple(one.name for one in rebuilders if one.name not in spoken)
    return Agreement(findings=findings, silent=silent, statements=digest)


def _sites(
    bucket: Bucket,
    rebuilders: Sequence[KnownRebuilder],
    answers: Mapping[str, SiteAnswer],
    entries: Sequence[Entry],
    now: datetime,
) -> tuple[Site, ...]:
    before = read_sites(bucket)
    reached = {one.name: one.reached for one in before.sites} if before else {}
    findings = [one for entry in entries if entry.rebuilds for one in entry.rebuilds.findings]
    return tuple(
        Site(
            name=one.name,
            url=one.url,
            keys=tuple(key.keyid for key in one.keys),
            reached=stamp(now) if answers[one.name].reached else reached.get(one.name),
            fault=answers[one.name].fault,
            refused=tuple(answers[one.name].refused[:_SHOWN]),
            agrees=sum(found.name == one.name and found.state == "reproduced" for found in findings),
            differs=sum(found.name == one.name and found.state == "differs" for found in findings),
        )
        for one in rebuilders
    )


def _tell(name: str, answer: SiteAnswer, reporter: Reporter) -> None:
    new = sum(map(len, answer.statements.values()))
    if answer.fault:
        what = "not read to its end" if answer.reached else "not reachable"
        reporter.announce(f"{name}: {what}: {answer.fault}")
    if answer.reached:
        reporter.info(f"{name}: {new} new {'statement' if new == 1 else 'statements'}")
    for refused in answer.refused[:_SHOWN]:
        reporter.announce(f"{name}: does not count: {refused}")
