"""The right commit: what a clone, a server or a killed fetch has of it is not believed."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
import zlib
from typing import TYPE_CHECKING

import pytest

from cpuwheels.core.errors import OneDnnError, SourceError
from cpuwheels.fetch.git_archive import GitSource, get_commit
from cpuwheels.source.worktree import TreeRequest
from hostile_git import commit_of_tree, raw_object
from sample_source import commit, git

if TYPE_CHECKING:
    import io
    from pathlib import Path

    from cpuwheels.core.console import Reporter
    from cpuwheels.core.store import Store
    from hostile_git import Get


def forge(clone: Path, name: str, kind: str, content: bytes) -> None:
    """Write an object under the name of another one."""
    path = clone / ".git" / "objects" / name[:2] / name[2:]
    path.unlink()
    path.write_bytes(zlib.compress(f"{kind} {len(content)}\0".encode() + content))


@pytest.mark.parametrize(
    "part",
    [
        pytest.param("blob", id="48-forged-file"),
        pytest.param("tree", id="49-forged-folder"),
        pytest.param("commit", id="50-forged-commit"),
    ],
)
def test_a_clone_with_other_content_under_a_name(
    part: str, get: Get, clone: Path, tmp_path: Path, store: Store
) -> None:
    wanted = git(clone, "rev-parse", "main")
    git(tmp_path, "clone", "--quiet", str(clone), "good")
    evil = raw_object(clone, "blob", b"evil\n")
    other = commit_of_tree(clone, [("100644", "setup.py", evil)])
    if part == "blob":
        forge(clone, git(clone, "rev-parse", "main:setup.py"), "blob", b"evil\n")
    else:
        place = {"tree": "^{tree}", "commit": ""}[part]
        command = ["git", "-C", clone, "cat-file", part, f"{other}{place}"]
        content = subprocess.run(command, check=True, capture_output=True).stdout
        forge(clone, git(clone, "rev-parse", f"main{place}"), part, content)
    # git itself notices some of it, depending on its version.
    words = "do not have the content that they are named after"
    with pytest.raises(SourceError, match=words if part == "blob" else f"{words}|cannot check out|there is no commit"):
        get(wanted, clone)
    assert not list((store.root / "sources").glob("*"))
    assert (get(wanted, tmp_path / "good").folder / "setup.py").read_text() == "two\n"
    if part == "blob":
        get(wanted, clone)  # its files are those of the good clone, which are there
    assert len(list((store.root / "sources").glob("[!.]*"))) == 1


def test_51_a_replaced_commit(get: Get, clone: Path, store: Store, reporter: Reporter) -> None:
    wanted = git(clone, "rev-parse", "main")
    evil = raw_object(clone, "blob", b"evil\n")
    git(clone, "replace", wanted, commit_of_tree(clone, [("100644", "setup.py", evil)]))
    assert (get(wanted, clone).folder / "setup.py").read_text() == "two\n"
    assert (get("main", None, clone).folder / "setup.py").read_text() == "two\n"
    assert TreeRequest(clone).get(store, reporter).commit == wanted


def test_52_a_graft(get: Get, clone: Path) -> None:
    wanted = git(clone, "rev-parse", "main")
    (clone / ".git" / "info" / "grafts").write_text(f"{wanted}\n")
    assert get(wanted, clone).version.startswith("0.32.1.dev1+g")


def test_53_a_forged_commit_graph(get: Get, clone: Path) -> None:
    wanted = git(clone, "rev-parse", "main")
    git(clone, "commit-graph", "write", "--reachable")
    (graph,) = (clone / ".git" / "objects" / "info").glob("commit-graph")
    evil = git(clone, "rev-parse", "v0.32.0^{tree}")
    content = graph.read_bytes()
    tree = bytes.fromhex(git(clone, "rev-parse", "main^{tree}"))
    assert tree in content
    graph.chmod(0o644)
    graph.write_bytes(content.replace(tree, bytes.fromhex(evil)))
    assert (get(wanted, clone).folder / "setup.py").read_text() == "two\n"


def test_54_a_damaged_object(get: Get, clone: Path) -> None:
    name = git(clone, "rev-parse", "main:setup.py")
    path = clone / ".git" / "objects" / name[:2] / name[2:]
    path.chmod(0o644)
    path.write_bytes(path.read_bytes()[:-4])
    with pytest.raises(SourceError):
        get("main", clone)
    assert (get("v0.32.0", clone).folder / "setup.py").read_text() == ""


def test_55_a_server_that_sends_other_content(
    clone: Path, store: Store, reporter: Reporter, logs: Path, tmp_path: Path
) -> None:
    wanted = git(clone, "rev-parse", "main")
    git(tmp_path, "clone", "--quiet", str(clone), "good")
    forge(clone, git(clone, "rev-parse", "main:setup.py"), "blob", b"evil\n")
    bad, good = str(clone), str(tmp_path / "good")
    with pytest.raises(OneDnnError, match="cannot be fetched"):
        get_commit(_thing(bad), wanted, store=store, reporter=reporter, logs=logs)
    folder = get_commit(_thing(bad, good), wanted, store=store, reporter=reporter, logs=logs)
    assert (folder / "setup.py").read_text() == "two\n"


def test_56_a_commit_of_a_fork_is_announced(get: Get, clone: Path, story: io.StringIO) -> None:
    main = git(clone, "rev-parse", "main")
    (clone / "setup.py").write_text("of a fork\n")
    wanted = commit(clone)
    git(clone, "update-ref", "refs/pull/1/head", wanted)
    git(clone, "reset", "--quiet", "--hard", main)
    assert get(main, None, clone).commit == main
    assert "NOTE" not in story.getvalue()
    assert get(wanted, None, clone).commit == wanted
    assert f"commit {wanted} is on no branch and below no tag of {clone}" in story.getvalue()


def test_57_an_alternate_store_of_objects(get: Get, clone: Path, tmp_path: Path) -> None:
    wanted = git(clone, "rev-parse", "main")
    git(tmp_path, "clone", "--quiet", "--shared", "--bare", str(clone), "shared")
    assert (get(wanted, tmp_path / "shared").folder / "setup.py").read_text() == "two\n"
    forge(clone, git(clone, "rev-parse", "v0.32.0:setup.py"), "blob", b"evil\n")
    with pytest.raises(SourceError, match="do not have the content"):
        get("v0.32.0", tmp_path / "shared")


def test_58_locks_that_a_killed_git_left(get: Get, clone: Path, store: Store, reporter: Reporter, logs: Path) -> None:
    thing, first = _thing(str(clone)), git(clone, "rev-parse", "v0.32.0")
    get("main", None, clone)
    get_commit(thing, first, store=store, reporter=reporter, logs=logs)
    (clone / "setup.py").write_text("three\n")
    wanted = commit(clone)
    for own in (store.root / "git").iterdir():
        (own / "refs" / "remotes" / "origin").mkdir(parents=True, exist_ok=True)
        for name in ("config", "shallow", "packed-refs", "HEAD", "refs/remotes/origin/main"):
            (own / f"{name}.lock").touch()
        (own / "objects" / "pack" / "tmp_pack_x").write_bytes(b"PACK")
    assert get("main", None, clone).commit == wanted
    folder = get_commit(thing, wanted, store=store, reporter=reporter, logs=logs)
    assert (folder / "setup.py").read_text() == "three\n"
    assert not list((store.root / "git").rglob("*.lock"))


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param({"HEAD": ""}, id="59-empty-head"),
        pytest.param({"config": "[core\n"}, id="60-damaged-configuration"),
    ],
)
def test_a_clone_of_the_store_after_a_power_cut(
    damage: dict[str, str], get: Get, clone: Path, store: Store, reporter: Reporter, logs: Path
) -> None:
    thing, first = _thing(str(clone)), git(clone, "rev-parse", "v0.32.0")
    get("main", None, clone)
    get_commit(thing, first, store=store, reporter=reporter, logs=logs)
    (clone / "setup.py").write_text("three\n")
    wanted = commit(clone)
    for own in (store.root / "git").iterdir():
        for name, text in damage.items():
            (own / name).write_text(text)
    assert get("main", None, clone).commit == wanted
    assert get_commit(thing, wanted, store=store, reporter=reporter, logs=logs).is_dir()


def test_61_a_damaged_pack_of_the_store(clone: Path, store: Store, reporter: Reporter, logs: Path) -> None:
    thing, wanted = _thing(str(clone)), git(clone, "rev-parse", "main")
    folder = get_commit(thing, wanted, store=store, reporter=reporter, logs=logs)
    for path in (store.root / "git" / "thing" / "objects").rglob("*"):
        if path.is_file() and not path.name.endswith(".idx"):
            path.chmod(0o644)
            path.write_bytes(path.read_bytes()[:20])
    store.discard("thing", folder.name)
    again = get_commit(thing, wanted, store=store, reporter=reporter, logs=logs)
    assert (again / "setup.py").read_text() == "two\n"


def test_62_a_fetch_that_is_killed(get: Get, clone: Path, store: Store) -> None:
    """Kill the whole process group of a fetch at several moments; the next one has everything."""
    code = (
        "import sys\nfrom pathlib import Path\nfrom cpuwheels.core.console import Reporter\n"
        "from cpuwheels.core.store import Store\nfrom cpuwheels.source.commit import CommitRequest\n"
        "print('ready', flush=True)\n"
        "CommitRequest('main', None, (sys.argv[1],)).get(Store(Path(sys.argv[2])), Reporter('x'))\n"
    )
    for delay in (0.02, 0.1, 0.3):
        command = [sys.executable, "-c", code, str(clone), str(store.root)]
        child = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True
        )
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        time.sleep(delay)
        child.send_signal(signal.SIGKILL)
        child.wait()
        child.stdout.close()
    assert (get("main", None, clone).folder / "setup.py").read_text() == "two\n"


def _thing(*repositories: str) -> GitSource:
    return GitSource("Thing", "thing", "v0.32.0", repositories, "VARIABLE", OneDnnError)
