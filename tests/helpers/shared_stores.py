"""Entries of stores that are shared, and places to share them in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from securesystemslib.signer import Key, Signer

from cpuwheels.attestation.keys import make_key, open_signer, public_key
from cpuwheels.core.store import Store
from cpuwheels.core.trust import Trust
from cpuwheels.shared.place import Place
from cpuwheels.shared.pull import SharedStore
from cpuwheels.shared.push import Sharer
from cpuwheels.shared.wanted import Outcome, shareable

KERNELS = "c" * 24
ONEDNN = "d" * 24
BESIDE = "e" * 24
AUDIT = "a" * 24

Open = Callable[[], Place]
"""Opens the same place, each time as another machine does."""


def make_kernels(store: Store, key: str = KERNELS, *, text: str = "code", seconds: float = 1.0) -> Path:
    """Make an entry with the shape of kernels.

    Args:
        store: Where.
        key: Its key.
        text: Content of its library.
        seconds: What its build took, which differs from build to build.
    """

    def make(folder: Path) -> None:
        (folder / "vllm").mkdir()
        (folder / "vllm" / "_C.abi3.so").write_text(text)
        (folder / "vllm" / "_C.abi3.so").chmod(0o755)
        (folder / "libraries").mkdir()
        (folder / "jobs.jsonl").write_text(f'{{"wall": {seconds}}}\n')
        (folder / "memory.json").write_text(f"{seconds}")

    return store.get("kernels", key, make)


def make_audit(store: Store, key: str = AUDIT, *, text: str = "wheel") -> Path:
    """Make an entry with the shape of audited binaries."""

    def make(folder: Path) -> None:
        (folder / "vllm-0-cp38-abi3-manylinux_2_28_x86_64.whl").write_text(text)
        (folder / "audit.json").write_text("{}")

    return store.get("audited", key, make)


def make_onednn(store: Store) -> Path:
    """Make an entry with the shape of sources."""

    def make(folder: Path) -> None:
        (folder / "src" / "cpu").mkdir(parents=True)
        (folder / "src" / "cpu" / "gemm.cpp").write_text("int gemm;\n")
        (folder / "src" / "link").symlink_to("cpu/gemm.cpp")
        (folder / "empty").mkdir()

    return store.get("onednn", ONEDNN, make)


def share_all(
    store: Store, place: Place, signer: Signer | None = None, keys: Sequence[Key] | None = None, *, check: bool = False
) -> list[Outcome]:
    """Share all that may be shared."""
    sharer = Sharer(store, place, signer, keys, thorough=check)
    return [sharer.share(wanted) for wanted in shareable(store)]


def states(outcomes: Sequence[Outcome]) -> dict[str, str]:
    """Return what became of each entry."""
    return {str(one.wanted): one.state for one in outcomes}


def reader(place: Place, told: list[str], keys: Sequence[Key] | None = None) -> SharedStore:
    """Return a shared store, as another machine asks it."""
    return SharedStore(place, keys, told.append)


def other_store(folder: Path, trust: Trust = Trust.RELEASE) -> Store:
    """Return the stores of another machine."""
    return Store(folder, trust=trust)


def new_signer(folder: Path, name: str) -> tuple[Signer, Key]:
    """Make a key, and return what signs with it and what verifies."""
    public = make_key(folder / name)
    return open_signer(str(folder / name), None), public_key(public)
