"""A published wheel rebuilt by a stranger: the same bytes from its pins alone, and one message for everything wrong."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from cpuwheels.attestation.envelope import verify_envelope
from cpuwheels.attestation.keys import make_key, public_key
from cpuwheels.core.digests import file_digest
from cpuwheels.core.errors import (
    DownloadError,
    MirrorError,
    NotReproducedError,
    ProvenanceError,
    RebuildError,
    StoppedError,
)
from cpuwheels.core.store import Store
from cpuwheels.pipeline.slsa import SUFFIX as PROVENANCE
from cpuwheels.pipeline.variation.machine import FROM_COPY, LAUNCH, NOTHING
from cpuwheels.rebuild.members import Compared
from cpuwheels.rebuild.session import DIFFERENCES, REBUILT
from cpuwheels.rebuild.statement import SIGNED_SUFFIX, SUFFIX, RebuildStatement, check_rebuild
from cpuwheels.wheel.dist_info import content_digest
from layout import ROOT
from tiny_project import commit_all, make_repository, make_sdist

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform != "linux", reason="the network is closed as on Linux")]

HERE = Path(__file__).parent
TORCH = "6746dbcbeb526eb61330b76b41ff1b4eb848951103a892eeb080dfa2b264667b"
"""The wheel of torch 2.13.0 that matrix.yaml pins, too."""


@dataclass(frozen=True)
class Publisher:
    """Somebody with a checkout of a cpuwheels that builds the stand-in, and a wheel of it.

    Attributes:
        root: The checkout.
        inputs: Folder with the sdist and the clone of oneDNN.
        wheel: What was published, in a folder of its own with its statement.
        cache: Stores with the downloads.
    """

    root: Path
    inputs: Path
    wheel: Path
    cache: Path

    @property
    def statement(self) -> Path:
        return self.wheel.with_name(f"{self.wheel.name}{PROVENANCE}")


@dataclass(frozen=True)
class Stranger:
    """Somebody else, with folders of their own.

    Attributes:
        base: The folders.
        program: Checkout of the cpuwheels that they run.
    """

    base: Path
    program: Path

    @property
    def results(self) -> Path:
        return self.base / "dist/rebuilds"

    def command(self, *arguments: str | Path) -> list[str]:
        places = ("--root", self.program, "--cache", self.base / "cache", "--dist", self.base / "dist")
        return [str(part) for part in (sys.executable, FROM_COPY, self.program / "src", *places, *arguments)]

    def run(
        self, *arguments: str | Path, umask: int = 0o022, env: dict[str, str] | None = None, launch: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        prefix = [sys.executable, "-I", "-S", str(LAUNCH), str(launch), "--"] if launch else []
        self.base.mkdir(parents=True, exist_ok=True)
        return subprocess.run(
            [*prefix, *self.command(*arguments)],
            cwd=self.base,
            env=os.environ | (env or {}),
            umask=umask,
            text=True,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )

    def found(self, wheel: Path) -> tuple[Path, RebuildStatement]:
        """Return the folder of the one result, and its statement."""
        (folder,) = self.results.iterdir()
        content = (folder / f"{wheel.name}{SUFFIX}").read_bytes()
        return folder, check_rebuild(content, wheel.name, file_digest(wheel), folder)


@pytest.fixture(scope="module")
def publisher(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Publisher:
    base = tmp_path_factory.mktemp("publisher")
    root, inputs = base / "checkout", base / "inputs"
    for name in ("src/cpuwheels", "cmake", "csrc", "locks", "tests/parity", "measured"):
        shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(HERE / "tiny_root" / "patches", root / "patches")
    inputs.mkdir()
    sdist = make_sdist(HERE / "tiny", inputs / "vllm-0.1.0.tar.gz")
    repository, commit = make_repository(HERE / "tiny_onednn", inputs / "onednn")
    text = (HERE / "tiny_root" / "matrix.yaml").read_text()
    values = {"SDIST": sdist, "SHA256": file_digest(sdist), "SIZE": sdist.stat().st_size}
    for name, value in {**values, "REPOSITORY": repository, "COMMIT": commit}.items():
        text = text.replace(f"@{name}@", str(value))
    pin = f"    wheels: [{{python: cp311, machine: x86_64, sha256: {TORCH}}}]\n    alternates:"
    (root / "matrix.yaml").write_text(text.replace("    alternates:", pin, 1))
    commit_all(root, "a version of cpuwheels")
    dist = base / "dist"
    command = [sys.executable, FROM_COPY, root / "src", "--root", root, "--cache", cache, "--dist", dist]
    command += ["build", "x86", "--toolchain", "debian", "--locked", "--no-summary"]
    done = subprocess.run(command, text=True, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    built = Path(done.stdout.strip())
    (base / "published").mkdir()
    for path in (built, built.with_name(f"{built.name}{PROVENANCE}")):
        shutil.copy(path, base / "published")
    return Publisher(root, inputs, base / "published" / built.name, cache)


@pytest.fixture
def stranger(publisher: Publisher, tmp_path: Path) -> Stranger:
    """Somebody with the publisher's own checkout, and stores that hold nothing but downloads."""
    found = Stranger(tmp_path / "stranger", publisher.root)
    Store(publisher.cache).share(["downloads"], found.base / "cache")
    return found


@pytest.fixture
def copy(publisher: Publisher, tmp_path: Path) -> Path:
    """A copy of the published wheel with its statement, to be changed."""
    shutil.copytree(publisher.wheel.parent, tmp_path / "changed")
    return tmp_path / "changed" / publisher.wheel.name


def refused(done: subprocess.CompletedProcess[str], code: int, what: str) -> None:
    assert done.returncode == code, done.stderr
    assert what in " ".join(done.stderr.split()), done.stderr
    assert done.stderr.count("error:") == 1
    assert "Traceback" not in done.stderr


def test_another_user_place_and_time_give_the_same_bytes(
    publisher: Publisher, stranger: Stranger, tmp_path: Path
) -> None:
    plan = NOTHING | {"user": 4321, "group": 4321, "hostname": "elsewhere"}
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    env = {"TZ": "Pacific/Kiritimati", "LC_ALL": "C", "CFLAGS": "-O0", "SOURCE_DATE_EPOCH": "99"}
    launch = tmp_path / "plan.json" if works("unshare", "--user", "--uts", "true") else None
    done = stranger.run("rebuild", publisher.wheel, umask=0o077, env=env, launch=launch)
    assert done.returncode == 0, done.stderr
    folder, statement = stranger.found(publisher.wheel)
    assert done.stdout.strip() == str(folder)
    assert "upstream's extension modules" in done.stderr  # compiled, not found
    assert statement.predicate.verification_result == "PASSED"
    details = statement.predicate.details
    assert details.locked
    assert details.network == "open"
    assert details.program.commit == git(publisher.root, "rev-parse", "HEAD")
    assert details.program.tree == git(publisher.root, "rev-parse", "HEAD^{tree}")
    stages = {(one.annotations or {})["stage"] for one in details.pinned}
    assert {"source", "toolchain", "sysroot", "torch", "build-tools", "onednn"} <= stages
    assert not details.otherwise
    assert {path.name for path in folder.iterdir()} == {f"{publisher.wheel.name}{SUFFIX}", "report.html"}
    assert "The same bytes" in (folder / "report.html").read_text()
    assert "is not signed" in done.stderr
    assert not list((stranger.base / "cache/work").glob("rebuild-*"))


def works(*command: str) -> bool:
    return subprocess.run(command, check=False, capture_output=True).returncode == 0


def git(folder: Path, *arguments: str) -> str:
    return subprocess.run(
        ["git", "-C", str(folder), *arguments], check=True, capture_output=True, text=True
    ).stdout.strip()


def test_another_version_fetches_the_one_that_built_it_and_signs(
    publisher: Publisher, stranger: Stranger, tmp_path: Path
) -> None:
    """The publisher's checkout has gone on; the version that built the wheel is an earlier one."""
    newer = tmp_path / "newer"
    shutil.copytree(publisher.root, newer)
    (newer / "src/cpuwheels/more.py").write_text('"""More."""\n')
    commit_all(newer, "a newer version")
    other = Stranger(stranger.base, newer)
    own = make_key(tmp_path / "key")
    done = other.run("rebuild", publisher.wheel, "--key", tmp_path / "key", "--rebuilder", "https://r.example.org")
    assert done.returncode == 0, done.stderr
    folder, statement = other.found(publisher.wheel)
    assert statement.predicate.verifier.id == "https://r.example.org"
    assert statement.predicate.details.program.commit == git(publisher.root, "rev-parse", "HEAD")
    envelope = (folder / f"{publisher.wheel.name}{SIGNED_SUFFIX}").read_bytes()
    payload, key = verify_envelope(envelope, [public_key(own)], folder)
    assert payload == statement.render()
    assert f"signed by key {key}" in done.stderr


def test_a_difference_is_found_named_and_stated(publisher: Publisher, stranger: Stranger, copy: Path) -> None:
    """What a publisher slips into a wheel together with a statement that fits."""
    slip_in(copy, "vllm/__init__.py", b"import evil  # <script>\n")
    done = stranger.run("rebuild", copy)
    refused(done, NotReproducedError.exit_code, "was built again, and the bytes differ in")
    assert "vllm/__init__.py" in done.stderr
    assert "-import evil" in done.stderr
    folder, statement = stranger.found(copy)
    assert statement.predicate.verification_result == "FAILED"
    assert statement.predicate.details.rebuilt.digest == {"sha256": file_digest(publisher.wheel)}
    assert file_digest(folder / REBUILT / copy.name) == file_digest(publisher.wheel)
    found = Compared.model_validate_json((folder / DIFFERENCES).read_bytes())
    assert {one.member for one in found.differences if one.member} == {
        "vllm/__init__.py",
        next(name for name in names_of(copy) if name.endswith("/RECORD")),
    }
    page = (folder / "report.html").read_text()
    assert "Other bytes" in page
    assert "<script" not in page


def names_of(wheel: Path) -> list[str]:
    with zipfile.ZipFile(wheel) as archive:
        return archive.namelist()


def slip_in(wheel: Path, member: str, content: bytes) -> None:
    """Put a line into a file of a wheel, with everything that says what is in it."""
    with zipfile.ZipFile(wheel) as archive:
        members = {info: archive.read(info) for info in archive.infolist()}
    target = next(info for info in members if info.filename == member)
    old = members[target]
    members[target] = content + old
    record = next(info for info in members if info.filename.endswith("/RECORD"))
    row, new = (f"{member},{content_digest(each)},{len(each)}".encode() for each in (old, members[target]))
    assert row in members[record]
    members[record] = members[record].replace(row, new)
    before = file_digest(wheel)
    with zipfile.ZipFile(wheel, "w") as archive:
        for info, each in members.items():
            archive.writestr(info, each, info.compress_type, 9)
    statement = wheel.with_name(f"{wheel.name}{PROVENANCE}")
    statement.write_text(statement.read_text().replace(before, file_digest(wheel)))


def test_a_tampered_wheel_is_refused(stranger: Stranger, copy: Path) -> None:
    copy.write_bytes(copy.read_bytes() + b"\0")
    refused(stranger.run("rebuild", copy), ProvenanceError.exit_code, "the statement is refused: it is about")
    assert not stranger.results.exists()


def test_a_changed_note_is_refused(stranger: Stranger, copy: Path) -> None:
    with zipfile.ZipFile(copy) as archive:
        members = {info: archive.read(info) for info in archive.infolist()}
    before = file_digest(copy)
    with zipfile.ZipFile(copy, "w") as archive:
        for info, each in members.items():
            is_note = info.filename.endswith("cpuwheels.json")
            archive.writestr(info, each.replace(b'"target": "x86"', b'"target": "arm"') if is_note else each)
    statement = copy.with_name(f"{copy.name}{PROVENANCE}")
    statement.write_text(statement.read_text().replace(before, file_digest(copy)))
    refused(stranger.run("rebuild", copy), RebuildError.exit_code, "its statement has the target 'x86'")
    assert not stranger.results.exists()


def test_no_wheel_chooses_a_repository(publisher: Publisher, tmp_path: Path, copy: Path) -> None:
    """The commit is of a repository that the statement names and nobody trusts."""
    text = copy.with_name(f"{copy.name}{PROVENANCE}").read_text()
    commit = git(publisher.root, "rev-parse", "HEAD")
    evil = tmp_path / "evil"
    shutil.copytree(publisher.root, evil)
    (evil / "src/cpuwheels/__init__.py").write_text(f"open({str(tmp_path / 'run')!r}, 'w')\n")
    forged = commit_all(evil, "evil")
    changed = text.replace(commit, forged).replace("pkg:generic/cpuwheels", f"git+file://{evil}#")
    copy.with_name(f"{copy.name}{PROVENANCE}").write_text(changed)
    stranger = Stranger(tmp_path / "stranger", publisher.root)
    refused(stranger.run("rebuild", copy), RebuildError.exit_code, f"has commit {forged} of cpuwheels")
    for address in ("ext::touch run", "--upload-pack=touch run"):
        done = stranger.run("rebuild", copy, f"--cpuwheels-repo={address}")
        refused(done, RebuildError.exit_code, f"has commit {forged} of cpuwheels")
    # Even a repository that is trusted has to have the code that the statement names.
    done = stranger.run("rebuild", copy, "--cpuwheels-repo", evil)
    refused(done, RebuildError.exit_code, "built with code that commit")
    assert not list(tmp_path.rglob("run"))


@pytest.fixture
def without_inputs(publisher: Publisher) -> Iterator[None]:
    """The sdist and the clone of oneDNN are gone meanwhile."""
    aside = publisher.inputs.with_name("gone")
    publisher.inputs.rename(aside)
    yield
    aside.rename(publisher.inputs)


@pytest.mark.usefixtures("without_inputs")
def test_a_source_that_is_gone(publisher: Publisher, tmp_path: Path) -> None:
    stranger = Stranger(tmp_path / "stranger", publisher.root)  # with stores that are empty
    done = stranger.run("rebuild", publisher.wheel)
    refused(done, DownloadError.exit_code, "cannot fetch vllm 0.1.0 sdist")
    assert not stranger.results.exists()
    assert list((stranger.base / "dist/logs/rebuild").iterdir())


def test_a_rebuild_that_is_killed_leaves_nothing(publisher: Publisher, stranger: Stranger) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        process = subprocess.Popen(
            stranger.command("rebuild", publisher.wheel), stderr=subprocess.PIPE, text=True, start_new_session=True
        )
        assert process.stderr
        for line in process.stderr:
            if "kernels" in line:
                break
        time.sleep(1)
        process.send_signal(number)
        # Read to its end: what cannot print ends otherwise.
        process.communicate(timeout=60)
        assert process.returncode in {StoppedError.exit_code, -signal.SIGKILL}
        assert not stranger.results.exists()


@pytest.fixture(scope="module")
def mirror(publisher: Publisher, tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("keeper")
    keeper = Stranger(base, publisher.root)
    Store(publisher.cache).share(["downloads"], base / "cache")
    done = keeper.run("mirror", base / "mirror", publisher.wheel)
    assert done.returncode == 0, done.stderr
    return base / "mirror"


@pytest.mark.usefixtures("without_inputs")
def test_a_mirror_is_all_that_a_rebuild_needs(publisher: Publisher, mirror: Path, tmp_path: Path) -> None:
    moved = Path(shutil.copytree(mirror, tmp_path / "moved mirror", symlinks=True))
    stranger = Stranger(tmp_path / "stranger", publisher.root)
    kept = next((moved / "files").rglob(publisher.wheel.name))
    done = stranger.run("rebuild", kept, "--mirror", moved)
    assert done.returncode == 0, done.stderr
    _, statement = stranger.found(publisher.wheel)
    assert statement.predicate.details.network == "closed"
    assert statement.predicate.verification_result == "PASSED"


@pytest.mark.usefixtures("without_inputs")
def test_a_mirror_is_all_that_a_build_needs(publisher: Publisher, mirror: Path, tmp_path: Path) -> None:
    stranger = Stranger(tmp_path / "stranger", publisher.root)
    env = {"UV_CACHE_DIR": str(tmp_path / "uv")}
    done = stranger.run(
        "build", "x86", "--toolchain", "debian", "--locked", "--mirror", mirror, "--no-summary", env=env
    )
    assert done.returncode == 0, done.stderr
    assert file_digest(Path(done.stdout.strip())) == file_digest(publisher.wheel)


def test_a_mirror_is_made_once_and_mended(publisher: Publisher, mirror: Path, stranger: Stranger) -> None:
    before = {path: path.stat().st_mtime_ns for path in (mirror / "files").rglob("*.deb")}
    damaged = min(before)
    content = damaged.read_bytes()
    damaged.write_bytes(b"other")
    done = stranger.run("rebuild", publisher.wheel, "--mirror", mirror)
    refused(done, MirrorError.exit_code, f"the mirror is damaged: files/{damaged.parent.name}/{damaged.name}")
    assert not stranger.results.exists()
    assert stranger.run("mirror", mirror, publisher.wheel).returncode == 0
    assert damaged.read_bytes() == content
    del before[damaged]
    assert {path: path.stat().st_mtime_ns for path in before} == before
    manifest = json.loads((mirror / "manifest.json").read_text())
    assert [one["name"] for one in manifest["wheels"]] == [publisher.wheel.name]
    assert {one["kind"] for one in manifest["clones"]} == {"onednn", "cpuwheels"}
    assert f"`{publisher.wheel.name}`" in (mirror / "README.md").read_text()
