"""The command that starts a farm's processes and makes its certificates."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, Unpack

import click

from cpuwheels.cli.clean_process import without_credentials
from cpuwheels.cli.farm_options import KEYS, farm_keys, farm_option
from cpuwheels.cli.folders import pass_paths
from cpuwheels.cli.ranges import JobCount, SizeText
from cpuwheels.cli.shared_store import takes_from_store

if TYPE_CHECKING:
    from cpuwheels.config.paths import Paths
    from cpuwheels.farm.cluster import Place
    from cpuwheels.farm.slurm_job import Slurm
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
    slurm: int | None
    slurm_options: str | None
    image: str | None
    cpus: int | None
    storage: str | None
    namespace: str | None


@click.command()
@click.argument("action", type=click.Choice(["keys", "up", "worker", "kubernetes"]))
@farm_option("With worker: the scheduler's address, such as tls://host:8786.")
@farm_keys
@click.option(
    "--workers", type=click.IntRange(min=0), help="Workers: with up on this machine, with kubernetes pods (default: 1)."
)
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
@click.option("--slurm", type=click.IntRange(min=1), metavar="WORKERS", help="With up: workers that are jobs of SLURM.")
@click.option("--slurm-options", metavar="OPTIONS", help="Options of sbatch for these, such as '--mem=32G -c 16'.")
@click.option("--image", help="With kubernetes: the image that has this program.")
@click.option("--cpus", type=click.IntRange(min=1), help="With kubernetes: CPUs of a worker.")
@click.option("--storage", type=SizeText(), help="With kubernetes: disk of a worker (default: 100G).")
@click.option("--namespace", help="With kubernetes: of everything (default: cpuwheels).")
@without_credentials
@pass_paths
@takes_from_store
def farm(paths: Paths, /, action: str, farm: str | None, farm_keys: Path | None, **options: Unpack[_Farm]) -> None:
    """Start a farm, or a worker for a farm, or make a farm's certificates.

    ``keys`` makes them, ``up`` runs a scheduler and workers on this machine, ``worker`` one worker for a scheduler
    elsewhere, until a signal ends them. ``kubernetes`` prints manifests.
    """
    import asyncio

    from cpuwheels.cli.farm_options import keys_folder, require_dask
    from cpuwheels.core.console import Reporter

    _refuse(action, farm, options)
    require_dask()
    if action == "kubernetes":
        _print_manifests(options, farm_keys or paths.dist / KEYS)
        return
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
        slurm = _slurm(paths, options)
        count = options["workers"] if options["workers"] is not None else 0 if hosts or slurm else 1
        places = [_place(paths, keys, f"worker-{number + 1}", count, options) for number in range(count)]
        host, port = options["host"] or "127.0.0.1", options["port"] or 0
        more = _handed_on(options, options["repo"])
        asyncio.run(run_scheduler(keys, host, port, places, ready, hosts, reporter.info, slurm, more))
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
    from cpuwheels.farm.ssh import read_hosts

    if options["hosts"] is None:
        return []
    _require_host(options)
    return read_hosts(options["hosts"].expanduser())


def _slurm(paths: Paths, options: _Farm) -> Slurm | None:
    """Return what is asked of SLURM.

    Raises:
        UsageError: Its options cannot be read, or the workers could not reach the scheduler.
    """
    import shlex

    from cpuwheels.core.errors import UsageError
    from cpuwheels.farm.site import PROGRAM
    from cpuwheels.farm.slurm_job import Slurm

    if options["slurm"] is None:
        if options["slurm_options"] is not None:
            raise UsageError(
                "--slurm-options goes with --slurm",
                where="--slurm-options",
                next_step="give a number of workers, such as --slurm 8",
            )
        return None
    _require_host(options)
    try:
        words = shlex.split(options["slurm_options"] or "")
    except ValueError as error:
        raise UsageError(
            f"the options of sbatch cannot be read: {error}",
            where="--slurm-options",
            next_step="write them as in a shell, such as '--mem=32G --cpus-per-task=16'",
        ) from error
    return Slurm(
        workers=options["slurm"],
        command=(*PROGRAM, "--root", str(paths.root), "--cache", str(paths.cache)),
        more=_handed_on(options, options["repo"] and options["repo"].expanduser().resolve()),
        logs=paths.dist / "farm" / "slurm",
        options=tuple(words),
        folder=str(options["folder"]) if options["folder"] else None,
    )


def _handed_on(options: _Farm, repo: Path | None) -> tuple[str, ...]:
    """Return the options of workers that are started on other machines."""
    from cpuwheels.core.arguments import named_arguments
    from cpuwheels.core.elsewhere import elsewhere

    shared = elsewhere()
    given = {"--memory": options["memory"], "--jobs": options["jobs"], "--repo": str(repo) if repo else None}
    return (*named_arguments(given), *(shared.arguments if shared else ()))


def _print_manifests(options: _Farm, keys: Path) -> None:
    """Print the manifests, and apart from them what is to be done with the certificates.

    Raises:
        UsageError: Something is missing, or cannot be.
    """
    import re

    from cpuwheels.core.console import Reporter
    from cpuwheels.core.errors import UsageError
    from cpuwheels.core.units import parse_size
    from cpuwheels.farm.allocation import RESERVE
    from cpuwheels.farm.kubernetes import Wanted, manifests, secret_command

    image, memory, cpus = options["image"], options["memory"], options["cpus"]
    if image is None or memory is None or cpus is None:
        missing = next(name for name in ("image", "memory", "cpus") if options[name] is None)
        raise UsageError(
            f"manifests need --{missing}",
            where=f"--{missing}",
            next_step="give it, such as --image registry.example/cpuwheels:1 --memory 32G --cpus 16",
        )
    namespace = options["namespace"] or "cpuwheels"
    wrong = {
        "--image": not re.fullmatch(r"[\w][\w.:/@-]*", image, re.ASCII),
        "--memory": parse_size(memory) < 2 * RESERVE,
        "--namespace": not re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", namespace),
    }
    if found := [name for name, is_wrong in wrong.items() if is_wrong]:
        value = {"--image": image, "--memory": memory, "--namespace": namespace}[found[0]]
        raise UsageError(
            f"{value!r:.200} cannot be",
            where=found[0],
            next_step="give what Kubernetes takes, and at least 1G of memory",
        )
    storage = parse_size(options["storage"] or "100G")
    workers = 1 if options["workers"] is None else options["workers"]
    print(manifests(Wanted(image, workers, parse_size(memory), cpus, storage, namespace)), end="")
    Reporter("farm").info(f"certificates, once there is the namespace: {secret_command(namespace, str(keys))}")


def _require_host(options: _Farm) -> None:
    """Refuse workers on other machines without an address that they reach.

    Raises:
        UsageError: It is missing.
    """
    from cpuwheels.core.errors import UsageError

    if options["host"] is None:
        raise UsageError(
            "the address that other machines reach this one at is missing",
            where="--host",
            next_step="give it, such as --host 10.0.0.1",
        )


def _refuse(action: str, address: str | None, options: _Farm) -> None:
    """Refuse options that do not go with the action.

    Raises:
        UsageError: One is given, or the address is missing.
    """
    from cpuwheels.core.errors import UsageError

    shares = {"host", "folder", "memory", "jobs", "repo"}
    allowed = {
        "keys": set[str](),
        "up": shares | {"workers", "port", "hosts", "slurm", "slurm_options"},
        "worker": shares | {"name"},
        "kubernetes": {"workers", "memory", "image", "cpus", "storage", "namespace"},
    }
    if wrong := [name for name, value in options.items() if value is not None and name not in allowed[action]]:
        where = f"--{wrong[0].replace('_', '-')}"
        raise UsageError(f"farm {action} has no such option", where=where, next_step="leave it out")
    if action == "worker" and not (address or "").startswith("tls://"):
        raise UsageError(
            f"{address!r:.200} is no address of a farm" if address else "there is no address",
            where="--farm",
            next_step="give the one that cpuwheels farm up prints, such as tls://127.0.0.1:8786",
        )


def _place(paths: Paths, keys: Path, name: str, count: int, options: _Farm) -> Place:
    """Return a worker of this machine, with its share of it and stores of its own."""
    import os
    import sys
    from dataclasses import replace

    from cpuwheels.config.matrix import load_matrix
    from cpuwheels.core.elsewhere import elsewhere
    from cpuwheels.core.entry_links import link_entries
    from cpuwheels.core.sealed_entry import MOVABLE
    from cpuwheels.core.store import Store
    from cpuwheels.farm.allocation import allocation
    from cpuwheels.farm.cluster import Place, signing_key
    from cpuwheels.farm.machine import this_offers
    from cpuwheels.farm.site import Site
    from cpuwheels.kernels.memory.limits import available_memory, choose_cap, usable_cpus

    folder = (options["folder"] or paths.cache / "farm").expanduser().resolve() / name
    given = allocation(os.environ)
    share = min(choose_cap(None, available_memory()).bytes, given.memory or sys.maxsize) // count
    cap = options["memory"] or f"{share >> 20}M"
    jobs = options["jobs"] or str(max(1, min(usable_cpus().count, given.cpus or sys.maxsize) // count))
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
