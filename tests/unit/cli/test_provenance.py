"""The commands about provenance, as a user runs them."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from cpuwheels.cli.main import main
from cpuwheels.cli.provenance import require_libraries
from cpuwheels.core.errors import ProvenanceError, UsageError
from index_entries import entry
from rebuilder_sites import Rebuilder
from recorded_wheel import write_build


def run(*arguments: str | Path) -> int:
    with pytest.raises(SystemExit) as ended:
        main([str(argument) for argument in arguments])
    assert isinstance(ended.value.code, int)
    return ended.value.code


def test_from_a_key_to_what_the_wheel_was_built_from(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wheel, key = write_build(tmp_path / "built"), tmp_path / "key"
    assert run("make-key", key) == 0
    assert run("sign", wheel, "--key", key) == 0
    assert f"{wheel}.intoto.jsonl" in capsys.readouterr().out
    assert run("verify-provenance", wheel, "--trusted-key", f"{key}.pub") == 0
    out = capsys.readouterr().out
    assert "source: vllm 0.32.0" in out
    assert "signed by key " in out
    wheel.write_bytes(b"other")
    assert run("verify-provenance", wheel, "--trusted-key", f"{key}.pub") == ProvenanceError.exit_code
    err = capsys.readouterr().err
    assert "the statement is refused: it is about" in err
    assert "next:" in err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["sign", "a.whl"], "nothing says how to sign"),
        (["sign", "a.whl", "--public-key", "a.pub"], "there is no key to sign with"),
        (["verify-provenance", "a.whl", "--identity", "me"], "give --identity and --issuer together"),
        (["verify-provenance", "a.whl", "--issuer", "https://a.org"], "give --identity and --issuer together"),
        (["publish", "a.whl", "--identity", "me"], "give --identity and --issuer together"),
        (["nightly", "--build", "--key", "a"], "what builds signs nothing"),
        (["nightly", "--keyless"], "what builds signs nothing"),
        (["rebuild"], "give a WHEEL, or --newest N and --index"),
        (["rebuild", "a.whl", "--newest", "3"], "either a WHEEL is rebuilt or what is new"),
        (["rebuild", "a.whl", "--again"], "there is a WHEEL"),
        (["rebuild", "a.whl", "--site", "s"], "there is a WHEEL"),
        (["rebuild", "--newest", "3"], "nothing says where what is new is"),
        (["rebuild", "--newest", "3", "--index", "https://a.org", "--out", "o"], "each rebuild has its folder"),
        (["check-index", "--require-rebuilders", "2"], "nothing says whose statements count"),
    ],
)
def test_options_that_mean_nothing(arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*arguments) == UsageError.exit_code
    assert words in capsys.readouterr().err


def test_without_the_libraries_there_is_one_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "sigstore" else name)
    with pytest.raises(UsageError, match="signatures need sigstore, which is not installed") as raised:
        require_libraries()
    assert "cpuwheels[signing]" in raised.value.next_step


def test_neither_a_build_nor_an_index_imports_what_signs() -> None:
    program = (
        "import sys\n"
        "import cpuwheels.cli.main, cpuwheels.pipeline.build, cpuwheels.index.publish_wheel, cpuwheels.index.check\n"
        "import cpuwheels.index.nightly.job, cpuwheels.attestation.verify, cpuwheels.attestation.sign\n"
        "names = {'sigstore', 'pypi_attestations', 'securesystemslib', 'cryptography', 'tuf', 'requests'}\n"
        "print(sorted(names & {name.partition('.')[0] for name in sys.modules}))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")


def test_the_extra_and_the_group_of_the_tests_are_the_same(project_root: Path) -> None:
    found = tomllib.loads((project_root / "pyproject.toml").read_text())
    assert found["project"]["optional-dependencies"]["signing"] == found["dependency-groups"]["signing"]


def test_all_statements_of_a_rebuilder_are_signed_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one = Rebuilder("one", tmp_path / "one")
    folder = one.state(entry(), signed=False)
    assert run("sign", one.root / "rebuilds.json", "--key", one.key) == 0
    assert capsys.readouterr().out.strip() == str(folder / f"{entry().filename}.rebuild.intoto.jsonl")
    assert run("sign", one.root / "rebuilds.json", "--key", one.key) == 0
    assert capsys.readouterr().out == ""
