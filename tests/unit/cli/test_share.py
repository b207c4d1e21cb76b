"""`cpuwheels share`: what is written, and what it exits with."""

from __future__ import annotations

from pathlib import Path

import pytest

from cpuwheels.attestation.keys import make_key
from cpuwheels.cli import main
from cpuwheels.core.elsewhere import STORE_VARIABLE
from cpuwheels.core.errors import SharedStoreError, UnknownTargetError, UnusableWheelError, UsageError
from cpuwheels.core.store import Store
from cpuwheels.pipeline.recorded_build import read_record
from cpuwheels.shared.folder import Folder
from recorded_wheel import write_build
from shared_stores import KERNELS, make_kernels, other_store, share_all


class Command:
    def __init__(self, base: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.base, self._capsys = base, capsys
        self.store = Store(base / "cache")
        self.place = base / "shared"

    def run(self, *words: str | Path) -> tuple[object, str, str]:
        """Return the exit code and what was printed."""
        places = ["--cache", str(self.store.root), "--dist", str(self.base / "dist")]
        with pytest.raises(SystemExit) as raised:
            main.main([*places, "share", *map(str, words)])
        printed = self._capsys.readouterr()
        return raised.value.code, printed.out, printed.err


@pytest.fixture
def command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Command:
    return Command(tmp_path, capsys)


def test_all_is_shared_signed(command: Command) -> None:
    make_kernels(command.store)
    make_key(command.base / "key")
    code, out, err = command.run("--all", "--store", command.place, "--key", command.base / "key")
    assert code == 0, err
    assert f"[share] kernels/{KERNELS}: shared (" in err
    assert [line.split() for line in out.splitlines() if "kernels" in line] == [["kernels", "1", "0", "0"]]
    (description,) = command.place.rglob("description.json")
    assert '"signatures"' in description.read_text()
    assert command.run("--all", "--store", command.place, "--key", command.base / "key")[0] == 0


def test_the_place_may_be_in_a_variable(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    make_kernels(command.store)
    monkeypatch.setenv(STORE_VARIABLE, str(command.place))
    assert command.run("--all")[0] == 0
    assert list(command.place.rglob("*.gz"))


def test_the_kernels_of_a_targets_wheels(command: Command) -> None:
    wheel = write_build(command.base / "dist" / "x86" / "0.32.0")
    key = read_record(wheel.parent).kernel_key
    assert key
    make_kernels(command.store, KERNELS)
    make_kernels(command.store, key.ljust(24, "0")[:24])
    code, _, err = command.run("x86", "--store", command.place)
    assert code == 0, err
    assert KERNELS not in err


def test_other_bytes_under_the_same_key_are_an_error(command: Command, tmp_path: Path) -> None:
    other = other_store(tmp_path / "other")
    make_kernels(other, text="theirs")
    share_all(other, Folder(command.place))
    make_kernels(command.store, text="ours")
    code, out, err = command.run("--all", "--store", command.place)
    assert code == SharedStoreError.exit_code
    assert "NOTE" in err
    assert f"kernels/{KERNELS}: differs: vllm/_C.abi3.so" in err
    assert [line.split() for line in out.splitlines() if "kernels" in line] == [["kernels", "0", "0", "1"]]


def test_what_nobody_used_for_long_is_removed(command: Command) -> None:
    make_kernels(command.store)
    command.run("--all", "--store", command.place)
    code, out, err = command.run("--prune", "--store", command.place, "--older-than", "0", "--dry-run")
    assert code == 0, err
    assert out.startswith("1 of 1 entries and 0 leftovers would be removed: ")
    assert f"kernels/{KERNELS}: would be removed" in err
    code, out, _ = command.run("--prune", "--store", command.place)
    assert out.startswith("0 of 1 entries")
    code, out, _ = command.run("--prune", "--store", command.place, "--older-than", "365", "--down-to", "1")
    assert out.startswith("1 of 1 entries and 0 leftovers removed: ")
    assert not list(command.place.rglob("*.*"))


def test_empty_stores_are_no_fault(command: Command) -> None:
    assert command.run("--all", "--store", command.place)[0] == 0
    assert not command.place.exists()


@pytest.mark.parametrize(
    ("words", "error", "said"),
    [
        ([], UsageError, "--store"),
        (["--store", "shared"], UsageError, "either TARGET is shared, or --all"),
        (["x86", "--all", "--store", "shared"], UsageError, "either TARGET is shared, or --all"),
        (["--all", "--store", "https://host"], UsageError, "only read at its web address"),
        (["--all", "--store", "s3://bucket"], UsageError, "nothing would prove who shared it"),
        (["--all", "--store", "shared", "--trusted-key", "key.pub"], UsageError, "there is no key to sign with"),
        (["--all", "--store", "shared", "--public-key", "key.pub"], UsageError, "there is no key to sign with"),
        (["--all", "--store", "shared", "--dry-run"], UsageError, "nothing is removed without --prune"),
        (["--all", "--prune", "--store", "shared"], UsageError, "with --prune nothing is shared"),
        (["--prune", "--store", "https://host"], UsageError, "only read at its web address"),
        (["x68", "--store", "shared"], UnknownTargetError, "x68"),
        (["x86", "--store", "shared"], UnusableWheelError, "there is no wheel of x86"),
    ],
)
def test_bad_input(command: Command, words: list[str], error: type[Exception], said: str) -> None:
    code, _, err = command.run(*words)
    assert code == error.exit_code  # type: ignore[attr-defined]
    assert said in err
