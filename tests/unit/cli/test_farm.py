"""`cpuwheels farm`: certificates, and what it refuses."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
import yaml

from cpuwheels.cli import main
from cpuwheels.cli.farm_options import KEYS
from cpuwheels.core.errors import FarmError, UsageError
from cpuwheels.farm.security import CERTIFICATE, PRIVATE
from cpuwheels.farm.site import KEYS_VARIABLE


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str], project_root: Path):
    def run(*words: str | Path) -> tuple[object, str]:
        places = ["--root", project_root, "--cache", tmp_path / "cache", "--dist", tmp_path / "dist"]
        with pytest.raises(SystemExit) as raised:
            main.main([*map(str, places), *map(str, words)])
        return raised.value.code, capsys.readouterr().err

    return run


def test_certificates(run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code, err = run("farm", "keys", "--farm-keys", tmp_path / "keys")
    assert code == 0, err
    assert "can run programs on each machine of the farm" in err
    assert (tmp_path / "keys" / CERTIFICATE).is_file()
    code, err = run("farm", "keys", "--farm-keys", tmp_path / "keys")
    assert (code, "is there already" in err) == (FarmError.exit_code, True)
    monkeypatch.setenv(KEYS_VARIABLE, str(tmp_path / "other"))
    assert run("farm", "keys")[0] == 0
    assert (tmp_path / "other" / PRIVATE).is_file()
    monkeypatch.delenv(KEYS_VARIABLE)
    assert run("farm", "keys")[0] == 0
    assert (tmp_path / "dist" / KEYS / PRIVATE).is_file()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("keys", "--workers", "2"), "--workers"),
        (("up", "--name", "a"), "--name"),
        (("up", "--hosts", "list"), "--host"),
        (("worker", "--farm", "tls://127.0.0.1:1", "--hosts", "list"), "--hosts"),
        (("worker", "--farm", "tls://127.0.0.1:1", "--port", "1"), "--port"),
        (("up", "--slurm", "2"), "--host"),
        (("up", "--slurm", "0", "--host", "10.0.0.1"), "--slurm"),
        (("up", "--slurm-options", "--mem=1G"), "--slurm-options goes with --slurm"),
        (("up", "--slurm", "2", "--host", "10.0.0.1", "--slurm-options", "'"), "cannot be read"),
        (("worker", "--farm", "tls://127.0.0.1:1", "--slurm-options", "a"), "--slurm-options"),
        (("up", "--image", "a"), "--image"),
        (("kubernetes", "--host", "a"), "--host"),
        (("kubernetes", "--image", "a", "--cpus", "1"), "manifests need --memory"),
        (("kubernetes", "--image", "a b", "--cpus", "1", "--memory", "8G"), "'a b' cannot be"),
        (("kubernetes", "--image", "a", "--cpus", "1", "--memory", "8M"), "'8M' cannot be"),
        (("kubernetes", "--image", "a", "--cpus", "1", "--memory", "8G", "--namespace", "A"), "'A' cannot be"),
        (("worker",), "there is no address"),
        (("worker", "--farm", "tcp://127.0.0.1:1"), "'tcp://127.0.0.1:1' is no address of a farm"),
        (("up", "somewhere"), "somewhere"),
        (("down",), "down"),
    ],
)
def test_what_means_nothing_is_refused(run, words: tuple[str, ...], says: str) -> None:
    code, err = run("farm", *words)
    assert code == UsageError.exit_code
    assert says in err


@pytest.mark.parametrize("words", [("farm", "keys"), ("batch", "x86", "--all-releases", "--farm", "tls://127.0.0.1:1")])
def test_what_is_not_installed_is_named_with_how_to_install_it(
    run, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
):
    found = importlib.util.find_spec

    def without(name: str, package: str | None = None):
        return None if name == "distributed" else found(name, package)

    monkeypatch.setattr(importlib.util, "find_spec", without)
    code, err = run(*words)
    assert code == UsageError.exit_code
    assert "a farm needs distributed, which is not installed" in err
    assert "pip install 'cpuwheels[farm]'" in err


def test_up_without_certificates_in_a_folder_that_was_named(run, tmp_path: Path) -> None:
    code, err = run("farm", "up", "--farm-keys", tmp_path / "none")
    assert code == FarmError.exit_code
    assert "there is no farm.pem" in err


def test_manifests_are_printed_apart_from_what_is_said_of_certificates(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], project_root: Path
) -> None:
    words = ("farm", "kubernetes", "--image", "r/c:1", "--cpus", "4", "--memory", "16G", "--workers", "3")
    with pytest.raises(SystemExit) as raised:
        main.main(["--root", str(project_root), "--dist", str(tmp_path), *words])
    printed = capsys.readouterr()
    assert raised.value.code == 0, printed.err
    parts = list(yaml.safe_load_all(printed.out))
    assert [part["spec"]["replicas"] for part in parts if part["kind"] == "Deployment"] == [1, 3]
    assert f"create secret generic farm-keys --from-file={tmp_path}/{KEYS}/{CERTIFICATE}" in printed.err
    assert not list(tmp_path.iterdir())
