"""The settings for a machine and a model: variables and options of ``vllm serve``, each with its reason."""

from __future__ import annotations

import shlex
from math import floor
from typing import TYPE_CHECKING

from cpuwheels.core.models import Strict
from cpuwheels.core.units import format_size
from cpuwheels.doctor.runtime.binding import Rank, automatic, places, ranks_of
from cpuwheels.doctor.runtime.kv_cache import GIB, KvCache, kv_cache
from cpuwheels.doctor.runtime.model import DType  # noqa: TC001  (pydantic reads the annotation)
from cpuwheels.verification.onednn_isa import VARIABLE

if TYPE_CHECKING:
    from cpuwheels.doctor.runtime.choice import Choice
    from cpuwheels.doctor.runtime.machine import Machine
    from cpuwheels.doctor.runtime.model import Model
    from cpuwheels.doctor.runtime.package import Package

DEFAULT_LENGTH, DEFAULT_REQUESTS = 8192, 4
"""What is planned for unless the user asks for something else. Llama 3.1's full 131,072 tokens need 16 GiB each."""

DEFAULT_SHARE = 0.92
"""vLLM's ``--gpu-memory-utilization``."""

OVERHEAD = 2 << 30
"""Bytes of a worker besides weights and cache: Python, torch and the kernels 0.6 GiB (vLLM 0.32.0 with a model of two
layers, as it logs them), the processes of the server and of the engine as much each."""

_BLOCK, _BLOCK_LATENT, _BLOCK_V4 = 128, 16, 256
_NOT_SUPPORTED = 6
"""A number of workers that vLLM does not support on CPUs."""

_MANY_CORES = 16
"""Physical cores from which a second one is kept free for the server's other processes."""


class Wish(Strict):
    """What the user wants to serve."""

    length: int | None = None
    """Tokens of the longest request."""
    requests: int = DEFAULT_REQUESTS
    """Requests of that length at the same time."""
    dtype: DType | None = None


class Setting(Strict):
    """A variable or an option."""

    name: str
    value: str
    """Empty for an option without a value."""
    reason: str
    """A clause."""

    @property
    def line(self) -> str:
        """As it is pasted: a line for the shell, or an option."""
        if self.name.startswith("--"):
            return f"{self.name} {shlex.quote(self.value)}" if self.value else self.name
        return f"export {self.name}={shlex.quote(self.value)}"


class Settings(Strict):
    """The settings for a machine and a model."""

    variables: tuple[Setting, ...]
    options: tuple[Setting, ...]
    dtype: DType
    workers: int
    """Workers that the model is divided among: ``--tensor-parallel-size``."""
    ranks: tuple[Rank, ...]
    """What each worker gets."""
    cache: KvCache | None
    """Of each worker; None without a model."""
    weights: int
    """Bytes of each worker's weights; 0 without a model."""
    model: str
    """Of the command line."""

    @property
    def need(self) -> int:
        """Bytes of each worker."""
        return self.weights + (self.cache.gib * GIB if self.cache else 0) + OVERHEAD

    @property
    def block(self) -> str:
        """The lines to paste."""
        command = " \\\n  ".join([f"vllm serve {shlex.quote(self.model)}", *(one.line for one in self.options)])
        return "\n".join([*(one.line for one in self.variables), command])


def plan(machine: Machine, package: Package, choice: Choice, model: Model | None, wish: Wish, place: str) -> Settings:
    """Return the settings.

    Args:
        machine: Where vLLM is to run.
        package: The vLLM.
        choice: The library that it loads there.
        model: The model, if it is known.
        wish: What the user wants.
        place: The model as ``vllm serve`` is given it.
    """
    dtype = wish.dtype or choose_dtype(machine, choice, model)
    workers = worker_count(machine, model)
    reserve = reserved_cores(machine, workers)
    ranks = ranks_of(machine, workers, reserve)
    block = block_size(choice, model)
    length = wish.length or min(filter(None, (DEFAULT_LENGTH, model.length if model else None)))
    cache = None
    if model:
        cache = kv_cache(model, dtype, length=length, requests=wish.requests, block_size=block, workers=workers)
    variables = [
        *_cache_variable(cache, wish.requests),
        *_binding(machine, ranks, workers, reserve),
        *_amx(choice, package, dtype),
        *_nodes(machine, workers),
    ]
    options = [
        Setting(name="--dtype", value=dtype, reason=_dtype_reason(machine, choice, dtype)),
        Setting(name="--max-model-len", value=str(length), reason="the length that the cache is planned for"),
        Setting(name="--max-num-seqs", value=str(wish.requests), reason="requests at the same time"),
    ]
    if model and not (model.mla and block == _BLOCK_LATENT):
        options.append(Setting(name="--block-size", value=str(block), reason="a multiple of 32, vLLM's own choice"))
    if workers > 1:
        reason = f"a worker for each of {workers} memory nodes"
        options.append(Setting(name="--tensor-parallel-size", value=str(workers), reason=reason))
    if cache is None:
        options.append(_share(machine, ranks[0]))
    if machine.is_linux and not machine.probe.compiler:
        options.append(Setting(name="--enforce-eager", value="", reason="there is no C++ compiler for torch.compile"))
    known = package.variables | {VARIABLE}
    return Settings(
        variables=tuple(one for one in variables if one.name in known),
        options=tuple(options),
        dtype=dtype,
        workers=workers,
        ranks=ranks,
        cache=cache,
        weights=model.bytes_as(dtype) // workers if model else 0,
        model=place,
    )


def choose_dtype(machine: Machine, choice: Choice, model: Model | None) -> DType:
    """Return the data type for a model: bfloat16 where there are instructions for it, or where float32 does not fit."""
    if choice.amx.state == "dies":
        return "float32"
    if not machine.is_linux and not machine.has_bfloat16:
        return "float16"
    if machine.has_bfloat16 or model is None or model.quantisation or machine.architecture == "s390x":
        return "bfloat16"
    fits = model.bytes_as("float32") * 2 <= sum(machine.room_on(node) for node in machine.usable_nodes[:1])
    return "float32" if fits else "bfloat16"


def _dtype_reason(machine: Machine, choice: Choice, dtype: DType) -> str:
    if choice.amx.state == "dies":
        return "torch and vLLM use AMX for bfloat16 and float16, and it cannot be used here"
    if machine.has_bfloat16:
        return "this CPU has instructions for bfloat16" if dtype == "bfloat16" else "as asked"
    if dtype == "float32":
        return "this CPU has no instructions for bfloat16, and there is memory for float32"
    return f"this CPU has no instructions for bfloat16; {dtype} halves the memory"


def worker_count(machine: Machine, model: Model | None) -> int:
    """Return the number of workers: one for each memory node, if the heads can be divided so; but never 6."""
    nodes = len(places(machine))
    if model is None:
        return nodes if nodes != _NOT_SUPPORTED else nodes - 2
    sizes = [size for size in range(nodes, 0, -1) if size != _NOT_SUPPORTED and model.heads % size == 0]
    kv = model.kv_heads
    return next((size for size in sizes if model.mla or kv % size == 0 or size % kv == 0), 1)


def reserved_cores(machine: Machine, workers: int) -> int:
    """Return how many cores are kept free for the server's other processes.

    vLLM keeps one for each worker, on IBM Z one, and warns if there are to be less.
    """
    least = 1 if machine.architecture == "s390x" else workers
    cores = machine.cores if machine.quota is None else min(machine.cores, machine.quota)
    return max(least, 2) if cores >= _MANY_CORES else least


def block_size(choice: Choice, model: Model | None) -> int:
    """Return the tokens in a block, as vLLM sets them (``check_and_update_config`` in vllm/platforms/cpu.py)."""
    if model is None or not model.mla:
        return _BLOCK
    if model.model_type == "deepseek_v4":
        return _BLOCK_V4
    return _BLOCK if choice.amx.state != "none" else _BLOCK_LATENT


def _cache_variable(cache: KvCache | None, requests: int) -> list[Setting]:
    if cache is None:
        return []
    each = format_size(cache.blocks_per_request * cache.block_bytes)
    reason = f"GiB for each worker: {requests} requests of {cache.length} tokens take {each} each, in whole blocks"
    return [Setting(name="VLLM_CPU_KVCACHE_SPACE", value=str(cache.gib), reason=reason)]


def _binding(machine: Machine, ranks: tuple[Rank, ...], workers: int, reserve: int) -> list[Setting]:
    name = "VLLM_CPU_OMP_THREADS_BIND"
    quota = machine.quota
    if quota is not None and quota < len(machine.allowed):
        reason = f"the control group allows {quota:g} CPUs' worth of time: more threads would wait for each other"
        return [Setting(name=name, value="|".join(rank.list for rank in ranks), reason=reason)]
    bound = " | ".join(rank.list for rank in ranks)
    auto = Setting(name=name, value="auto", reason=f"one thread for each physical core: CPUs {bound}")
    if not automatic(machine, workers, reserve):
        return [auto]
    cores = "core is" if reserve == 1 else "cores are"
    kept = f"{reserve} {cores} kept free for the server's other processes"
    return [auto, Setting(name="VLLM_CPU_NUM_OF_RESERVED_CPU", value=str(reserve), reason=kept)]


def _amx(choice: Choice, package: Package, dtype: DType) -> list[Setting]:
    found = []
    if choice.amx.limit:
        found.append(Setting(name=VARIABLE, value=choice.amx.limit, reason="keeps torch's oneDNN from using AMX"))
    if choice.amx.state in {"works", "without oneDNN"} and dtype == "bfloat16" and choice.library == "_C":
        reason = f"AMX works here; {package.version} reads the variable"
        found.append(Setting(name="VLLM_CPU_SGL_KERNEL", value="1", reason=reason))
    return found


def _nodes(machine: Machine, workers: int) -> list[Setting]:
    """Name the memory nodes where fewer are used than there are."""
    nodes = machine.usable_nodes
    if len(nodes) <= workers:
        return []
    used = ",".join(str(node.id) for node in nodes[:workers])
    rest = ",".join(str(node.id) for node in nodes[workers:])
    reason = f"nodes {rest} are left for another server"
    return [Setting(name="CPU_VISIBLE_MEMORY_NODES", value=used, reason=reason)]


def _share(machine: Machine, rank: Rank) -> Setting:
    """Return the share of RAM that a worker may take, if the size of the cache is not set."""
    node = next(node for node in machine.nodes if node.id == rank.memory)
    share = max(0.01, floor(min(DEFAULT_SHARE, 0.9 * machine.room_on(node) / machine.total_of(node)) * 100) / 100)
    reason = f"means RAM on a CPU: {format_size(share * machine.total_of(node))} for each worker, weights included"
    return Setting(name="--gpu-memory-utilization", value=f"{share:.2f}", reason=reason)
