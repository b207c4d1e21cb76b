"""A machine as a server meets it: processor, cores, memory nodes, and the limits that hold for its processes."""

from __future__ import annotations

from pydantic import Field

from cpuwheels.core.models import Strict
from cpuwheels.toolchain.native_helpers import CpuFeatures  # noqa: TC001  (pydantic reads the annotation)


class Probe(Strict):
    """What is asked of the running system, because no file tells it."""

    system: str
    """What ``platform.system()`` returns."""
    architecture: str
    """What ``platform.machine()`` returns."""
    kernel: str
    """Release of the operating system's kernel."""
    python: str
    """Version of the Python that asked."""
    glibc: str | None = None
    """Version of the C library; None if it is another one."""
    macos: str | None = None
    """Version of macOS."""
    cpu: CpuFeatures | None = None
    """isaprobe's answer; None if there is no isaprobe."""
    total_memory: int
    """Bytes."""
    available_memory: int
    """Bytes."""
    get_mempolicy: str | None = None
    """What the system call ends with: empty if it is allowed, else the name of the error; None if not asked."""
    lscpu: bool = True
    """Whether there is util-linux' program, which vLLM runs on Linux."""
    compiler: str = ""
    """The C++ compiler that torch.compile would run; empty if there is none."""
    shared_memory: int | None = None
    """Bytes of ``/dev/shm``; None if there is none."""
    libraries: tuple[str, ...] = ()
    """OpenMP runtimes and tcmallocs that the dynamic linker finds, by soname."""
    environ: dict[str, str] = Field(default_factory=dict)
    """Variables that change what vLLM does; of ``LD_PRELOAD`` the names of the files."""


class Cpu(Strict):
    """A logical CPU that is online."""

    id: int
    core: int
    """The lowest logical CPU of the same physical core."""
    node: int
    """Memory node; 0 if Linux reports none. On IBM Z the group that vLLM binds by: book, or else socket."""
    allowed: bool
    """Whether this process may run on it."""


class Node(Strict):
    """A memory node."""

    id: int
    total: int
    """Bytes."""
    available: int
    """Bytes that are free, or that the system would give up: counted as vLLM does."""
    allowed: bool
    """Whether this process may take memory of it."""


class MemoryLimit(Strict):
    """The tightest memory limit of this process's control groups."""

    bytes: int
    used: int
    """Bytes, without file cache that the kernel would give up first."""
    file: str
    """Such as ``/sys/fs/cgroup/memory.max``."""
    seen_by_vllm: bool
    """Whether it is the one that vLLM reads: that of the control groups' root."""


class HugePages(Strict):
    """Pages larger than the usual ones."""

    transparent: str = ""
    """``always``, ``madvise`` or ``never``; empty if the system has none."""
    reserved: int = 0
    """Pages of the pool for programs that ask for them."""


class Machine(Strict):
    """A machine, live or recorded."""

    probe: Probe
    vendor: str
    model: str
    """Of the processor, for people."""
    announced: frozenset[str]
    """Features that the system lists (``/proc/cpuinfo``); some may be unusable."""
    cpus: tuple[Cpu, ...]
    nodes: tuple[Node, ...]
    limit: MemoryLimit | None = None
    quota: float | None = None
    """CPUs' worth of time that the control groups allow; None without a limit."""
    cgroup: int | None = None
    """Version of the control groups that hold this process: 1 or 2; None if there are none."""
    huge_pages: HugePages = HugePages()

    @property
    def features(self) -> frozenset[str]:
        """Features that a program can use, as isaprobe found; without isaprobe those that the system lists."""
        return self.probe.cpu.features if self.probe.cpu else self.announced

    @property
    def architecture(self) -> str:
        """What ``platform.machine()`` returns."""
        return self.probe.architecture

    @property
    def is_linux(self) -> bool:
        """Whether the system is Linux."""
        return self.probe.system == "Linux"

    @property
    def allowed(self) -> tuple[Cpu, ...]:
        """The logical CPUs that this process may run on."""
        return tuple(cpu for cpu in self.cpus if cpu.allowed)

    @property
    def cores(self) -> int:
        """Physical cores that this process may run on."""
        return len({cpu.core for cpu in self.allowed})

    @property
    def threads_per_core(self) -> int:
        """Logical CPUs of the core that has most of them; above 1 with simultaneous multithreading."""
        cores = [cpu.core for cpu in self.cpus]
        return max(map(cores.count, set(cores)), default=1)

    @property
    def usable_nodes(self) -> tuple[Node, ...]:
        """Memory nodes that this process may use and that have CPUs for it."""
        with_cpus = {cpu.node for cpu in self.allowed}
        if self.architecture == "s390x":  # the groups of CPUs there are no memory nodes
            return tuple(node for node in self.nodes if node.allowed)
        return tuple(node for node in self.nodes if node.allowed and node.id in with_cpus)

    @property
    def is_zen(self) -> bool:
        """Whether vLLM takes it for an AMD Zen with AVX-512 (``_is_amd_zen_cpu`` in vllm/platforms/__init__.py)."""
        return self.vendor == "AuthenticAMD" and any(name.startswith("avx512") for name in self.announced)

    @property
    def announces_amx(self) -> bool:
        """Whether vLLM takes it for a CPU with AMX: torch asks CPUID, not whether the tiles can be used."""
        return self.architecture == "x86_64" and ("amx_tile" in self.announced or self._amx_in_cpuid)

    @property
    def _amx_in_cpuid(self) -> bool:
        return self.probe.cpu is not None and self.probe.cpu.amx is not None

    @property
    def has_bfloat16(self) -> bool:
        """Whether the processor has instructions for bfloat16 products that vLLM's kernels use."""
        return bool(self.features & {"avx512_bf16", "bf16"})

    def total_of(self, node: Node) -> int:
        """Return the bytes of a node that vLLM takes for its whole memory: the limit that it sees, if that is less."""
        if self.limit and self.limit.seen_by_vllm:
            return min(node.total, self.limit.bytes)
        return node.total

    def room_on(self, node: Node) -> int:
        """Return the bytes that a process can still take of a node."""
        if self.limit:
            return max(0, min(node.available, self.limit.bytes - self.limit.used))
        return node.available
