"""What a release is refused for."""

from __future__ import annotations

import subprocess
import tarfile
import tomllib
import zipfile
from datetime import date
from typing import TYPE_CHECKING

import pytest
import yaml
from release import cited, main, notes, prepare, release, sign
from release_build import PACKAGED, SHARED, ReleaseError, build_twice, clone, require_files, require_identical
from release_checks import CITATION, Release, check_citation, check_version, next_version, run_checks, tagged_version
from release_install import CHECKOUT_ERROR, require_shared, use
from release_provenance import sign_files, summed, try_signing, write_sums

from cpuwheels.attestation.keyless import Identity
from cpuwheels.attestation.keys import make_key
from cpuwheels.attestation.sign import Signing
from cpuwheels.attestation.verify import Trust, verify_provenance
from cpuwheels.core.digests import file_digest
from cpuwheels.core.errors import CheckoutError
from layout import ROOT
from local_sigstore import IDENTITY, ISSUER, LocalSigstore
from tiny_project import commit_all

if TYPE_CHECKING:
    from pathlib import Path

CHANGELOG = """\
# Changelog

## [Unreleased]

## [1.0.0] - 2026-11-24

### Added

- The first.
"""
CITATION_TEXT = "cff-version: 1.2.0\nversion: 1.0.0\ndate-released: 2026-11-24\ntitle: x\n"
BACKEND = """\
import os, tarfile, zipfile

def build_sdist(folder, settings=None):
    name = "cpuwheels-1.0.0.tar.gz"
    with tarfile.open(os.path.join(folder, name), "w:gz", compresslevel=0) as archive:
        for file in ("pyproject.toml", "backend.py"):
            entry = tarfile.TarInfo("cpuwheels-1.0.0/" + file)
            entry.size = os.stat(file).st_size
            with open(file, "rb") as stream:
                archive.addfile(entry, stream)
    with open(os.path.join(folder, name), "r+b") as stream:
        stream.seek(4)
        stream.write(bytes(4))
        stream.seek(0)
        data = stream.read()
    with open(os.path.join(folder, name), "wb") as stream:
        stream.write(data.replace(folder.encode(), b""))
    return name

def build_wheel(folder, settings=None, metadata=None):
    name = "cpuwheels-1.0.0-TAG.whl"
    with zipfile.ZipFile(os.path.join(folder, name), "w") as archive:
        archive.writestr(zipfile.ZipInfo("a.txt"), CONTENT)
    return name
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    folder = tmp_path / "checkout"
    (folder / "locks").mkdir(parents=True)
    (folder / "matrix.yaml").write_text("a")
    (folder / "locks" / "run.txt").write_text("b")
    (folder / "locks" / "dev.txt").write_text("c")
    (folder / "CHANGELOG.md").write_text(CHANGELOG)
    (folder / CITATION).write_text(CITATION_TEXT)
    commit_all(folder, "first")
    return folder


def tag(folder: Path, name: str) -> None:
    subprocess.run(["git", "-C", folder, "tag", name], check=True)


def test_the_version_is_the_tags(checkout: Path) -> None:
    with pytest.raises(ReleaseError, match="no tag"):
        tagged_version(checkout)
    tag(checkout, "another")
    with pytest.raises(ReleaseError, match="no tag"):
        tagged_version(checkout)
    tag(checkout, "v1.0.0")
    assert tagged_version(checkout) == "1.0.0"
    tag(checkout, "v1.1.0")
    with pytest.raises(ReleaseError, match=r"v1\.0\.0, v1\.1\.0"):
        tagged_version(checkout)


def test_a_tag_of_an_earlier_commit_does_not_count(checkout: Path) -> None:
    tag(checkout, "v1.0.0")
    (checkout / "more").touch()
    commit_all(checkout, "second")
    with pytest.raises(ReleaseError, match="no tag"):
        tagged_version(checkout)


@pytest.mark.parametrize("name", ["matrix.yaml", "new.txt"])
def test_what_is_not_committed_is_refused(
    checkout: Path, tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    tag(checkout, "v1.0.0")
    (checkout / name).write_text("changed")
    with pytest.raises(ReleaseError, match="not passed: committed"):
        release(checkout, tmp_path / "out", dev=False)
    assert not (tmp_path / "out").exists()
    assert name in capsys.readouterr().out


def test_all_that_is_wrong_is_listed_and_nothing_is_built(
    checkout: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tag(checkout, "v4.0.0")
    (checkout / "more").touch()
    commit_all(checkout, "second")
    tag(checkout, "v3.0.0")
    (checkout / "matrix.yaml").write_text("changed")
    (tmp_path / "work").mkdir()
    failed = run_checks(Release(checkout, tmp_path / "work", "3.0.0", is_tagged=True))
    assert failed == ["committed", "version", "changelog", "citation"]
    lines = capsys.readouterr().out.splitlines()
    assert "✗ version: 3.0.0 is not newer than 4.0.0" in lines
    assert "✗ changelog: CHANGELOG.md has no section [3.0.0]" in lines
    assert "✗ citation: CITATION.cff has version 1.0.0, not 3.0.0; --prepare sets it" in lines
    assert list((tmp_path / "work").iterdir()) == []


def test_a_commit_is_checked_for_what_it_is_or_prepares(checkout: Path) -> None:
    assert next_version(checkout) == ("1.0.0", False)
    tag(checkout, "v1.0.0")
    assert next_version(checkout) == ("1.0.0", True)
    (checkout / "more").touch()
    commit_all(checkout, "second")
    assert next_version(checkout) == ("", False)


@pytest.mark.parametrize(
    ("version", "message"),
    [("1.0", "is not newer"), ("one", "no version"), ("2.0.0-rc1", r"is written 2\.0\.0rc1"), ("2.0.0", ""), ("", "")],
)
def test_versions(checkout: Path, tmp_path: Path, version: str, message: str) -> None:
    tag(checkout, "v1.0.0")
    one = Release(checkout, tmp_path, version, is_tagged=False)
    if message:
        with pytest.raises(ReleaseError, match=message):
            check_version(one)
    else:
        assert check_version(one)


def test_a_citation_has_the_version_and_with_the_tag_a_day(checkout: Path, tmp_path: Path) -> None:
    assert check_citation(Release(checkout, tmp_path, "1.0.0", is_tagged=True)) == "version 1.0.0"
    (checkout / CITATION).write_text("version: 1.0.0\n")
    check_citation(Release(checkout, tmp_path, "1.0.0", is_tagged=False))
    with pytest.raises(ReleaseError, match="no date-released"):
        check_citation(Release(checkout, tmp_path, "1.0.0", is_tagged=True))


def test_a_release_is_prepared(checkout: Path) -> None:
    changes = checkout / "CHANGELOG.md"
    changes.write_text(CHANGELOG.replace("[Unreleased]\n", "[Unreleased]\n\n### Fixed\n\n- This.\n"))
    assert prepare(checkout, "1.1.0", date(2026, 12, 1)) == [changes, checkout / CITATION]
    assert "## [1.1.0] - 2026-12-01\n\n### Fixed\n\n- This.\n" in changes.read_text()
    assert notes(checkout, "1.1.0") == "### Fixed\n\n- This.\n"
    commit_all(checkout, "ready", tag="v1.1.0")
    assert check_citation(Release(checkout, checkout, *next_version(checkout))) == "version 1.1.0"
    assert (checkout / CITATION).read_text() == CITATION_TEXT.replace("1.0.0", "1.1.0").replace("11-24", "12-01")
    assert cited("version: 1\ntitle: x\n", "2", "2026-12-01") == "version: 2\ndate-released: 2026-12-01\ntitle: x\n"


def test_our_citation_can_be_released() -> None:
    text = cited((ROOT / CITATION).read_text(), "9.8.7", "2026-12-01")
    assert yaml.safe_load(text)["version"] == "9.8.7"
    assert str(yaml.safe_load(text)["date-released"]) == "2026-12-01"


def test_a_clone_has_the_commit_and_its_tags_alone(checkout: Path, tmp_path: Path) -> None:
    tag(checkout, "v1.0.0")
    (checkout / "matrix.yaml").write_text("changed")
    (checkout / "new.txt").touch()
    clone(checkout, tmp_path / "clone")
    assert (tmp_path / "clone" / "matrix.yaml").read_text() == "a"
    assert not (tmp_path / "clone" / "new.txt").exists()
    assert tagged_version(tmp_path / "clone") == "1.0.0"


def test_two_builds_have_the_same_names_and_bytes(tmp_path: Path) -> None:
    def files(folder: str, wheel: str, text: str) -> tuple[Path, Path]:
        (tmp_path / folder).mkdir()
        sdist, built = tmp_path / folder / "x.tar.gz", tmp_path / folder / wheel
        sdist.write_text("same")
        built.write_text(text)
        return sdist, built

    first = files("first", "x.whl", "text")
    require_identical(first, files("second", "x.whl", "text"))
    for other in (files("third", "x.whl", "other"), files("fourth", "y.whl", "text")):
        with pytest.raises(ReleaseError, match="two builds differ"):
            require_identical(first, other)


def buildable(folder: Path, content: str, tag_of_wheel: str = "py3-none-any") -> Path:
    """A project with a build backend of its own."""
    folder.mkdir()
    (folder / "pyproject.toml").write_text(
        '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
        '[project]\nname = "cpuwheels"\nversion = "1.0.0"\n'
    )
    (folder / "backend.py").write_text(BACKEND.replace("CONTENT", content).replace("TAG", tag_of_wheel))
    commit_all(folder, "first")
    return folder


def test_two_clones_give_the_same(tmp_path: Path) -> None:
    root = buildable(tmp_path / "same", '"a"')
    sdist, wheel = build_twice(root, tmp_path / "work", "v1.0.0")
    assert (sdist.name, wheel.name) == ("cpuwheels-1.0.0.tar.gz", "cpuwheels-1.0.0-py3-none-any.whl")
    clones = sorted(path.name for path in (tmp_path / "work").iterdir())
    assert clones == ["clone-022", "clone-077", "out-022", "out-077"]
    assert tagged_version(tmp_path / "work" / "clone-022") == "1.0.0", "the clone has the tag that the checkout lacks"
    assert subprocess.run(["git", "-C", root, "tag"], capture_output=True, check=True).stdout == b""


@pytest.mark.parametrize(
    "content", ["os.getcwd()", "oct(os.umask(0))", "os.urandom(8).hex()", "str(os.times().elapsed)"]
)
def test_what_differs_on_the_second_build_is_found(tmp_path: Path, content: str) -> None:
    with pytest.raises(ReleaseError, match="two builds differ"):
        build_twice(buildable(tmp_path / "other", content), tmp_path / "work")


def test_a_wheel_for_one_kind_of_machine_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ReleaseError, match="not for every machine"):
        build_twice(buildable(tmp_path / "one", '"a"', "cp311-cp311-linux_x86_64"), tmp_path / "work")


def test_manual_page_and_completion_have_to_be_installed(tmp_path: Path) -> None:
    source, installed = tmp_path / "source", tmp_path / "installed"
    for folder in (source, installed):
        (folder / SHARED / "man").mkdir(parents=True)
        (folder / SHARED / "man" / "a.1").write_text("a")
    require_shared(installed, source)
    (installed / SHARED / "man" / "a.1").write_text("b")
    with pytest.raises(ReleaseError, match=r"does not install share/man/a\.1"):
        require_shared(installed, source)
    (installed / SHARED / "man" / "a.1").unlink()
    with pytest.raises(ReleaseError, match=r"does not install share/man/a\.1"):
        require_shared(installed, source)


PROGRAM = """\
#!/bin/sh
case "$1" in
  --version) echo cpuwheels 1.0.0;;
  --help) echo Usage: cpuwheels;;
  matrix) echo x86: a target;;
  lock) echo it is to be run in a checkout >&2; exit 50;;
esac
"""


@pytest.mark.parametrize(
    ("right", "wrong", "message"),
    [
        ("", "", ""),
        ("1.0.0", "1.0.1", "--version: exit status 0"),
        ("exit 50", "exit 1", "lock: exit status 1"),
        ("x86: a target", "x87: a target", "matrix: exit status 0"),
        ("echo x86", "touch left; echo x86", "left left in the folder"),
    ],
)
def test_the_program_is_used_in_an_empty_folder(tmp_path: Path, right: str, wrong: str, message: str) -> None:
    program = tmp_path / "cpuwheels"
    program.write_text(PROGRAM.replace(right, wrong) if right else PROGRAM)
    program.chmod(0o755)
    if message:
        with pytest.raises(ReleaseError, match=message):
            use([program], "1.0.0", tmp_path / "work")
    else:
        use([program], "1.0.0", tmp_path / "work")


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """A folder with the files of a release."""
    folder = tmp_path / "made"
    folder.mkdir()
    files = [folder / "cpuwheels-1.0.0.tar.gz", folder / "cpuwheels-1.0.0-py3-none-any.whl"]
    with tarfile.open(files[0], "w:gz") as archive:
        archive.addfile(tarfile.TarInfo("cpuwheels-1.0.0/PKG-INFO"))
    with zipfile.ZipFile(files[1], "w") as wheel:
        wheel.writestr("cpuwheels-1.0.0.dist-info/METADATA", "Metadata-Version: 2.4\nName: cpuwheels\nVersion: 1.0.0\n")
    write_sums(folder, files)
    return folder


def test_only_the_files_of_the_version_are_signed(made: Path) -> None:
    assert [path.suffix for path in summed(made, "1.0.0")] == [".gz", ".whl"]
    with pytest.raises(ReleaseError, match=r"wanted: cpuwheels-2\.0\.0\.tar\.gz"):
        summed(made, "2.0.0")
    (made / "other-1.0.0.tar.gz").touch()
    with pytest.raises(ReleaseError, match="other-1"):
        summed(made, "1.0.0")
    (made / "other-1.0.0.tar.gz").unlink()
    (made / "cpuwheels-1.0.0-py3-none-any.whl").write_bytes(b"changed")
    with pytest.raises(ReleaseError, match="other digests"):
        summed(made, "1.0.0")


def test_what_is_signed_is_the_commit_and_the_lock_of_the_checkout(checkout: Path, made: Path, tmp_path: Path) -> None:
    tag(checkout, "v1.0.0")
    make_key(tmp_path / "key")
    written = sign(checkout, made, Signing(key=str(tmp_path / "key")))
    assert sorted(path.suffix for path in written) == [".json", ".json", ".jsonl", ".jsonl"]
    head = subprocess.run(
        ["git", "-C", checkout, "rev-parse", "HEAD"], capture_output=True, text=True, check=True
    ).stdout
    for path in summed(made, "1.0.0"):
        found = verify_provenance(path, Trust(keys=(tmp_path / "key.pub",))).statement.predicate.build_definition
        assert found.external_parameters == {"version": "1.0.0"}
        source, tools = found.resolved_dependencies
        assert source.digest == {"gitCommit": head.strip()}
        assert tools.digest == {"sha256": file_digest(checkout / "locks" / "dev.txt")}


def test_a_commit_without_a_tag_and_changed_files_are_not_signed_for(
    checkout: Path, made: Path, tmp_path: Path
) -> None:
    make_key(tmp_path / "key")
    with pytest.raises(ReleaseError, match="no tag"):
        sign(checkout, made, Signing(key=str(tmp_path / "key")))
    tag(checkout, "v1.0.0")
    (checkout / "locks" / "dev.txt").write_text("changed")
    with pytest.raises(ReleaseError, match=r"locks/dev\.txt"):
        sign(checkout, made, Signing(key=str(tmp_path / "key")))
    assert list(made.glob("*.json*")) == []


def test_a_workflow_signs_with_its_identity(
    checkout: Path, made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with LocalSigstore() as services:
        services.be_github(monkeypatch)
        config = services.trust_config(tmp_path / "trust.json")
        signing = Signing(keyless=True, trust_config=config)
        written = sign_files(checkout, summed(made, "1.0.0"), "1.0.0", signing)
        assert {"".join(path.suffixes[-2:]) for path in written} >= {".slsa.attestation", ".publish.attestation"}
        for path in summed(made, "1.0.0"):
            found = verify_provenance(path, Trust(identity=Identity(IDENTITY, ISSUER), trust_config=config))
            assert found.by == (IDENTITY,)
            predicate = found.statement.predicate
            assert predicate.run_details.builder.id == IDENTITY
            assert predicate.build_definition.resolved_dependencies[0].uri == (
                "git+https://github.com/wheels/cpu@refs/tags/v1.0.0"
            )


def test_signing_is_tried_with_a_key_of_the_moment(checkout: Path, made: Path, tmp_path: Path) -> None:
    files = summed(made, "1.0.0")
    try_signing(checkout, files, "1.0.0", tmp_path / "signed")
    assert sorted(path.name for path in made.iterdir()) == sorted([*(path.name for path in files), "SHA256SUMS"])


def test_a_verifier_that_takes_anything_is_found(
    checkout: Path, made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    head = subprocess.run(
        ["git", "-C", checkout, "rev-parse", "HEAD"], capture_output=True, text=True, check=True
    ).stdout
    monkeypatch.setattr("release_provenance.run", lambda *_, **__: f"version 1.0.0 {head}")
    with pytest.raises(ReleaseError, match="verifies for another file"):
        try_signing(checkout, summed(made, "1.0.0"), "1.0.0", tmp_path / "signed")
    monkeypatch.setattr("release_provenance.run", lambda *_, **__: "nothing")
    with pytest.raises(ReleaseError, match=r"does not name version 1\.0\.0"):
        try_signing(checkout, summed(made, "1.0.0"), "1.0.0", tmp_path / "again")


@pytest.mark.parametrize("words", [["--sign"], ["--key", "k"], ["--check", "--keyless"], ["--check", "--dev"]])
def test_options_that_do_not_fit_are_refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    assert "error:" in capsys.readouterr().err


def test_every_file_of_the_project_has_to_be_in_the_wheel(checkout: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    (data / "locks").mkdir(parents=True)
    (data / "matrix.yaml").write_text("a")
    (data / "locks" / "dev.txt").write_text("c")
    with pytest.raises(ReleaseError, match=r"locks/run\.txt"):
        require_files(data, checkout)
    (data / "locks" / "run.txt").write_text("other")
    with pytest.raises(ReleaseError, match=r"locks/run\.txt"):
        require_files(data, checkout)
    (data / "locks" / "run.txt").write_text("b")
    (data / "compiled.pyc").touch()
    require_files(data, checkout)
    (data / "stray").touch()
    with pytest.raises(ReleaseError, match="stray"):
        require_files(data, checkout)


def test_what_is_checked_is_what_the_wheel_is_given() -> None:
    (override,) = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["scikit-build"]["overrides"]
    data = {name: f"cpuwheels/data/{name}" for name in PACKAGED}
    assert override["wheel"]["force-include"] == data | {SHARED: f"${{SKBUILD_DATA_DIR}}/{SHARED}"}
    assert CheckoutError.exit_code == CHECKOUT_ERROR
