"""The command that starts a farm's processes and makes its certificates."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, Unpack

import click

from cpuwheels.cli.clean_process import without_credentials
from cpuwheels.cli.farm_options import farm_keys, farm_option
from cpuwheels.cli.folders import pass_paths
from cpuwheels.cli.ranges import JobCount, SizeText
from cpuwheels.cli.shared_store import takes_from_store

if TYPE_CHECKING:
    from cpuwheels.config.paths import Paths
    from cpuwheels.farm.cluster import Place
    from cpuwheels.farm.ssh import Host

_PATH = click.Path(path_type=Path)


class _Farm(TypedDict):
    """The options of a farm's processes, as click names them."""

    workers: int | None
    host: str | None
    port: int | None
    name: str | None
    folder: Path | None
    memory: str | None
    jobs: str | None
    repo: Path | None
    hosts: Path | None


@click.command()
@click.argument("action", type=click.Choice(["keys", "up", "worker"]))
@farm_option("With worker: the scheduler's address, such as tls://host:8786.")
@farm_keys
@click.option("--workers", type=click.IntRange(min=0), help="With up: workers on this machine (default: 1).")
@click.option("--host", help="Address that is listened at (default with up: 127.0.0.1).")
@click.option(
    "--port", type=click.IntRange(0, 65535), help="With up: the scheduler's port (default: any that is free)."
)
@click.option("--name", help="With worker: its name (default: the machine's).")
@click.option("--folder", type=_PATH, help="Stores and jobs of the workers (default: farm/ in the stores).")
@click.option(
    "--memory", type=SizeText(), help="Memory cap of a worker's builds (default: its share of the machine's)."
)
@click.option("--jobs", type=JobCount(), help="Compilations at once of a worker (default: its share of the CPUs).")
@click.option("--repo", type=_PATH, help="Clone of vLLM on this machine (default: the repositories of matrix.yaml).")
@click.option(
    "--hosts", type=_PATH, help="With up: list of machines on which a worker is started by ssh, a host on each line."
)
@without_credentials
@pass_paths
@takes_from_store
def farm(paths: Paths, /, action: str, farm: str | None, farm_keys: Path | None, **options: Unpack[_Farm]) -> None:
    """Start a farm, or a worker for a farm, or make a farm's certificates.

    ``keys`` makes them, ``up`` runs a scheduler and workers on this machine, ``worker`` one worker for a scheduler
    elsewhere, until a signal ends them.
    """
    import asyncio

    from cpuwheels.cli.farm_options import keys_folder, require_dask
    from cpuwheels.core.console import Reporter

    _refuse(action, farm, options)
    require_dask()
    from cpuwheels.farm.cluster import run_scheduler, run_worker
    from cpuwheels.farm.security import CERTIFICATE, make_certificates

    reporter, keys = Reporter("farm"), keys_folder(paths, farm_keys)
    if action == "keys" or (action == "up" and farm_keys is None and not (keys / CERTIFICATE).exists()):
        make_certificates(keys)
        reporter.info(f"certificates: {keys}; whoever has them can run programs on each machine of the farm")
        if action == "keys":
            return

    def ready(where: str) -> None:
        reporter.info(f"{action} runs; --farm-keys {keys}")
        print(where, flush=True)

    if action == "up":
        hosts = _hosts(options)
        count = options["workers"] if options["workers"] is not None else 0 if hosts else 1
        places = [_place(paths, keys, f"worker-{number + 1}", count, options) for number in range(count)]
        host, port = options["host"] or "127.0.0.1", options["port"] or 0
        asyncio.run(run_scheduler(keys, host, port, places, ready, hosts, reporter.info))
    else:
        import platform

        place = _place(paths, keys, options["name"] or platform.node() or "worker", 1, options)
        asyncio.run(run_worker(str(farm), keys, place, options["host"], ready))


def _hosts(options: _Farm) -> list[Host]:
    """Return the machines on which workers are started.

    Raises:
        UsageError: They could not reach the scheduler.
        FarmError: The list is wrong.
    """
    from cpuwheels.core.errors import UsageError
    from cpuwheels.farm.ssh import read_hosts

    if options["hosts"] is None:
        return []
    if options["host"] is None:
        raise UsageError(
            "the address that other machines reach this one at is missing",
            where="--host",
            next_step="give it, such as --host 10.0.0.1",
        )
    return read_hosts(options["hosts"].expanduser())


def _refuse(action: str, address: str | None, options: _Farm) -> None:
    """Refuse options that do not go with the action.

    Raises:
        UsageError: One is given, or the address is missing.
    """
    from cpuwheels.core.errors import UsageError

    allowed = {"keys": set[str](), "up": {"workers", "host", "port", "folder", "memory", "jobs", "repo", "hosts"}}
    fitting = allowed.get(action, {"host", "name", "folder", "memory", "jobs", "repo"})
    if wrong := [name for name, value in options.items() if value is not None and name not in fitting]:
        raise UsageError(f"farm {action} has no such option", where=f"--{wrong[0]}", next_step="leave it out")
    if action == "worker" and not (address or "").startswith("tls://"):
        raise UsageError(
            f"{address!r:.200} is no address of a farm" if address else "there is no address",
            where="--farm",
            next_step="give the one that cpuwheels farm up prints, such as tls://127.0.0.1:8786",
        )


def _place(paths: Paths, keys: Path, name: str, count: int, options: _Farm) -> Place:
    """Return a worker of this machine, with its share of it and stores of its own."""
    from dataclasses import replace

    from cpuwheels.config.matrix import load_matrix
    from cpuwheels.core.elsewhere import elsewhere
    from cpuwheels.core.entry_links import link_entries
    from cpuwheels.core.sealed_entry import MOVABLE
    from cpuwheels.core.store import Store
    from cpuwheels.farm.cluster import Place, signing_key
    from cpuwheels.farm.machine import this_offers
    from cpuwheels.farm.site import Site
    from cpuwheels.kernels.memory.limits import available_memory, choose_cap, usable_cpus

    folder = (options["folder"] or paths.cache / "farm").expanduser().resolve() / name
    cap = options["memory"] or f"{choose_cap(None, available_memory()).bytes // count >> 20}M"
    jobs = options["jobs"] or str(max(1, usable_cpus().count // count))
    shared = elsewhere()
    link_entries(paths.cache, MOVABLE, folder / "stores")
    site = Site(
        name=name,
        paths=replace(paths, cache=folder / "stores", dist=folder / "dist"),
        work=folder / "work",
        memory=cap,
        jobs=jobs,
        repo=options["repo"].expanduser().resolve() if options["repo"] else None,
        store=shared.arguments if shared else (),
        key=signing_key(keys),
    )
    return Place(site, this_offers(name, load_matrix(paths.matrix), paths.root, Store(paths.cache), cap))
