"""`cpuwheels batch`: what it makes, and what it refuses before anything runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from cpuwheels.cli import main
from cpuwheels.config.matrix import load_matrix
from cpuwheels.core.errors import CompileError, FarmError, SourceError, UnknownTargetError, UsageError
from cpuwheels.farm import site
from cpuwheels.farm.machine import Machine
from cpuwheels.farm.security import make_certificates
from cpuwheels.farm.site import FARM_VARIABLE
from farms import begun, machine, site_in
from layout import ROOT


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    program = site_in(tmp_path).program
    monkeypatch.setattr(site.Site, "__init__", _with_program(site.Site.__init__, program))
    monkeypatch.setattr("cpuwheels.farm.machine.this_offers", _offers)

    def run(*words: str | Path) -> tuple[object, str, str]:
        places = ["--root", ROOT, "--cache", tmp_path / "cache", "--dist", tmp_path / "dist"]
        with pytest.raises(SystemExit) as raised:
            main.main([*map(str, places), "batch", *map(str, words)])
        printed = capsys.readouterr()
        return raised.value.code, printed.out, printed.err

    return run


def _with_program(before, program: tuple[str, ...]):
    def init(self: site.Site, *values: object, **named: object) -> None:
        before(self, *values, **{"program": program, **named})

    return init


def _offers(name: str, *_: object) -> Machine:
    return machine(name)


def test_releases_of_two_targets(run, tmp_path: Path) -> None:
    first, second = (release.version for release in load_matrix(ROOT).releases[:2])
    words = ("x86", "arm", "--source", first, "--source", second, "--source", first)
    code, out, err = run(*words)
    assert code == 0, err
    wheels = [Path(line) for line in out.splitlines() if line.endswith(".whl")]
    assert len(wheels) == 4
    assert all(path.is_file() and path.is_relative_to(tmp_path / "dist") for path in wheels)
    assert "4 jobs; of 4 there are 0 already" in err
    code, again, err = run(*words)
    assert "0 jobs; of 4 there are 4 already" in err
    assert [line for line in again.splitlines() if line.endswith(".whl")] == [str(path) for path in wheels]
    assert len(begun(tmp_path / "events", f"build x86 {first}")) == 1


def test_a_failure_is_the_exit_code_and_the_others_are_made(run, tmp_path: Path) -> None:
    first, second = (release.version for release in load_matrix(ROOT).releases[:2])
    (tmp_path / "events" / f"fail-{first}").write_text(str(CompileError.exit_code))
    code, out, err = run("x86", "--source", first, "--source", second, "--parity", "smoke")
    assert code == CompileError.exit_code
    assert len([line for line in out.splitlines() if line.endswith(".whl")]) == 1
    assert "not begun" in out
    assert "of 4 jobs 2 are not done" in err


@pytest.mark.parametrize(
    ("words", "error", "says"),
    [
        (("x86",), UsageError, "no source is named"),
        (("none", "--all-releases"), UnknownTargetError, "none"),
        (("x86", "--source", "0.0.1"), SourceError, "pins no release 0.0.1"),
        (("x86", "--source", "."), UsageError, "which other machines do not have"),
        (("x86", "--all-releases", "--second-opinion"), UsageError, "one machine has only its own opinion"),
        (("x86", "--all-releases", "--priority", "1"), UsageError, "--priority"),
        (("x86", "--all-releases", "--farm", "tls://127.0.0.1:1", "--memory", "8G"), UsageError, "shares of their own"),
        (("x86", "--all-releases", "--farm", "127.0.0.1:1"), UsageError, "is no address of a farm"),
        (("x86", "--all-releases", "--farm", "tls://127.0.0.1:1"), FarmError, "there is no farm.pem"),
        (("s390x", "--all-releases"), FarmError, "this machine cannot build s390x"),
        (("x86", "--all-releases", "--parity", "smoke", "--on", "none"), FarmError, "has no none"),
    ],
)
def test_what_is_refused(run, tmp_path: Path, words: tuple[str, ...], error: type[UsageError], says: str) -> None:
    code, _, err = run(*words)
    assert code == error.exit_code
    assert says in err
    assert not (tmp_path / "events" / "events").exists()


def test_a_farm_that_is_not_there(run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_certificates(tmp_path / "keys")
    monkeypatch.setenv(FARM_VARIABLE, "tls://127.0.0.1:1")
    monkeypatch.setattr("cpuwheels.farm.remote.CONNECT_SECONDS", 1)
    code, _, err = run("x86", "--all-releases", "--farm-keys", tmp_path / "keys")
    assert code == FarmError.exit_code
    assert "the scheduler does not answer" in err
