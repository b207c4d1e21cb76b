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
from cpuwheels.config.matrix import load_matrix
from cpuwheels.core.digests import file_digest
from cpuwheels.core.entry_links import link_entries
from cpuwheels.core.errors import (
    DownloadError,
    MirrorError,
    NotReproducedError,
    PostponedError,
    ProvenanceError,
    PublishError,
    RebuildError,
    StoppedError,
    UsageError,
)
from cpuwheels.index.agreement import agreement_words
from cpuwheels.index.bucket import Folder
from cpuwheels.index.layout import BUNDLE, SITES
from cpuwheels.index.publish_wheel import publish_wheel
from cpuwheels.index.rebuilders.collect import listed_wheels
from cpuwheels.index.sites import Sites
from cpuwheels.pipeline.slsa import SUFFIX as PROVENANCE
from cpuwheels.pipeline.variation.machine import FROM_COPY, LAUNCH, NOTHING
from cpuwheels.rebuild.members import Compared
from cpuwheels.rebuild.session import DIFFERENCES, REBUILT
from cpuwheels.rebuild.site.folder import open_site
from cpuwheels.rebuild.site.listing import LIST, Listing
from cpuwheels.rebuild.statement import SIGNED_SUFFIX, SUFFIX, RebuildStatement, check_rebuild
from cpuwheels.wheel.dist_info import content_digest
from layout import ROOT
from rebuilder_sites import MADE_UP, Rebuilder, quiet, rebuilders_file, serving
from tiny_farm import tiny_farm
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

    @property
    def index(self) -> Path:
        """An index that has the wheel."""
        return self.root.parent / "index"


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
    room = "\nnightly:\n  keep_free: 1G\n"
    (root / "matrix.yaml").write_text(text.replace("    alternates:", pin, 1) + room)
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
    publish_wheel(Folder(base / "index"), built, load_matrix(root / "matrix.yaml"), nightly=True)
    return Publisher(root, inputs, base / "published" / built.name, cache)


@pytest.fixture
def stranger(publisher: Publisher, tmp_path: Path) -> Stranger:
    """Somebody with the publisher's own checkout, and stores that hold nothing but downloads."""
    found = Stranger(tmp_path / "stranger", publisher.root)
    link_entries(publisher.cache, ["downloads"], found.base / "cache")
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
    link_entries(publisher.cache, ["downloads"], base / "cache")
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
def test_a_mirrors_own_words_are_enough(publisher: Publisher, mirror: Path, tmp_path: Path) -> None:
    """Its README is followed by somebody who has nothing else: no cpuwheels, no stores, no settings."""
    moved = Path(shutil.copytree(mirror, tmp_path / "mirror", symlinks=True))
    text = (moved / "README.md").read_text().partition("\n## Checking the files")[0]
    kept = next((moved / "files").rglob(publisher.wheel.name))
    commands = [line.strip() for line in text.splitlines() if line.startswith("    ")]
    assert [line.split()[0] for line in commands] == ["git", "cd", "python3", ".venv/bin/pip", "PYTHONPATH=src"]
    script = "\n".join(commands).replace("MIRROR/files/SHA256/WHEEL.whl", str(kept)).replace("MIRROR", str(moved))
    somebody = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(tmp_path), "LANG": "C.UTF-8"}
    done = subprocess.run(
        ["bash", "-e", "-c", script],
        cwd=tmp_path,
        env=somebody,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(next((tmp_path / "cpuwheels/dist/rebuilds").rglob(f"*{SUFFIX}")).read_text())
    assert found["predicate"]["verificationResult"] == "PASSED"


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


@dataclass(frozen=True)
class Rebuilders:
    """Two who rebuilt what is new in an index, each at another place with a key of its own, and one who builds nothing.

    Attributes:
        honest: The two.
        liar: The other.
        sites: The folder that has all their sites.
    """

    honest: tuple[Rebuilder, Rebuilder]
    liar: Rebuilder
    sites: Path

    @property
    def all(self) -> tuple[Rebuilder, ...]:
        return (*self.honest, self.liar)


def new_wheels(address: str, who: Rebuilder, *more: str | Path) -> list[str | Path]:
    name = f"https://{who.name}.example.org"
    given: list[str | Path] = ["rebuild", "--index", address, "--newest", "20", "--site", who.root]
    return [*given, "--key", who.key, "--rebuilder", name, *more]


@pytest.fixture(scope="module")
def rebuilders(publisher: Publisher, tmp_path_factory: pytest.TempPathFactory) -> Rebuilders:
    base = tmp_path_factory.mktemp("rebuilders")
    found = [Rebuilder(name, base / "sites" / name) for name in ("one", "two", "liar")]
    with serving(publisher.index) as address:
        for number, who in enumerate(found[:2]):
            stranger = Stranger(base / f"place {number}", publisher.root)
            link_entries(publisher.cache, ["downloads"], stranger.base / "cache")
            plan = NOTHING | {"user": 4321 + number, "group": 4321, "hostname": who.name}
            (base / f"{number}.json").write_text(json.dumps(plan))
            launch = base / f"{number}.json" if works("unshare", "--user", "--uts", "true") else None
            env = {"TZ": ("Pacific/Kiritimati", "America/Lima")[number]}
            done = stranger.run(*new_wheels(address, who), umask=(0o022, 0o077)[number], env=env, launch=launch)
            assert done.returncode == 0, done.stderr
            assert "upstream's extension modules" in done.stderr  # compiled, not found
            assert done.stdout.strip() == str(who.root)
            # Nothing is done twice.
            done = stranger.run(*new_wheels(address, who))
            assert done.returncode == 0, done.stderr
            assert "upstream's extension modules" not in done.stderr
            assert " there " in done.stderr
    return Rebuilders((found[0], found[1]), found[2], base / "sites")


def rebuilds(who: Rebuilder) -> Listing:
    return Listing.model_validate_json((who.root / LIST).read_bytes())


def test_what_is_new_is_rebuilt_signed_and_listed(publisher: Publisher, rebuilders: Rebuilders) -> None:
    for who in rebuilders.honest:
        (found,) = rebuilds(who).rebuilds
        sha256 = file_digest(publisher.wheel)
        assert (found.wheel, found.sha256, found.rebuilt) == (publisher.wheel.name, sha256, sha256)
        folder = who.root / found.folder
        names = {f"{found.wheel}{suffix}" for suffix in (SUFFIX, SIGNED_SUFFIX)}
        assert {path.name for path in folder.iterdir()} == {*names, "report.html"}
        payload, key = verify_envelope((folder / f"{found.wheel}{SIGNED_SUFFIX}").read_bytes(), who.known.keys, "")
        assert key == who.keyid
        statement = check_rebuild(payload, found.wheel, sha256, "")
        assert statement.predicate.verifier.id == f"https://{who.name}.example.org"
    first, second = (rebuilds(who).rebuilds[0].envelope for who in rebuilders.honest)
    assert first != second


@pytest.fixture
def index(publisher: Publisher, tmp_path: Path) -> Path:
    return Path(shutil.copytree(publisher.index, tmp_path / "index"))


def collect(stranger: Stranger, index: Path, rebuilders: Rebuilders, *, without: str = "") -> tuple[str, Path]:
    """Ask the rebuilders, one of which may not be there, and return what is printed and who was asked."""
    with serving(rebuilders.sites) as address:
        for who in rebuilders.all:
            who.url = "http://127.0.0.1:9" if who.name == without else f"{address}/{who.name}/site"
        file = rebuilders_file(stranger.base.parent / "rebuilders.yaml", *rebuilders.all)
        done = stranger.run("collect-rebuilds", "--index", index, "--rebuilders", file)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr, file


def words_of(index: Path) -> str:
    (published,) = listed_wheels(Folder(index)).values()
    assert published.rebuilds
    return agreement_words(published.rebuilds)


def test_two_agree_and_the_liar_is_named(
    publisher: Publisher, stranger: Stranger, rebuilders: Rebuilders, index: Path
) -> None:
    stranger.base.mkdir(exist_ok=True)
    (published,) = listed_wheels(Folder(index)).values()
    rebuilders.liar.state(published, MADE_UP)
    told, file = collect(stranger, index, rebuilders, without="two")
    assert "two: not reachable" in told
    assert words_of(index) == f"1 of 3 rebuilders agree; liar differs (sha256 {MADE_UP[:16]}…); not yet: two"
    told, _ = collect(stranger, index, rebuilders)
    words = f"2 of 3 rebuilders agree; liar differs (sha256 {MADE_UP[:16]}…)"
    assert f"{publisher.wheel.name}: {words}" in told
    page = (index / "nightly/index.html").read_text()
    assert words in page
    assert MADE_UP in page
    assert "2/3 rebuilt" in (index / "index.html").read_text()
    check = ("check-index", "--index", index, "--rebuilders", file)
    done = stranger.run(*check, "--require-rebuilders", "2")
    assert done.returncode == 0, done.stderr
    assert words in done.stdout
    assert "nothing is wrong" in done.stdout
    refused(stranger.run(*check, "--require-rebuilders", "3"), PublishError.exit_code, "3 have to agree")
    # A statement in the index that is tampered with, with pages that fit, and one that is taken out.
    (bundle,) = index.glob(f"files/*/*{BUNDLE}")
    content = bundle.read_bytes()
    for other in (content.replace(b'"sig":"', b'"sig":"00', 1), b"".join(content.splitlines(keepends=True)[1:])):
        bundle.write_bytes(other)
        refused(stranger.run(*check), PublishError.exit_code, "has other bytes than its pages say")
        collect(stranger, index, rebuilders)
        assert bundle.read_bytes() == content
    # The sites are gone: what was taken stays.
    empty = Rebuilders(rebuilders.honest, rebuilders.liar, stranger.base / "nothing")
    told, file = collect(stranger, index, empty)
    assert told.count("not reachable: HTTP status 404") == 3
    assert words_of(index) == words
    assert stranger.run(*check).returncode == 0
    sites = Sites.model_validate_json((index / SITES).read_bytes()).sites
    assert [(one.fault, bool(one.reached)) for one in sites] == [("HTTP status 404", True)] * 3


def test_a_liar_who_builds_nothing_gains_nothing(
    stranger: Stranger, rebuilders: Rebuilders, index: Path, tmp_path: Path
) -> None:
    """PASSED of other bytes listed as if of these, the statement of another, and one that was changed."""
    stranger.base.mkdir(exist_ok=True)
    (published,) = listed_wheels(Folder(index)).values()
    older = published.model_copy(update={"sha256": MADE_UP})
    one, two = rebuilders.honest
    for case in ("older bytes", "another's", "changed"):
        liar = Rebuilder("liar", tmp_path / case / "liar")
        for who in (one, two):
            shutil.copytree(who.root, tmp_path / case / who.name / "site")
        if case == "older bytes":
            liar.state(older)
            path = liar.root / LIST
            path.write_text(path.read_text().replace(f'"sha256": "{MADE_UP}"', f'"sha256": "{published.sha256}"'))
            why = "it is about"
        elif case == "another's":
            shutil.copytree(one.root, liar.root)
            why = "the signature does not verify"
        else:
            liar.state(published, MADE_UP)
            for path in liar.root.rglob(f"*{SIGNED_SUFFIX}"):
                data = json.loads(path.read_text())
                honest = next(one.root.rglob(f"*{SIGNED_SUFFIX}"))
                path.write_text(json.dumps(data | {"payload": json.loads(honest.read_text())["payload"]}) + "\n")
            with open_site(liar.root, quiet()):
                pass  # listed with the digest that it has now
            why = "the signature does not verify"
        told, file = collect(stranger, index, Rebuilders((one, two), liar, tmp_path / case))
        assert words_of(index) == "2 of 3 rebuilders agree; not yet: liar", case
        assert "liar: does not count" in told
        assert why in " ".join(told.split())
        done = stranger.run("check-index", "--index", index, "--rebuilders", file)
        assert done.returncode == 0, done.stderr


def test_who_differs_says_so_and_goes_on(publisher: Publisher, stranger: Stranger, copy: Path, tmp_path: Path) -> None:
    """An index with a wheel that has more in it than its source gives, and one that cannot be rebuilt."""
    slip_in(copy, "vllm/__init__.py", b"import evil\n")
    index = Path(shutil.copytree(publisher.index, tmp_path / "index"))
    (published,) = listed_wheels(Folder(index)).values()
    folder = index / "files" / published.sha256[:16]
    for name in (copy.name, f"{copy.name}{PROVENANCE}"):
        shutil.copyfile(copy.with_name(name), folder / name)
    text = (index / "commits.json").read_text().replace(published.sha256, file_digest(copy))
    data = json.loads(text)
    bad = json.loads(text.replace(file_digest(copy), "6" * 64))["newest"][0]
    bad["made"] = "2999-01-01T00:00:00Z"
    data["newest"].insert(0, bad)
    (index / "commits.json").write_text(json.dumps(data))
    who = Rebuilder("one", tmp_path / "one")
    with serving(index) as address:
        done = stranger.run(*new_wheels(address, who))
        refused(done, NotReproducedError.exit_code, "1 wheel came out with other bytes")
        (found,) = rebuilds(who).rebuilds
        assert (found.result, found.rebuilt) == ("differs", file_digest(publisher.wheel))
        (failed,) = rebuilds(who).failed
        assert (failed.sha256, failed.attempts) == ("6" * 64, 1)
        assert (who.root / found.folder / "report.html").is_file()
        assert (who.root / found.folder / REBUILT / copy.name).is_file()
        with open_site(who.root, quiet()):
            done = stranger.run(*new_wheels(address, who))
            refused(done, PostponedError.exit_code, "another run rebuilds into this folder")


def test_a_farm_rebuilds_what_is_new(publisher: Publisher, stranger: Stranger, tmp_path: Path) -> None:
    who = Rebuilder("three", tmp_path / "site")
    (tmp_path / "farm").mkdir()
    with serving(publisher.index) as address, tiny_farm(stranger, tmp_path / "farm", workers=1) as (farm, keys, places):
        # The workers run the installed cpuwheels, which trusts the publisher's checkout only if it is told to.
        trusted = ("--cpuwheels-repo", publisher.root)
        given = new_wheels(address, who, "--farm", farm, "--farm-keys", keys, *trusted)
        done = stranger.run(*given)
        assert done.returncode == 0, done.stderr
        assert "rebuilt by worker-1" in done.stderr
        assert not list(places.glob("*/work/*/rebuilt")), "what was carried home is not kept"
        done = stranger.run(*given)
        assert done.returncode == 0, done.stderr
        assert " there " in done.stderr
        refused(stranger.run(*given, "--trusted-key", who.key), UsageError.exit_code, "do not have the files")
    (found,) = rebuilds(who).rebuilds
    assert (found.result, found.sha256) == ("reproduced", file_digest(publisher.wheel))
    folder = who.root / found.folder
    statement = (folder / f"{publisher.wheel.name}{SUFFIX}").read_bytes()
    summary = check_rebuild(statement, publisher.wheel.name, found.sha256, folder).predicate
    assert summary.verifier.id == "https://three.example.org"
    envelope = folder / f"{publisher.wheel.name}{SIGNED_SUFFIX}"
    assert verify_envelope(envelope.read_bytes(), [public_key(who.base / "key.pub")], envelope)[0] == statement
    assert (folder / "report.html").is_file()
