"""Whether a model can be served: memory, data type, attention, quantisation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cpuwheels.core.units import format_size
from cpuwheels.doctor.runtime.findings import Finding
from cpuwheels.doctor.runtime.kv_cache import GIB
from cpuwheels.doctor.runtime.package import FP8, WNA16

if TYPE_CHECKING:
    from cpuwheels.doctor.runtime.choice import Choice
    from cpuwheels.doctor.runtime.findings import Status
    from cpuwheels.doctor.runtime.machine import Machine, Node
    from cpuwheels.doctor.runtime.model import Model
    from cpuwheels.doctor.runtime.package import Package
    from cpuwheels.doctor.runtime.settings import Settings, Wish

_NEEDED = "memory needed"
_LATENT, _LATENT_VALUE = 576, 512
"""Sizes that the plain kernel for latent attention has (csrc/cpu/mla_decode.cpp)."""

_WITH_WNA16 = ("awq", "gptq", "auto-round")
"""Ways of quantising whose products are `WNA16` (vllm/model_executor/kernels/linear/mixed_precision/cpu.py)."""

_OTHERS = ("bitsandbytes", "gguf", "deepspeedfp")
"""Ways of quantising that vLLM has no kernels for on a CPU (its docs/features/quantization/README.md)."""


def model_findings(
    machine: Machine, package: Package, choice: Choice, model: Model, settings: Settings, wish: Wish
) -> list[Finding]:
    """Return what is found of a model on a machine with some settings."""
    return [
        _shape(model),
        *_length(model, wish),
        _memory(machine, model, settings),
        *_workers(machine, model, settings),
        _data_type(machine, package, choice, model, settings),
        *_attention(package, choice, model, settings),
        *_quantisation(machine, package, choice, model),
    ]


def _finding(name: str, status: Status, detail: str, step: str = "") -> Finding:
    return Finding(group="Model", name=name, status=status, detail=detail, next_step=step)


def _shape(model: Model) -> Finding:
    kind = f"latent attention of {model.head_size}" if model.mla else f"{model.kv_heads} KV heads of {model.head_size}"
    detail = f"{model.name}: {model.layers} layers, {kind}"
    if model.window:
        detail += f"; {model.window_layers} layers with a window of {model.window} tokens"
    about = "" if model.weights_measured else "about "
    detail += f"; weights {about}{format_size(model.weight_bytes)}{f' in {model.dtype}' if model.dtype else ''}"
    if model.quantisation:
        detail += f", {model.quantisation}"
    return _finding("model", "ok", detail)


def _length(model: Model, wish: Wish) -> list[Finding]:
    if not wish.length or not model.length or wish.length <= model.length:
        return []
    detail = f"{wish.length} tokens are more than the model's {model.length}; vLLM refuses to start"
    return [_finding("length", "fail", detail, f"use --max-model-len {model.length} or less")]


def _memory(machine: Machine, model: Model, settings: Settings) -> Finding:
    cache = settings.cache
    assert cache is not None  # noqa: S101  (there is a model)
    need = settings.need
    parts = (
        f"each worker needs {format_size(need)}: weights {format_size(settings.weights)}, "
        f"KV cache {cache.gib} GiB, the rest about {format_size(need - settings.weights - cache.gib * GIB)}"
    )
    if model.state_layers:
        parts += f"; the states of {model.state_layers} layers are not counted"
    worst = min((_room(machine, rank.memory, settings) for rank in settings.ranks), default=0)
    if need <= worst:
        return _finding(_NEEDED, "ok", f"{parts}; {format_size(worst)} is free")
    node = f" on memory node {settings.ranks[0].memory}" if len(machine.nodes) > 1 else ""
    detail = f"{parts}; {format_size(worst)} is free{node}"
    return _finding(_NEEDED, "fail", detail, _smaller(settings, worst))


def _room(machine: Machine, node_id: int, settings: Settings) -> int:
    """Return the bytes that a worker can take: its node's, and its part of a limit for all of them."""
    node: Node = next(node for node in machine.nodes if node.id == node_id)
    if machine.limit:
        return min(node.available, max(0, machine.limit.bytes - machine.limit.used) // settings.workers)
    return node.available


def _smaller(settings: Settings, room: int) -> str:
    """Return what would fit."""
    cache = settings.cache
    assert cache is not None  # noqa: S101
    left = room - settings.need + cache.gib * GIB
    each = cache.blocks_per_request * cache.block_bytes
    if left < GIB:
        return "use a smaller or a quantised model, or a machine or container with more memory"
    if fits := left // GIB * GIB // each:
        return f"ask for fewer requests at once: --at-once {fits}, or for shorter ones: --max-model-len"
    share = (left // GIB * GIB) / cache.bytes * cache.requests
    tokens = int(cache.length * share) // cache.block_size * cache.block_size
    return f"ask for shorter requests, one at a time: --at-once 1 --max-model-len {tokens}"


def _workers(machine: Machine, model: Model, settings: Settings) -> list[Finding]:
    nodes, workers = len(machine.usable_nodes), settings.workers
    if nodes <= 1:
        return []
    if workers == nodes:
        return [_finding("tensor parallel", "ok", f"{workers} workers, one for each memory node")]
    why = "6 workers are not supported" if nodes == 6 else f"{model.heads} heads cannot be divided by {nodes}"  # noqa: PLR2004
    step = f"use the other {nodes - workers} for another server, with CPU_VISIBLE_MEMORY_NODES"
    return [_finding("tensor parallel", "advice", f"{workers} workers on {nodes} memory nodes: {why}", step)]


def _data_type(machine: Machine, package: Package, choice: Choice, model: Model, settings: Settings) -> Finding:
    name, dtype = "data type", settings.dtype
    zentorch = machine.is_zen and package.installed is not None and package.installed.zentorch
    if dtype == "float16" and zentorch:
        step = "serve in bfloat16 or float32"
        return _finding(name, "fail", "float16: vLLM refuses it on AMD Zen with zentorch", step)
    if dtype == "float16" and machine.is_zen:
        detail = "float16: this CPU computes it in float32, and vLLM refuses it once zentorch is installed"
        return _finding(name, "advice", detail, "serve in bfloat16")
    if dtype == "bfloat16" and not machine.is_linux and not machine.has_bfloat16:
        return _finding(name, "fail", "bfloat16: vLLM refuses it on this Mac", "serve in float16 or float32")
    if dtype != "float32" and choice.amx.state == "dies":
        detail = f"{dtype}: uses AMX, which is {choice.amx.detail}: the process ends with an illegal instruction"
        return _finding(name, "fail", detail, "serve in float32")
    if dtype == "float16" and model.model_type.startswith(("gemma2", "gemma3", "glm4")):
        return _finding(name, "fail", f"float16: vLLM refuses it for {model.model_type}", "serve in bfloat16")
    return _finding(name, "ok", dtype)


def _attention(package: Package, choice: Choice, model: Model, settings: Settings) -> list[Finding]:
    name = "attention"
    if model.sparse and model.model_type != "deepseek_v4":
        return [_finding(name, "fail", "sparse: vLLM has none on CPUs (NotImplementedError)", "use another model")]
    if model.mla:
        return [_latent(choice, model, settings)]
    if package.head_sizes and model.head_size not in package.head_sizes:
        sizes = ", ".join(map(str, sorted(package.head_sizes)))
        return [_finding(name, "fail", f"heads of {model.head_size}: vLLM has {sizes}", "use another model")]
    return []


def _latent(choice: Choice, model: Model, settings: Settings) -> Finding:
    name = "latent attention"
    if choice.amx.state in {"works", "without oneDNN"}:
        if settings.dtype == "bfloat16":
            return _finding(name, "ok", "vLLM's kernels for AMX compute it")
        detail = f"{settings.dtype}: with AMX vLLM computes it in bfloat16 only"
        return _finding(name, "fail", detail, "serve in bfloat16, or with --attention-backend CPU_MLA")
    if choice.amx.state != "none":
        detail = "vLLM takes the kernels for AMX where it is announced, and it may not be usable here"
        return _finding(name, "fail", detail, "serve with --attention-backend CPU_MLA")
    if (model.head_size, model.value_size) != (_LATENT, _LATENT_VALUE):
        detail = f"vectors of {model.head_size}: without AMX vLLM has a kernel for {_LATENT} alone"
        return _finding(name, "fail", detail, "use a machine with AMX")
    detail = "without AMX vLLM computes it with a plain kernel, and without chunked prefill and prefix caching: slowly"
    return _finding(name, "advice", detail, "use a machine with AMX, or a model with usual attention")


def _quantisation(machine: Machine, package: Package, choice: Choice, model: Model) -> list[Finding]:
    name, method = "quantisation", model.quantisation
    if not method:
        return []
    if method.startswith(_OTHERS):
        return [_finding(name, "fail", f"{method}: vLLM has no kernels for it on CPUs", "use another way, such as AWQ")]
    has = package.operators.get(choice.library, frozenset())
    if method.startswith("fp8") and (FP8 not in has or choice.amx.state == "none"):
        detail = (
            f"{method}: vLLM's kernels for it need AMX; without them it has torch's, and none for blocks of weights"
        )
        return [_finding(name, "advice", detail, "use a CPU with AMX, or weights in bfloat16 or int8")]
    if not method.startswith(_WITH_WNA16) or not choice.library or WNA16 in has:
        return [_finding(name, "ok", method)]
    detail = f"{method} needs the operator {WNA16}, which {choice.library} does not have: an AttributeError"
    with_it = sorted(library for library, found in package.operators.items() if WNA16 in found)
    step = f"use a CPU for {' or '.join(with_it)}" if with_it else f"use another machine than {machine.architecture}"
    return [_finding(name, "fail", detail, f"{step}, or weights that are not quantised")]
