"""What is done about a torch that the matrix knows, and about one that it does not."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from contexts import build_context
from cpuwheels.config.options import BuildOptions
from cpuwheels.config.pins import TorchAlternate, TorchPin
from cpuwheels.core.errors import BuildEnvironmentError, LockedError, TorchError
from cpuwheels.environment import torch_environment as module
from cpuwheels.environment import torch_install as install_module
from cpuwheels.environment.build_env import TOOLS_LOCK
from cpuwheels.environment.debian_root import DebianRoot
from cpuwheels.environment.foreign_torch import ForeignTorch
from cpuwheels.environment.torch_environment import check_torch, torch_environment, torch_pin, wheel_environment
from cpuwheels.environment.torch_install import refused_offers
from loopback import DEAD
from torch_wheels import PYTHON, write_torch

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from cpuwheels.config.context import BuildContext
    from cpuwheels.core.store import Store
    from cpuwheels.environment.build_env import EnvironmentRequest
    from cpuwheels.environment.torch_index import TorchOffer


def test_a_torch_that_the_matrix_does_not_know_is_said_and_looked_for(tmp_path: Path) -> None:
    run = build_context(tmp_path)
    check_torch(run, "2.13.0")
    assert run.reporter.announcements == []
    check_torch(run, "2.99.0")
    (said,) = run.reporter.announcements
    assert "torch 2.99.0, which matrix.yaml does not know" in said
    pin = torch_pin(run.matrix, "2.99.0")
    assert pin.index == run.matrix.torch["2.14.0"].index
    assert (pin.wheels, pin.alternates) == ((), ())


def test_the_newest_torch_is_by_number_not_by_text(tmp_path: Path) -> None:
    torch = {"2.9.0": TorchPin(index="https://old"), "2.13.0": TorchPin(index="https://new")}
    assert (
        torch_pin(build_context(tmp_path).matrix.model_copy(update={"torch": torch}), "2.99.0").index == "https://new"
    )


def test_a_torch_that_the_matrix_does_not_know_is_refused_if_locked(tmp_path: Path) -> None:
    run = replace(build_context(tmp_path), options=BuildOptions(locked=True))
    check_torch(run, "2.13.0")
    with pytest.raises(LockedError, match=r"torch 2\.99\.0, which matrix\.yaml does not pin") as caught:
        check_torch(run, "2.99.0")
    assert caught.value.where == "requirements/cpu.txt of the source"


def test_a_torch_without_a_pinned_wheel_is_refused_at_once_if_locked_with_the_line_to_add(tmp_path: Path) -> None:
    run = replace(build_context(tmp_path), options=BuildOptions(locked=True))
    with pytest.raises(LockedError, match=r"^torch 2\.14\.0 for x86_64 is not pinned by content") as caught:
        check_torch(run, "2.14.0")
    assert caught.value.next_step == (
        'add {python: cp311, machine: x86_64, sha256: DIGEST} to the wheels of "2.14.0" there and run `nox -s schema`: '
        "https://download.pytorch.org/whl/cpu/torch/ has the digest of torch==2.14.0+cpu; or take Debian's torch "
        "2.14.1 with --allow-fallbacks, or build without --locked"
    )
    check_torch(replace(run, options=BuildOptions(locked=True, allow_fallbacks=True)), "2.14.0")
    macos = replace(run, target=run.matrix.target("macos"))
    check_torch(macos, "2.14.0")
    with pytest.raises(LockedError, match=r"torch 2\.13\.0 for arm64") as caught:
        check_torch(macos, "2.13.0")
    assert "https://pypi.org/simple/torch/ has the digest of torch==2.13.0; or build without" in caught.value.next_step


ALTERNATE = TorchAlternate(machine="x86_64", version="2.14.1", root="root")
PINS = {"2.14.0": TorchPin(index=f"{DEAD}/cpu", alternates=(ALTERNATE,)), "2.13.0": TorchPin(index=f"{DEAD}/cpu")}


@pytest.fixture
def own(tmp_path: Path, store: Store, request_: EnvironmentRequest, monkeypatch: pytest.MonkeyPatch) -> BuildContext:
    """A run for this kind of machine, and Debian's torch for it."""
    (tmp_path / "root" / "locks").mkdir(parents=True)
    request_.lock.rename(tmp_path / "root" / "locks" / TOOLS_LOCK)
    (tmp_path / "logs").mkdir()
    (tmp_path / "debian" / "torch" / "lib").mkdir(parents=True)
    monkeypatch.setattr(module, "is_foreign", lambda _: False)

    def debian(context: BuildContext, torch: str, pin: TorchPin, reason: TorchError | LockedError) -> ForeignTorch:
        if not pin.alternates or (context.options.locked and not context.options.allow_fallbacks):
            raise reason
        root = DebianRoot(tmp_path / "debian", tmp_path / "debian/usr/bin/python3.99", "2.14.1+debian")
        return ForeignTorch("2.14.1", tmp_path / "debian/torch", f"of {torch}", "root", True, True, root)

    monkeypatch.setattr(module, "debian_torch", debian)
    return build_context(
        tmp_path, root=tmp_path / "root", store=store, logs=tmp_path / "logs", python=(PYTHON,), torch=PINS
    )


def test_a_wheel_comes_before_debians_torch(own: BuildContext, links: Path) -> None:
    write_torch(links, "2.14.0+cpu")
    found = torch_environment(own, "2.14.0")
    assert (found.torch_version, found.torch_alternate, found.debian) == ("2.14.0+cpu", False, None)
    assert found.offer().location == str(links)
    assert (found.runs_torch, found.runs_python) == ("2.14.0+cpu", PYTHON)


def test_without_a_wheel_debians_torch_is_built_against_and_runs_in_its_root(own: BuildContext, links: Path) -> None:
    write_torch(links, "2.13.0+cpu")
    for _ in range(2):
        found = torch_environment(own, "2.14.0")
        assert (found.torch_version, found.torch_alternate, found.foreign) == ("2.14.1", True, True)
        assert found.debian is not None
        assert (found.runs_torch, found.runs_python) == ("2.14.1+debian", "3.99")
        with pytest.raises(BuildEnvironmentError, match="no place with wheels of its torch"):
            found.offer()
    # Nothing was made for a wheel that no place has.
    assert len([path for path in own.store.path("environments", "x").parent.iterdir() if path.is_dir()]) == 1


def test_a_wheel_can_be_insisted_on(own: BuildContext, links: Path) -> None:
    with pytest.raises(TorchError, match=r"no CPU build of torch 2\.14\.0 can be found for x86_64"):
        wheel_environment(own, "2.14.0")
    write_torch(links, "2.14.0+cpu")
    assert wheel_environment(own, "2.14.0") == torch_environment(own, "2.14.0")


def test_without_a_wheel_and_a_fallback_each_place_is_named(own: BuildContext, links: Path) -> None:
    with pytest.raises(TorchError, match=r"no CPU build of torch 2\.13\.0 can be found for x86_64") as caught:
        torch_environment(own, "2.13.0")
    assert f"{links} (PIP_FIND_LINKS)" in caught.value.output
    assert f"{DEAD}/cpu (matrix.yaml)" in caught.value.output


@pytest.fixture
def asked(tmp_path: Path) -> Callable[[str], list[str] | None]:
    """Asks all places, of which the pin's own is a folder, for a version."""
    pin = TorchPin(index=tmp_path.as_uri())
    return lambda version: refused_offers(f"torch=={version}+cpu", pin, (PYTHON,), tmp_path / "torch.log")


def test_what_no_place_lists_needs_no_uv(
    asked: Callable[[str], list[str] | None], links: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = write_torch(links, "2.13.0+cpu").name
    monkeypatch.setattr(install_module, "run", lambda *_, **__: pytest.fail("uv was asked"))
    assert (faults := asked("2.14.0"))
    assert faults[0] == f"{links} (PIP_FIND_LINKS): no torch==2.14.0+cpu; it lists {listed}"


def test_what_is_listed_is_judged_by_uv(asked: Callable[[str], list[str] | None], links: Path) -> None:
    wheel = write_torch(links, "2.14.0+cpu")
    assert asked("2.14.0") is None
    wheel.rename(wheel.with_name("torch-2.14.0+cpu-cp27-cp27m-win32.whl"))
    assert (faults := asked("2.14.0"))
    assert "cp27m" in faults[0]
    assert not faults[0].startswith(f"{links} (PIP_FIND_LINKS): no torch")


def test_where_a_list_cannot_be_read_uv_is_asked(
    asked: Callable[[str], list[str] | None], links: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreadable(_: TorchOffer) -> list[str]:
        raise OSError

    monkeypatch.setattr(install_module, "offered_files", unreadable)
    assert asked("2.14.0")
    write_torch(links, "2.14.0+cpu")
    assert asked("2.14.0") is None


def test_a_locked_run_takes_debians_torch_only_if_fallbacks_are_allowed(own: BuildContext, links: Path) -> None:
    """A wheel that could be had, but is not pinned for a Python that is here, is no alternative."""
    write_torch(links, "2.14.0+cpu")
    locked = replace(own, options=BuildOptions(locked=True))
    with pytest.raises(LockedError, match=r"torch 2\.14\.0 for x86_64 is not pinned by content"):
        torch_environment(locked, "2.14.0")
    allowed = replace(own, options=BuildOptions(locked=True, allow_fallbacks=True))
    assert torch_environment(allowed, "2.14.0").torch_alternate
    assert not torch_environment(own, "2.14.0").torch_alternate


def test_a_stored_environment_needs_no_place(own: BuildContext, links: Path) -> None:
    wheel = write_torch(links, "2.14.0+cpu")
    first = torch_environment(own, "2.14.0")
    wheel.unlink()
    assert torch_environment(own, "2.14.0") == first
