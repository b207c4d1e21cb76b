"""An image checked as others see it: read by skopeo, unpacked by umoci, and run by bubblewrap without a network."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cpuwheels.config.host import is_foreign
from cpuwheels.core.errors import CommandError, ImageError, ToolchainError
from cpuwheels.core.models import parse_as
from cpuwheels.core.parse import parse_json
from cpuwheels.core.process import run
from cpuwheels.image.root_filesystem import USER
from cpuwheels.verification.emulation.cpus import plainest_cpu
from cpuwheels.verification.emulation.foreign_programs import program_prefix
from cpuwheels.verification.serving.loaded import Process, fault, kernel_libraries, runtime_names
from cpuwheels.verification.serving.memory import memory_share

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cpuwheels.config.context import BuildContext
    from cpuwheels.image.tools import Tools
    from cpuwheels.wheel.kernel_wheel import Preloads

CHOICES = ("affirmative", "negative")
"""Between which a grammar makes a model choose; one of random weights says neither by itself."""

_PATIENCE = {"start": 900.0, "answer": 300.0, "end": 60.0}
"""Seconds that the server may take."""

_EMULATED = 10
"""How many times as long it may take if it is emulated."""

_INSIDE = "/tmp/check"  # noqa: S108  (in the image's own, empty /tmp)
_SCRIPT = "serve_inside.py"
_HERE = Path(__file__).with_name("resources")
_MODELS = Path(__file__).parents[1] / "verification" / "serving" / "resources"


@dataclass(frozen=True)
class Checked:
    """What was found of an image that serves.

    Attributes:
        started: Seconds that the server's start took.
        libraries: Kernel libraries that it has loaded.
        runtimes: OpenMP runtimes and allocators in the processes that compute.
        compiled: Libraries that torch.compile has made.
        cpu: The emulated CPU that it ran on; empty if this machine's own.
    """

    started: float
    libraries: tuple[str, ...]
    runtimes: tuple[str, ...]
    compiled: int
    cpu: str = ""


def read_back(tools: Tools, layout: Path, tag: str, archive: Path, config: bytes) -> None:
    """Let skopeo read the layout and docker's archive, and compare the configuration.

    Args:
        tools: With skopeo.
        layout: The OCI image layout.
        tag: Its name there.
        archive: Docker's archive.
        config: What the image's configuration is.

    Raises:
        ImageError: skopeo cannot read one of them, or reads another configuration.
    """
    for place in (f"oci:{layout}:{tag}", f"docker-archive:{archive}"):
        read = tools.run(
            "skopeo", "--insecure-policy", "inspect", "--config", "--raw", place, why=f"skopeo cannot read {place}"
        )
        if parse_json(read.output, place) != json.loads(config):
            raise ImageError(f"skopeo reads another configuration from {place}", where=place, log=tools.log)


def unpack(tools: Tools, layout: Path, tag: str, bundle: Path) -> Path:
    """Let umoci unpack an image, which compares every layer with its digest, and return the root.

    Raises:
        ImageError: It cannot.
    """
    tools.run(
        "umoci", "unpack", "--rootless", "--image", f"{layout}:{tag}", bundle, why=f"umoci cannot unpack {layout}"
    )
    return bundle / "rootfs"


def serve(
    context: BuildContext, tools: Tools, root: Path, config: Mapping[str, Any], work: Path, preloads: Preloads
) -> Checked:
    """Run an unpacked image as its configuration says, and ask it.

    Args:
        context: The run.
        tools: With bubblewrap.
        root: The unpacked image; only read.
        config: The image's configuration, ``config`` in the file of that name.
        work: Empty folder.
        preloads: What the wheel's processes are given.

    Raises:
        ImageError: It does not serve, or has loaded what it should not, or programs of its machine do not run here.
    """
    log = context.logs / "image-serve.log"
    cpu = plainest_cpu(context.target.libraries) if is_foreign(context.target) else ""
    patience = {name: seconds * (_EMULATED if cpu else 1) for name, seconds in _PATIENCE.items()}
    sandbox = _sandbox(tools, root, config, work, _emulation(cpu, patience) if cpu else {})
    command = [*(_prefix(context) if cpu else ()), *sandbox, "python3"]
    port = next(iter(config["ExposedPorts"])).partition("/")[0]
    request = {
        "command": [*config["Entrypoint"], *_arguments(f"{_INSIDE}/models/opt")],
        "health": config["Healthcheck"]["Test"][1:],
        "url": f"http://127.0.0.1:{port}",
        "choices": list(CHOICES),
        "patience": patience,
        "log": f"{_INSIDE}/server.log",
    }
    (work / "request.json").write_text(json.dumps(request), encoding="utf-8")
    try:
        # It imports what is next to it.
        run([*command, "/tmp/models/tiny_models.py", f"{_INSIDE}/models", "opt"], log=log)  # noqa: S108
        run([*command, "-P", f"/tmp/scripts/{_SCRIPT}", f"{_INSIDE}/request.json", f"{_INSIDE}/result.json"], log=log)  # noqa: S108
    except CommandError as error:
        raise ImageError("the image does not run", where=error.where, log=log, output=error.output) from error
    server = work / "server.log"
    text = server.read_text(encoding="utf-8", errors="replace")
    (context.logs / "image-server.log").write_text(text, encoding="utf-8")
    found = judged(
        parse_as(dict[str, Any], (work / "result.json").read_bytes(), work / "result.json"),
        chooser=context.target.chooser or "",
        preloads=preloads,
        eager=any("--enforce-eager" in part for part in config["Entrypoint"]),
        log=context.logs / "image-server.log",
    )
    return replace(found, cpu=cpu)


def _prefix(context: BuildContext) -> list[str | Path]:
    machine = context.target.machine
    try:
        return program_prefix(context, machine)
    except ToolchainError as error:
        raise ImageError(
            f"the image cannot be run here: {error.what}",
            where=error.where,
            log=error.log,
            next_step=f"{error.next_step}; the image itself is complete, and without --test it is not run",
        ) from error


def _emulation(cpu: str, patience: Mapping[str, float]) -> dict[str, str]:
    """Return the variables of an emulated server: QEMU's CPU, and what vLLM itself waits for."""
    start, answer = (f"{patience[name]:.0f}" for name in ("start", "answer"))
    return {"QEMU_CPU": cpu, "VLLM_ENGINE_READY_TIMEOUT_S": start, "VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS": answer}


def judged(result: Mapping[str, Any], *, chooser: str, preloads: Preloads, eager: bool, log: Path) -> Checked:
    """Return what was found.

    Args:
        result: What serve_inside.py wrote.
        chooser: A module that looks like a kernel library and is none; empty if there is none.
        preloads: What the wheel's processes are given.
        eager: Whether the image does without torch.compile.
        log: The server's output.

    Raises:
        ImageError: Something is wrong.
    """
    processes = [
        Process.of(*texts, is_first=pid == result.get("first")) for pid, texts in result.get("processes", {}).items()
    ]
    why = result["failure"] or fault(processes, "", chooser, preloads) or _answers(result)
    if not why and result["user"] != USER:
        why = f"it runs as user {result['user']}, and not as {USER}"
    if not why and eager and result["compiled"]:
        why = "torch.compile has compiled something in the flavour without a compiler"
    if not why and not eager and not result["compiled"]:
        why = "torch.compile has compiled nothing"
    if why:
        tail = log.read_text(encoding="utf-8").splitlines()[-15:] if log.is_file() else []
        raise ImageError(
            f"the image does not serve: {why}", where="the unpacked image", log=log, output="\n".join(tail)
        )
    return Checked(
        result["started"],
        tuple(sorted(kernel_libraries(processes, chooser))),
        runtime_names(processes),
        result["compiled"],
    )


def _answers(result: Mapping[str, Any]) -> str:
    if result["tokens"] != 8:  # noqa: PLR2004  (what serve_inside.py asks for)
        return f"it answered {result['tokens']} of 8 tokens"
    if result["chosen"] not in CHOICES:
        return f"it chose {result['chosen']!r}, and not one of {', '.join(CHOICES)}"
    return ""


def _arguments(model: str) -> list[str]:
    return [
        model,
        *("--served-model-name", "tiny", "--dtype", "float32", "--max-model-len", "512", "--max-num-seqs", "4"),
        *("--gpu-memory-utilization", f"{memory_share():.6f}"),
    ]


def _sandbox(
    tools: Tools, root: Path, config: Mapping[str, Any], work: Path, more: Mapping[str, str]
) -> Sequence[str | Path]:
    """Return the command in front of a program of the image: its root only read, no network but loopback, its user."""
    user, _, group = config["User"].partition(":")
    own = [pair.split("=", 1) for pair in config["Env"]]
    variables = [part for pair in (*own, *more.items()) for part in ("--setenv", *pair)]
    return [
        tools.program("bwrap"),
        *("--unshare-all", "--die-with-parent", "--uid", user, "--gid", group),
        *("--ro-bind", root, "/", "--proc", "/proc", "--dev", "/dev", "--ro-bind", "/sys", "/sys"),
        *("--tmpfs", "/tmp", "--tmpfs", "/home/vllm"),  # noqa: S108
        *("--bind", work, _INSIDE, "--ro-bind", _HERE, "/tmp/scripts", "--ro-bind", _MODELS, "/tmp/models"),  # noqa: S108
        *("--clearenv", *variables, "--setenv", "HF_HUB_OFFLINE", "1", "--setenv", "VLLM_NO_USAGE_STATS", "1"),
        *("--chdir", config["WorkingDir"], "--"),
    ]
