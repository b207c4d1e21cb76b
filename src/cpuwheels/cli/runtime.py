"""``cpuwheels doctor --runtime``: a machine, a vLLM and a model in, a report out."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

import click

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from cpuwheels.cli.folders import Folders
    from cpuwheels.doctor.runtime.machine import Machine
    from cpuwheels.doctor.runtime.model import DType


class RuntimeOptions(TypedDict):
    """The options that only ``--runtime`` has."""

    model: Path | None
    max_model_len: int | None
    at_once: int | None
    dtype: DType | None
    machine: Path | None
    record: Path | None


_FILE = click.Path(path_type=Path)
_OPTIONS = (
    click.option("--model", type=_FILE, help="With --runtime: the model's folder, or its config.json."),
    click.option("--max-model-len", type=click.IntRange(min=1), help="With --runtime: tokens of the longest request."),
    click.option("--at-once", type=click.IntRange(min=1), help="With --runtime: requests under way at once."),
    click.option(
        "--dtype", type=click.Choice(["bfloat16", "float16", "float32"]), help="With --runtime: another data type."
    ),
    click.option("--machine", type=_FILE, help="With --runtime: a recorded machine in place of this one."),
    click.option("--record", type=_FILE, help="With --runtime: write this machine to a file and do nothing else."),
)


def runtime_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of ``--runtime`` to a command."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def refuse_without_runtime(options: RuntimeOptions) -> None:
    """Check that no option of ``--runtime`` is given without it.

    Raises:
        UsageError: One is.
    """
    from cpuwheels.core.errors import UsageError

    for name, value in options.items():
        if value is not None:
            option = f"--{name.replace('_', '-')}"
            raise UsageError(f"{option} needs --runtime", where="command line", next_step="add --runtime")


def check_runtime(folders: Folders, place: str | None, options: RuntimeOptions, *, as_json: bool) -> int:
    """Print the report and return the exit code.

    Args:
        folders: Where wheels and stores are.
        place: Wheel or environment; found if not given.
        options: The options of ``--runtime``.
        as_json: Whether to print JSON.

    Raises:
        UsageError: The vLLM, the model or the recorded machine cannot be read.
    """
    from cpuwheels.doctor.runtime.model import read_model
    from cpuwheels.doctor.runtime.package import read_package
    from cpuwheels.doctor.runtime.report import NO_MODEL, make_report
    from cpuwheels.doctor.runtime.settings import DEFAULT_REQUESTS, Wish

    if options["record"] is not None:
        _record(folders, options["record"])
        return 0
    package = read_package(Path(place) if place else _found(folders))
    machine = _machine(folders, options["machine"])
    model = read_model(options["model"]) if options["model"] else None
    wish = Wish(
        length=options["max_model_len"], requests=options["at_once"] or DEFAULT_REQUESTS, dtype=options["dtype"]
    )
    path = options["model"]
    served = NO_MODEL if path is None else str(path.parent if path.name.endswith(".json") else path)
    report = make_report(machine, package, model, wish, served)
    if as_json:
        print(report.model_dump_json(indent=2))
    else:
        from rich.console import Console

        from cpuwheels.doctor.runtime.printing import print_report

        print_report(Console(), report)
    return report.exit_code


def _record(folders: Folders, path: Path) -> None:
    from cpuwheels.doctor.runtime.probing import probe_system
    from cpuwheels.doctor.runtime.recording import record, write_record

    write_record(path, record(probe_system(folders.store())))
    print(path)


def _machine(folders: Folders, recorded: Path | None) -> Machine:
    from cpuwheels.doctor.runtime.probing import probe_system
    from cpuwheels.doctor.runtime.reading import read_machine
    from cpuwheels.doctor.runtime.recording import read_record

    return read_record(recorded) if recorded else read_machine(probe_system(folders.store()))


def _found(folders: Folders) -> Path:
    """Return the active environment if vLLM is in it, or else the newest wheel in the folder of finished wheels."""
    from cpuwheels.core.errors import UsageError

    active = os.environ.get("VIRTUAL_ENV") or os.environ.get("CONDA_PREFIX")
    if active and any(Path(active).glob("lib*/python3*/site-packages/vllm/platforms/cpu.py")):
        return Path(active)
    step = "name a wheel of vLLM, or an environment that it is installed in"
    try:
        wheels = folders.output().glob("*/*/vllm-*.whl")
        return max(wheels, key=lambda path: path.stat().st_mtime)
    except (ValueError, UsageError) as error:
        raise UsageError("no vLLM was named, and none was found", where="WHEEL|ENV", next_step=step) from error
