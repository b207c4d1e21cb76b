"""A rebuild from beginning to end, by a version of cpuwheels that builds nothing and says what it was told."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from cpuwheels.attestation.envelope import verify_envelope
from cpuwheels.attestation.keys import make_key, public_key
from cpuwheels.attestation.sign import Signing
from cpuwheels.config.downloads import Download
from cpuwheels.config.matrix import load_matrix
from cpuwheels.config.paths import Paths
from cpuwheels.core.console import Reporter
from cpuwheels.core.digests import file_digest, package_digest
from cpuwheels.core.errors import MirrorError, NotReproducedError, ProvenanceError, RebuildError
from cpuwheels.core.store import Store
from cpuwheels.fetch.download import Pinned, fetch, is_stored
from cpuwheels.pipeline.slsa import SUFFIX as PROVENANCE
from cpuwheels.pipeline.variation.machine import Machine
from cpuwheels.rebuild.build import BuildFailedError
from cpuwheels.rebuild.mirror.manifest import MANIFEST, Manifest, MirroredFile
from cpuwheels.rebuild.preparation import WheelChoice
from cpuwheels.rebuild.report import Result
from cpuwheels.rebuild.session import DIFFERENCES, REBUILT, RebuildOptions, rebuild, require_same
from cpuwheels.rebuild.statement import SIGNED_SUFFIX, SUFFIX, check_rebuild
from loopback import Answer, Server
from published_wheels import PINNED, published_wheel
from tiny_project import commit_all

PROGRAM = """\
import json, os, pathlib, shutil, sys, urllib.request
arguments = sys.argv[1:]
options = dict(zip(arguments, arguments[1:]))
given = pathlib.Path(os.environ["FAKE_WHEEL"])
folder = pathlib.Path(options["--dist"], "x86", "0.32.0")
folder.mkdir(parents=True)
logs = pathlib.Path(options["--dist"], "logs")
logs.mkdir(exist_ok=True)
(logs / "told.log").write_text("told")
try:
    reached = bool(urllib.request.urlopen(os.environ["FAKE_SERVER"], timeout=5).read())
except OSError:
    reached = False
told = {
    "arguments": arguments,
    "epoch": os.environ.get("SOURCE_DATE_EPOCH"),
    "index": os.environ.get("UV_DEFAULT_INDEX"),
    "here": os.getcwd(),
    "reached": reached,
    "downloads": sorted(each.name for each in pathlib.Path(options["--cache"], "downloads").glob("*")),
}
pathlib.Path(os.environ["FAKE_TOLD"]).write_text(json.dumps(told))
if status := int(os.environ.get("FAKE_STATUS", "0")):
    print("error: it failed", file=sys.stderr)
    sys.exit(status)
for path in given.parent.glob(f"{given.name}*"):
    shutil.copy(path, folder)
print(folder / given.name)
"""


class Scene:
    """A publisher's wheel, the version that built it, and somebody who rebuilds it.

    Attributes:
        wheel: The published wheel.
        options: How it is rebuilt.
    """

    def __init__(self, base: Path, project: Path, reporter: Reporter) -> None:
        self.base, self._reporter = base, reporter
        program = base / "program"
        (program / "src/cpuwheels").mkdir(parents=True)
        (program / "src/cpuwheels/__init__.py").touch()
        (program / "src/cpuwheels/__main__.py").write_text(PROGRAM)
        (program / "locks").mkdir()
        (program / "locks/run.txt").touch()
        (program / "matrix.yaml").write_text("a: 1\n")
        commit = commit_all(program, "a version")
        digest = package_digest(program / "src/cpuwheels")
        own = Download(stage="cpuwheels", name="cpuwheels", version="1.2", digest={"gitCommit": commit}, key=digest)
        matrix = {"sha256": file_digest(program / "matrix.yaml")}
        self.dependencies = (
            *(one for one in PINNED if one.stage != "cpuwheels"),
            own.model_copy(update={"uri": "pkg:generic/cpuwheels@1.2"}),
            Download(stage="cpuwheels", name="matrix.yaml", digest=matrix),
        )
        self.wheel = published_wheel(base / "published", dependencies=self.dependencies)
        self.paths = Paths(project, base / "cache", base / "dist")
        choice = WheelChoice(str(self.wheel), repositories=(str(program),))
        self.options = RebuildOptions(choice)
        self.commit = commit

    def run(self, options: RebuildOptions | None = None) -> tuple[Result, Path]:
        matrix = load_matrix(self.paths.matrix)
        return rebuild(self.paths, matrix, matrix.target("x86"), options or self.options, self._reporter)

    def told(self) -> dict[str, object]:
        found: dict[str, object] = json.loads((self.base / "told.json").read_text())
        return found

    def other_wheel(self) -> Path:
        """Return a wheel of the same name in which one file is another."""
        return published_wheel(self.base / "other", files={"vllm/__init__.py": "2\n"}, dependencies=self.dependencies)


@pytest.fixture
def scene(tmp_path: Path, project_root: Path, reporter: Reporter, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    found = Scene(tmp_path, project_root, reporter)
    with Server() as server:
        monkeypatch.setenv("FAKE_SERVER", server.serve("/here", Answer(b"1")))
        monkeypatch.setenv("FAKE_TOLD", str(tmp_path / "told.json"))
        monkeypatch.setenv("FAKE_WHEEL", str(found.wheel))
        monkeypatch.setenv("SOURCE_DATE_EPOCH", "99")
        yield found


def leftovers(base: Path) -> list[Path]:
    return [*(base / "cache/work").iterdir(), *(base / "dist").glob("rebuilds/*")]


def test_the_same_bytes(scene: Scene) -> None:
    result, folder = scene.run()
    require_same(result, folder)
    assert result.reproduced
    told = scene.told()
    arguments = told["arguments"]
    assert isinstance(arguments, list)
    assert arguments[-len(result_arguments(scene)) :] == result_arguments(scene)
    assert (told["epoch"], told["reached"]) == (None, True)
    content = (folder / f"{scene.wheel.name}{SUFFIX}").read_bytes()
    statement = check_rebuild(content, scene.wheel.name, file_digest(scene.wheel), folder)
    details = statement.predicate.details
    assert (details.program.commit, details.network, details.locked) == (scene.commit, "open", True)
    assert [one.name for one in details.pinned][:2] == ["vllm", "gcc"]
    (read,) = statement.predicate.input_attestations
    wanted = hashlib.sha256(scene.wheel.with_name(f"{scene.wheel.name}{PROVENANCE}").read_bytes()).hexdigest()
    assert read.digest == {"sha256": wanted}
    assert sorted(path.name for path in folder.iterdir()) == ["report.html", f"{scene.wheel.name}{SUFFIX}"]
    assert not list((scene.base / "cache/work").iterdir())
    assert sorted(path.name for path in (scene.base / "dist/rebuilds").iterdir()) == [folder.name]


def result_arguments(scene: Scene) -> list[str]:
    source = next(one for one in scene.dependencies if one.stage == "source")
    return [
        *("build", "x86", "--source", "0.32.0", "--toolchain", "debian", "--sha256", source.digest["sha256"]),
        *("--locked", "--compiler-cache", "off", "--sandbox-required", "--no-summary"),
    ]


def test_other_bytes_are_named_stated_and_kept(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    other = scene.other_wheel()
    monkeypatch.setenv("FAKE_WHEEL", str(other))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    result, folder = scene.run()
    with pytest.raises(NotReproducedError) as caught:
        require_same(result, folder)
    assert "vllm/__init__.py: 2 → 2 bytes" in caught.value.output
    assert "-1" in caught.value.output
    data = json.loads((folder / f"{scene.wheel.name}{SUFFIX}").read_text())["predicate"]
    assert data["verificationResult"] == "FAILED"
    assert data["cpuwheels_rebuild"]["rebuilt"]["digest"] == {"sha256": file_digest(other)}
    assert (folder / REBUILT / other.name).read_bytes() == other.read_bytes()
    names = [one["member"] for one in json.loads((folder / DIFFERENCES).read_text())["differences"]]
    assert names[:2] == ["vllm/__init__.py", "vllm-0.32.0+cpu.dist-info/RECORD"]
    # The next rebuild gives the same bytes, and nothing of this one is left.
    monkeypatch.setenv("FAKE_WHEEL", str(scene.wheel))
    assert scene.run()[1] == folder
    assert sorted(path.name for path in folder.iterdir()) == ["report.html", f"{scene.wheel.name}{SUFFIX}"]


def test_what_was_made_from_something_else_is_told(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    changed = [
        one.model_copy(update={"digest": {"sha256": "7" * 64}}) if one.name == "gcc" else one
        for one in scene.dependencies
    ]
    monkeypatch.setenv("FAKE_WHEEL", str(published_wheel(scene.base / "other", dependencies=changed)))
    result, _ = scene.run()
    wanted = f"toolchain gcc: sha256 {'9' * 64} → sha256 {'7' * 64}"
    assert result.statement.predicate.details.otherwise == (wanted,)


def test_a_statement_is_signed_with_a_key_that_is_looked_at_first(scene: Scene) -> None:
    own = make_key(scene.base / "key")
    signing = Signing(key=str(scene.base / "key"))
    result, folder = scene.run(replace(scene.options, signing=signing, rebuilder="https://r.example.org"))
    envelope = (folder / f"{scene.wheel.name}{SIGNED_SUFFIX}").read_bytes()
    payload, key = verify_envelope(envelope, [public_key(own)], folder)
    assert (payload, result.signed) == (result.statement.render(), key)
    assert result.statement.predicate.verifier.id == "https://r.example.org"
    (scene.base / "told.json").unlink()
    with pytest.raises(ProvenanceError):
        scene.run(replace(scene.options, signing=Signing(key=str(scene.base / "none"))))
    assert not (scene.base / "told.json").exists()


def test_a_build_that_fails_leaves_its_logs_and_nothing_else(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_STATUS", "15")
    with pytest.raises(BuildFailedError) as caught:
        scene.run()
    assert caught.value.status == 15
    assert leftovers(scene.base) == []
    (log,) = (scene.base / "dist/logs/rebuild").rglob("told.log")
    assert log.read_text() == "told"


def test_a_build_that_names_something_else_is_not_believed(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(scene.wheel.parent, scene.base / "gone")
    monkeypatch.setenv("FAKE_WHEEL", str(scene.base / "gone" / "none.whl"))
    with pytest.raises(RebuildError, match="the build names no wheel"):
        scene.run()
    assert leftovers(scene.base) == []


def test_what_was_fetched_is_used_and_given_back(scene: Scene) -> None:
    (scene.base / "a").write_bytes(b"a")
    digest = hashlib.sha256(b"a").hexdigest()
    store = Store(scene.paths.cache)
    fetch(Pinned("a", ((scene.base / "a").as_uri(),), digest), store)
    scene.run()
    assert scene.told()["downloads"] == [digest[:24]]
    assert is_stored(digest, store)


@pytest.mark.skipif(bool(Machine().networks), reason="no network namespaces here")
def test_with_a_mirror_the_network_is_closed(scene: Scene) -> None:
    mirror, content = scene.base / "mirror", b"of the mirror"
    one = MirroredFile(name="a.deb", sha256=hashlib.sha256(content).hexdigest(), size=len(content), stage="toolchain")
    (mirror / one.place).parent.mkdir(parents=True)
    (mirror / one.place).write_bytes(content)
    (mirror / MANIFEST).write_text(Manifest(files=(one,)).model_dump_json())
    before = dict(os.environ)
    result, _ = scene.run(replace(scene.options, mirror=mirror))
    told = scene.told()
    assert told["reached"] is False
    assert told["index"] == (mirror / "simple").as_uri()
    assert told["downloads"] == [one.sha256[:24]]
    assert result.statement.predicate.details.network == "closed"
    assert dict(os.environ) == before
    (mirror / one.place).write_bytes(b"damaged")
    with pytest.raises(MirrorError, match="the mirror is damaged"):
        scene.run(replace(scene.options, mirror=mirror))


def test_a_folder_of_ones_own_is_replaced_as_a_whole(scene: Scene) -> None:
    out = scene.base / "mine"
    out.mkdir()
    (out / "old").touch()
    _, folder = scene.run(replace(scene.options, out=out))
    assert folder == out
    assert sorted(path.name for path in out.iterdir()) == ["report.html", f"{scene.wheel.name}{SUFFIX}"]
