"""Commands about the project and this machine: its targets, what a build needs, what is generated and locked."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Unpack, cast

import click

from cpuwheels.cli.folders import pass_paths
from cpuwheels.cli.runtime import RuntimeOptions, check_runtime, refuse_without_runtime, runtime_options

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pydantic import BaseModel

    from cpuwheels.cli.folders import Folders
    from cpuwheels.config.paths import Paths


@click.command()
@click.option("--github", is_flag=True, help="For GitHub Actions: one line of JSON.")
@pass_paths
def matrix(paths: Paths, github: bool) -> None:
    """Show the targets that a nightly job builds, and where."""
    from cpuwheels.config.matrix import load_matrix

    targets = [target for target in load_matrix(paths.matrix).targets if target.is_ready and target.runner]
    if github:
        # Each target has a machine of its own, which remembers nothing: whose turn it is follows from the day.
        turn = datetime.now(UTC).toordinal() % max(1, len(targets))
        rows = [
            {"target": target.id, "runner": target.runner, "options": "" if number == turn else "--no-verify"}
            for number, target in enumerate(targets)
        ]
        print(json.dumps({"include": rows}, separators=(",", ":")))
        return
    for target in targets:
        print(f"{target.id}: {target.description}, on {target.runner}")


@click.command()
@click.argument("target", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print the checks as JSON.")
@click.option("--runtime", is_flag=True, help="Check what serving needs; TARGET is then a wheel or an environment.")
@runtime_options
@click.pass_obj
def doctor(
    folders: Folders, /, target: str | None, as_json: bool, runtime: bool, **options: Unpack[RuntimeOptions]
) -> None:
    """Check everything a build of TARGET needs before it starts.

    With --runtime: which kernels vLLM would run on this machine, with which settings, and what would fail. TARGET is
    then a wheel of vLLM, or an environment that it is installed in.
    """
    if runtime:
        sys.exit(check_runtime(folders, target, options, as_json=as_json))
    refuse_without_runtime(options)
    from cpuwheels.config.host import default_target
    from cpuwheels.config.matrix import load_matrix
    from cpuwheels.doctor import check

    paths = folders.paths()
    configured = load_matrix(paths.matrix)
    wanted = configured.buildable(target) if target else default_target(configured)

    def look() -> Iterator[check.Check]:
        # What it imports takes a second or more: the first line is printed before.
        from cpuwheels.doctor.diagnose import diagnose

        yield from diagnose(paths, configured, wanted)

    if as_json:
        checks = tuple(look())
        print(check.as_json(wanted.id, checks))
    else:
        from rich.console import Console

        from cpuwheels.doctor.rows import print_checks

        checks = print_checks(Console(), wanted.id, look())
    sys.exit(check.exit_code(checks))


@click.command()
@click.option("--check", "only_check", is_flag=True, help="Change nothing; fail if a file is stale.")
@click.pass_context
@pass_paths
def schema(paths: Paths, context: click.Context, only_check: bool) -> None:
    """Write what is generated: JSON schemas, reference pages, lists of downloads, manual page and completion."""
    from cpuwheels.cli.manual import interface_files
    from cpuwheels.cli.renamed import renamed_page
    from cpuwheels.config.download_lists import download_files
    from cpuwheels.config.matrix import load_matrix
    from cpuwheels.config.reference import write_reference
    from cpuwheels.doctor.runtime.report import Report
    from cpuwheels.index.commit_pages import Commits
    from cpuwheels.index.sites import Sites
    from cpuwheels.pipeline.comparison.result import Comparison
    from cpuwheels.rebuild.site.listing import Listing

    paths.require_checkout("schema")
    outputs: dict[str, type[BaseModel]] = {
        "comparison": Comparison,
        "doctor-runtime": Report,
        "commits": Commits,
        "rebuilder-sites": Sites,
        "rebuilds": Listing,
    }
    matrix = load_matrix(paths.matrix)
    interface = interface_files(paths.root / "share", cast("click.Group", context.find_root().command))
    old_spellings = {paths.root / "docs" / "reference" / "renamed.md": renamed_page()}
    also = {**download_files(paths.root, matrix), **interface, **old_spellings}
    for path in write_reference(paths.root, matrix, only_check=only_check, outputs=outputs, also=also):
        print(f"written: {path.relative_to(paths.root)}")


@click.command()
@click.option("--update", is_flag=True, help="Take newer versions, but none that was published in the last days.")
@click.option(
    "--cooldown",
    type=click.FloatRange(0, 3650),
    default=7.0,
    show_default=True,
    metavar="DAYS",
    help="With --update: how long a version has to have been published.",
)
@click.option("--allow", "allowed", multiple=True, metavar="NAME", help="A package of any age, as for a security fix.")
@click.option(
    "--as-of",
    type=click.DateTime(["%Y-%m-%d", "%Y-%m-%dT%H:%M"]),
    help="Accept lists of Debian that have expired if they were valid at that time (UTC).",
)
@click.option("--only", type=click.Choice(["python", "debian"]), help="Renew these locks alone.")
@pass_paths
def lock(
    paths: Paths, update: bool, cooldown: float, allowed: tuple[str, ...], as_of: datetime | None, only: str | None
) -> None:
    """Resolve the locks of Python tools and Debian packages anew, all of them or none."""
    from rich.console import Console

    from cpuwheels.core.console import Reporter
    from cpuwheels.core.filesystem import make_folders, storage_errors, write_atomic
    from cpuwheels.core.store import Store
    from cpuwheels.core.text import counted
    from cpuwheels.fetch.locks.table import markdown, terminal_table
    from cpuwheels.fetch.locks.update import UpdateOptions, update_locks

    paths.require_checkout("lock")
    options = UpdateOptions(
        update=update,
        cooldown=cooldown,
        allowed=allowed,
        as_of=as_of.replace(tzinfo=UTC) if as_of else None,
        python=only != "debian",
        debian=only != "python",
    )
    folder = paths.dist / "locks"
    with storage_errors(folder):
        make_folders(folder)
    reporter = Reporter("lock")
    found = update_locks(paths.root, options, store=Store(paths.cache), reporter=reporter, logs=folder)
    page = folder / "changes.md"
    with storage_errors(page):
        write_atomic(page, markdown(found.changes, found.held, found.notes))
    console = Console()
    for note in found.notes:
        reporter.info(note)
    if found.changes:
        terminal_table(found.changes).print(console)
    for name, why in found.held.items():
        reporter.announce(f"{name} stays as it is: {why}")
    changes, files = counted(len(found.changes), "change"), counted(len(found.files), "file")
    line = f"{changes}, {files} written; for a pull request: {page}"
    console.print(line, soft_wrap=True, markup=False)
