"""Putting a CPU build of torch into an environment, from the first place that really has one."""

from __future__ import annotations

import contextlib
import csv
import os
import platform
import re
from typing import TYPE_CHECKING

from uv import find_uv_bin

from cpuwheels.core.digests import text_digest
from cpuwheels.core.errors import LockedError, TorchError
from cpuwheels.core.filesystem import write_atomic
from cpuwheels.core.process import run
from cpuwheels.environment.torch_index import (
    INDEX_VARIABLES,
    cuda_of,
    is_version,
    offered_files,
    pip_configs,
    torch_offers,
    torch_requirement,
)
from cpuwheels.environment.torch_pinned import place_options
from cpuwheels.fetch.uv import found_interpreters, install_counted, uv_environment

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from cpuwheels.config.matrix import Target
    from cpuwheels.config.pins import TorchPin
    from cpuwheels.core.console import Reporter
    from cpuwheels.core.store import Store
    from cpuwheels.environment.torch_index import TorchOffer


def offer_environment() -> dict[str, str]:
    """Return the environment in which uv asks one place for torch and no other."""
    return {name: value for name, value in uv_environment().items() if name not in INDEX_VARIABLES}


def refuse_unpinned(torch: str, pin: TorchPin, target: Target, python: str) -> LockedError:
    """Return the error for a torch wheel that ``--locked`` refuses.

    Args:
        torch: Version, without a local label.
        pin: Its entry in the matrix.
        target: Of which platform it is.
        python: Version of the Python that it is for, such as ``3.11``.
    """
    tag = f"cp{python.replace('.', '')}"
    fallback = pin.alternate(target.machine)
    instead = f"take Debian's torch {fallback.version} with --allow-fallbacks, or " if fallback else ""
    return LockedError(
        f"torch {torch} for {target.machine} is not pinned by content",
        where="matrix.yaml: torch",
        next_step=f'add {{python: {tag}, machine: {target.machine}, sha256: DIGEST}} to the wheels of "{torch}" there '
        f"and run `nox -s schema`: {pin.index_for(target.system).rstrip('/')}/torch/ has the digest of "
        f"{torch_requirement(torch, pin, target)}; or {instead}build without --locked",
    )


def install_torch(
    wanted: str, pin: TorchPin, *, python: Path, digests: Sequence[str], store: Store, reporter: Reporter, log: Path
) -> tuple[TorchOffer | None, list[str]]:
    """Install the CPU build of torch of the first place that offers one.

    Each place's install plan is checked first, so only the right wheel is ever downloaded.

    Args:
        wanted: Requirement that only the CPU build satisfies; see `torch_requirement`.
        pin: Names the index.
        python: Interpreter of the environment, which has torch's own requirements already.
        digests: sha256 digests that the wheel may have; any if there are none.
        store: Where a wheel is kept that is fetched without uv.
        reporter: Reports where torch comes from.
        log: uv's output.

    Returns:
        The place it came from, or None; and why each place before it was refused.

    Raises:
        LockedError: The list of the run's downloads does not have the place, or the wheel.
        TorchError: A place served a CUDA build under a CPU build's name.
    """
    requirement = log.with_name("torch-requirement.txt")
    write_atomic(requirement, f"{wanted}{''.join(f' --hash=sha256:{digest}' for digest in digests)}\n")
    install: list[str | Path] = [find_uv_bin(), "pip", "install", "--python", python, "--only-binary", "torch"]
    env = offer_environment()
    faults: list[str] = []
    for offer in torch_offers(pin, os.environ, pip_configs(os.environ), platform.system()):
        options, missing = place_options(offer, digests, store=store, reporter=reporter)
        if missing:
            faults.append(f"{offer.title}: {missing}")
            continue
        plan = run([*install, *options, "--dry-run", wanted], log=log, env=env, check=False)
        if fault := judge_plan(plan.returncode, plan.output, wanted):
            faults.append(f"{offer.title}: {fault}{_listed(offer)}")
            continue
        if not digests:
            reporter.announce(f"{wanted} is not pinned by content; taking it from {offer.location}")
        reporter.info(f"installing {wanted} from {offer.location} (named by {offer.named_by})")
        done = install_counted([*install, *options, "--no-deps", "-r", requirement], env=env, log=log, check=False)
        if done.returncode != 0:
            faults.append(f"{offer.title}: {_last_line(done.output)}")
            continue
        _check_cpu(python, wanted, offer)
        return offer, faults
    return None, faults


def refused_offers(wanted: str, pin: TorchPin, pythons: Sequence[str], log: Path) -> list[str] | None:
    """Return why each place is refused, or None if one of them has a wheel; nothing is installed.

    uv is asked only about places that list the version, or whose list cannot be read here.

    Args:
        wanted: Requirement that only the CPU build satisfies; see `torch_requirement`.
        pin: Names the index.
        pythons: Versions of Python; the interpreters of this machine count.
        log: uv's output.
    """
    requirement = log.with_name("torch-wanted.in")
    write_atomic(requirement, f"{wanted}\n")
    command: list[str | Path] = [find_uv_bin(), "pip", "compile", "--quiet", "--no-deps", "--only-binary", ":all:"]
    env = {"UV_HTTP_RETRIES": "0"} | offer_environment()
    interpreters: dict[str, Path] | None = None
    faults: list[str] = []
    for offer in torch_offers(pin, os.environ, pip_configs(os.environ), platform.system()):
        names: list[str] | None = None
        try:
            names = offered_files(offer)
        except ConnectionError as error:
            faults.append(f"{offer.title}: {error}")
            continue
        except OSError:
            pass
        fault: str | None = f"no {wanted}"
        if names is None or any(is_version(name, wanted) for name in names):
            interpreters = found_interpreters(pythons) if interpreters is None else interpreters
            asked = [[*command, "--python", one, *offer.uv_options(), requirement] for one in interpreters.values()]
            fault = _refusal(asked, log, env) if asked else fault
        if fault is None:
            return None
        faults.append(f"{offer.title}: {fault}{_list(names or [])}")
    return faults


def _refusal(asked: Sequence[Sequence[str | Path]], log: Path, env: Mapping[str, str]) -> str | None:
    """Return why uv finds no wheel at a place for any interpreter, or None if it does; a silent place is asked once."""
    fault = ""
    for command in asked:
        done = run(command, log=log, env=env, check=False)
        if done.returncode == 0:
            return None
        fault = _last_line(done.output)
        if "No solution found" not in done.output:
            break
    return fault


def judge_plan(returncode: int, output: str, wanted: str) -> str:
    """Return why an install plan (``uv pip install --dry-run``) is refused, or nothing if it is good.

    The environment already has everything that a CPU build of torch needs, so a plan with more than torch
    itself is not a CPU build: CUDA builds bring nvidia-* and triton.
    """
    if returncode != 0:
        return _last_line(output) or "no such version"
    planned = re.findall(r"^ \+ ([\w.-]+)==", output, re.MULTILINE)
    extra = sorted(set(planned) - {"torch"})
    if extra:
        return f"not a CPU build of {wanted}: it would bring {', '.join(extra[:4])}"
    return ""


def torch_digest(site_packages: Path) -> str:
    """Return one digest of torch's headers and libraries, from the hashes in its RECORD."""
    record = next(site_packages.glob("torch-*.dist-info")) / "RECORD"
    with record.open(newline="", encoding="utf-8") as stream:
        rows = sorted(
            f"{row[0]} {row[1]}"
            for row in csv.reader(stream)
            if row[0].startswith(("torch/include/", "torch/lib/", "torch/share/cmake/"))
        )
    return text_digest("\n".join(rows))


def _check_cpu(python: Path, wanted: str, offer: TorchOffer) -> None:
    site = next((python.parent.parent / "lib").glob("python3*/site-packages"))
    if cuda := cuda_of(site / "torch"):
        raise TorchError(
            f"{offer.location} served a {wanted} that is a CUDA {cuda} build",
            where=offer.named_by,
            next_step="remove it from there; only CPU builds may be used",
        )


def _listed(offer: TorchOffer) -> str:
    with contextlib.suppress(OSError):
        return _list(offered_files(offer))
    return ""


def _list(names: Sequence[str]) -> str:
    return f"; it lists {', '.join(names[-3:])}" if names else ""


def _last_line(output: str) -> str:
    # uv draws its causes as a tree.
    lines = [line.strip(" \N{MULTIPLICATION SIGN}\u2570\u2500\u25b6") for line in output.splitlines() if line.strip()]
    return lines[-1] if lines else ""
