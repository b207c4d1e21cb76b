"""A precompiled header stays in the compiler cache until a compiler reads it."""

from __future__ import annotations

import json
import os
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from cpuwheels.kernels.ccache.resources import headers
from cpuwheels.kernels.ccache.settings import SCRIPTS

CACHE = """\
import os, sys
from pathlib import Path

log = Path({log!r})
with log.open("a") as stream:
    stream.write(f"made {{sorted(name for name in os.environ if name in {theirs!r})}}\\n")
if "fails" in sys.argv:
    sys.exit(3)
assert not Path("pch.hxx.gch").exists(), "ccache would take it for what the command reads"
assert Path("../vllm/own $header.h").exists()
assert Path(sys.argv[sys.argv.index("-I") + 1]).samefile("../vllm")
Path(sys.argv[sys.argv.index("-MF") + 1]).write_text({dependencies!r})
Path(sys.argv[sys.argv.index("-o") + 1]).write_text("a large header")
if note := os.environ.get("CCACHE_STATSLOG"):
    Path(note).write_text("# header\\n{outcome}\\n")
"""
"""Stands for the compiler cache."""

THEIRS = ("CCACHE_DISABLE", "CCACHE_PREFIX", "CCACHE_STATSLOG")


@dataclass
class Build:
    """Folders of builds with one compiler cache.

    Attributes:
        root: Above all of them.
        name: Of the folder of the build that is meant.
    """

    root: Path
    name: str = "one"

    @property
    def folder(self) -> Path:
        return self.root / "work" / self.name / "build"

    @property
    def header(self) -> Path:
        return self.folder / "pch.hxx.gch"

    @property
    def records(self) -> list[Path]:
        return sorted((self.root / "cache" / "headers").glob("*"))

    @property
    def made(self) -> int:
        """How many times the command ran."""
        log = self.root / "log"
        return log.read_text().count("made") if log.exists() else 0

    @property
    def note(self) -> str:
        return (self.root / "note").read_text()

    def environment(self, identity: str) -> dict[str, str]:
        return {
            **os.environ,
            "CCACHE_DIR": str(self.root / "cache"),
            "CCACHE_BASEDIR": str(self.root),
            "CCACHE_COMPILERCHECK": f"string:{identity}",
            "CCACHE_STATSLOG": str(self.root / "note"),
            "CCACHE_PREFIX": "need-header",
            "CCACHE_DISABLE": "1",
        }

    def command(self, *words: str) -> list[str]:
        inside = ["-I", f"{self.folder}/../vllm"]
        named = ["-MD", "-MT", "pch.hxx.gch", "-MF", "pch.hxx.gch.d", "-o", "pch.hxx.gch"]
        return ["python3", str(self.root / "cache.py"), *inside, "-x", "c++-header", *named, *words]

    def run(self, script: str, *words: str, identity: str = "gcc") -> int:
        (self.root / "note").unlink(missing_ok=True)
        return subprocess.call([SCRIPTS / script, *words], cwd=self.folder, env=self.environment(identity))

    def defer(self, *words: str, identity: str = "gcc") -> int:
        return self.run("defer-header", *self.command(*words), identity=identity)

    def another(self, name: str) -> Build:
        """Return another folder, with the same files."""
        (self.root / "work" / name / "vllm").mkdir(parents=True)
        (self.root / "work" / name / "build").mkdir()
        (self.root / "work" / name / "vllm" / "own $header.h").write_text("1")
        return Build(self.root, name)


@pytest.fixture
def build(tmp_path: Path) -> Build:
    root = tmp_path / "a root"
    root.mkdir()
    write_cache(root)
    (root / "torch.h").write_text("torch")
    (root / "cache").mkdir()
    return Build(root).another("one")


def write_cache(root: Path, outcome: str = "cache_miss", dependencies: str | None = None) -> None:
    """Write the cache's command as if it had that outcome."""
    torch = str(root / "torch.h").replace(" ", "\\ ")
    found = dependencies or f"pch.hxx.gch: {torch} \\\n  ../vllm/own\\ $$header.h\n"
    text = CACHE.format(log=str(root / "log"), dependencies=found, outcome=outcome, theirs=THEIRS)
    (root / "cache.py").write_text(text)


def test_a_header_that_was_made_stays_in_the_cache(build: Build) -> None:
    assert build.defer() == 0
    assert (build.made, build.header.read_text(), "cache_miss" in build.note) == (1, "a large header", True)
    later = build.another("two")
    assert later.defer() == 0
    assert (later.made, later.header.read_text(), later.note) == (1, "", "direct_cache_hit\n")
    for suffix in (".sum", ".d"):
        assert Path(f"{later.header}{suffix}").read_bytes() == Path(f"{build.header}{suffix}").read_bytes()
    assert {path.name for path in later.folder.iterdir()} == {
        "pch.hxx.gch",
        "pch.hxx.gch.d",
        "pch.hxx.gch.sum",
        "pch.hxx.gch.deferred",
    }


def test_a_compiler_that_reads_it_gets_it(build: Build) -> None:
    build.defer()
    later = build.another("two")
    later.defer()
    os.utime(f"{later.header}.sum", (100, 100))
    (later.folder / "pch.hxx").write_text("")
    with ThreadPoolExecutor() as pool:
        done = list(pool.map(lambda _: later.run("need-header", "cat", "pch.hxx"), range(3)))
    assert done == [0, 0, 0]
    first, second = (build.root / "log").read_text().splitlines()
    assert (first, second) == (f"made {list(THEIRS)}", "made []"), "what comes of it is not what comes of the reader"
    assert (later.made, later.header.read_text()) == (2, "a large header"), "one of them takes it out, for all"
    assert later.header.stat().st_mtime == 100, "ccache would store nothing that was made from a younger file"
    assert not Path(f"{later.header}.deferred").exists()
    assert {path.name for path in later.folder.parent.iterdir()} == {"build", "vllm"}


def test_a_compiler_that_was_given_its_whole_path_gets_it(build: Build) -> None:
    """ccache does that with a command that it does not take."""
    build.defer()
    later = build.another("two")
    later.defer()
    assert later.run("need-header", "true", str(later.header.with_suffix(""))) == 0
    assert later.header.read_text() == "a large header"


def test_a_compiler_does_not_go_on_without_it(build: Build) -> None:
    build.defer()
    later = build.another("two")
    later.defer()
    (build.root / "cache.py").write_text("import sys; sys.exit(7)")
    assert later.run("need-header", "touch", "ran", "pch.hxx") == 7
    assert not (later.folder / "ran").exists()
    assert later.header.read_text() == ""
    assert Path(f"{later.header}.deferred").exists(), "the next one tries again"


@pytest.mark.parametrize("changed", ["torch.h", "work/two/vllm/own $header.h"])
def test_a_changed_file_has_it_made(build: Build, changed: str) -> None:
    build.defer()
    later = build.another("two")
    path = build.root / changed
    path.write_text("x" * path.stat().st_size)
    assert later.defer() == 0
    assert (later.made, later.header.read_text()) == (2, "a large header")
    path.unlink()
    assert build.another("three").defer() == 0
    assert build.made == 3


@pytest.mark.parametrize(("words", "identity"), [(["-DMORE"], "gcc"), ([], "another gcc")])
def test_another_command_has_it_made(build: Build, words: list[str], identity: str) -> None:
    build.defer()
    build.another("two").defer(*words, identity=identity)
    assert build.made == 2
    build.another("three").defer(*words, identity=identity)
    assert build.made == 2


def test_made_again_after_it_was_deferred(build: Build) -> None:
    build.defer()
    later = build.another("two")
    later.defer()
    (build.root / "torch.h").write_text("other")
    later.defer()
    assert (later.made, later.header.read_text()) == (2, "a large header")
    later.run("need-header", "true", "pch.hxx")
    assert later.made == 2


@pytest.mark.parametrize("outcome", ["", "internal_error", "could_not_use_precompiled_header"])
def test_what_the_cache_did_not_store_is_made_again(build: Build, outcome: str) -> None:
    write_cache(build.root, outcome=outcome)
    build.defer()
    assert not build.records
    build.another("two").defer()
    assert build.made == 2


def test_dependencies_that_name_the_folder_are_of_no_use_to_another(build: Build) -> None:
    (build.folder / "x.h").write_text("")
    write_cache(build.root, dependencies=f"pch.hxx.gch: {build.folder}/x.h\n".replace("a root", "a\\ root"))
    build.defer()
    assert not build.records


def test_a_failed_command_leaves_nothing(build: Build) -> None:
    assert build.defer("fails") == 3
    assert list(build.folder.iterdir()) == []
    assert not build.records


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"files": ""}'])
def test_a_record_that_is_none(build: Build, text: str) -> None:
    build.defer()
    (record,) = build.records
    record.write_text(text)
    assert build.another("two").defer() == 0
    assert build.made == 2
    assert json.loads(record.read_text()).keys() == {"dependencies", "files", "content"}


def test_records_of_long_ago_are_removed(build: Build) -> None:
    folder = build.root / "cache" / "headers"
    folder.mkdir()
    for number in range(headers.KEPT + 3):
        (folder / f"{number}.json").write_text("{}")
        os.utime(folder / f"{number}.json", (number, number))
    build.defer()
    assert len(build.records) == headers.KEPT
    assert not (folder / "3.json").exists()
    (fresh,) = (path for path in build.records if len(path.stem) > 10)
    os.utime(fresh, (0, 0))
    build.another("two").defer()
    assert time.time() - fresh.stat().st_mtime < 60, "one that is used stays"


@pytest.mark.parametrize("command", [["cp", "a", "b"], ["cp", "a", "b", "c++-header"], ["cp", "-o", "b", "c++-header"]])
def test_other_commands_run_as_they_are(build: Build, command: list[str]) -> None:
    (build.folder / "a").write_text("a")
    expected = subprocess.call(command, cwd=build.folder)
    (build.folder / "b").unlink(missing_ok=True)
    assert build.run("defer-header", *command) == expected
    assert (build.folder / "b").exists() is (expected == 0)
    assert build.run("need-header", "cp", "a", "d") == 0
    assert (build.folder / "d").exists()


@pytest.mark.parametrize("script", ["defer-header", "need-header"])
def test_the_scripts_can_be_run(script: str) -> None:
    assert os.access(SCRIPTS / script, os.X_OK)
