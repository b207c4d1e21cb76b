"""A nightly job on the stand-in: built, tried, published; faults; the second run."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import tomllib
from pathlib import Path
from typing import Any

import pytest

from cpuwheels.core.digests import file_digest
from hostile_commit import PLACES, PLANTED, SECRET, make_hostile
from nightly_projects import Nightly, add_commit, nightly_project
from raw_server import noting_server
from tiny_project import Tiny, commit_all, forget, pin_torch

pytestmark = pytest.mark.slow

MADE = ("kernels", "reads", "packages", "prepared", "sources", "compiler-cache", "measured", "setup-reads")
STORES = ("kernels", "from-commits", "setup-reads", "packages", "sources", "prepared", "environments", "toolchains")


@pytest.fixture
def nightly(tiny: Tiny, tiny_wheel: Path, tmp_path: Path) -> Nightly:
    assert tiny_wheel  # the kernels of most commits
    return nightly_project(tiny, tmp_path)


def test_new_commits_are_published_once_and_wrong_ones_are_kept_aside(nightly: Nightly, tmp_path: Path) -> None:
    text = (nightly.clone / "csrc" / "cpu" / "ops.cpp").read_text()
    one = add_commit(nightly, "one")
    step = tmp_path / "step.md"
    code, summary, said = nightly.run(env={"GITHUB_STEP_SUMMARY": str(step)})
    assert code == 0, said
    assert [(each["source"], each["state"]) for each in summary["outcomes"]] == [(one, "published")]
    assert "1 published" in step.read_text()
    assert (nightly.index / one / "cpu" / "vllm" / "index.html").is_file()
    latest = json.loads((nightly.index / "latest" / "x86.json").read_text())
    assert (latest["commit"], latest["parity"]) == (one, "passed in part")
    assert [gap.partition(" has no case")[0] for gap in latest["gaps"]] == ["_C: numa_nodes", "_C: count_words"]

    before = {path: path.read_bytes() for path in nightly.index.rglob("*") if path.is_file()}
    code, summary, said = nightly.run()
    assert code == 0, said
    assert [each["state"] for each in summary["outcomes"]] == ["there"]
    assert {path: path.read_bytes() for path in nightly.index.rglob("*") if path.is_file()} == before

    broken = add_commit(nightly, "broken", f"#error broken\n{text}")
    wrong = add_commit(nightly, "wrong", text.replace("static_cast<float>(factor)", "static_cast<float>(factor) * 2"))
    fixed = add_commit(nightly, "fixed", f"{text}// fixed\n")
    code, summary, said = nightly.run("--since", one)
    assert code == 42, said
    assert [(each["source"], each["state"]) for each in summary["outcomes"]] == [
        (fixed, "published"),
        (wrong, "wrong"),
        (broken, "failed"),
    ]
    kept = {each["state"]: Path(each["kept"]) for each in summary["outcomes"] if each["kept"]}
    assert "scale" in (kept["wrong"] / "why.txt").read_text()
    assert list(kept["wrong"].rglob("parity.html"))
    why = (kept["failed"] / "why.txt").read_text()
    assert "ops.cpp.o could not be made" in why
    assert "#error broken" in why
    assert not (nightly.index / wrong).exists()
    before_it, latest = latest, json.loads((nightly.index / "latest" / "x86.json").read_text())
    assert (latest["commit"], latest["speed"]["against"]) == (fixed, before_it["filename"])
    assert 0.1 < latest["speed"]["ratio"] < 10  # other bytes, the same work
    page = (nightly.index / "index.html").read_text()
    assert "wrong results" in page
    assert "not built" in page
    done = nightly.tiny.run("check-index", "--index", nightly.index)
    assert done.returncode == 0, done.stderr


def test_one_wheel_is_built_a_second_time(nightly: Nightly) -> None:
    with (nightly.tiny.root / "matrix.yaml").open("a") as matrix:
        matrix.write("  verify: [umask, file-order]\n")  # of the nightly job, which comes last there
    one = add_commit(nightly, "one")
    code, summary, said = nightly.run()
    assert code == 0, said
    second = summary["second_build"]
    assert (second["source"], second["target"], second["state"]) == (one, "x86", "reproduced"), said
    latest = json.loads((nightly.index / "latest" / "x86.json").read_text())
    assert latest["reproduced"]["state"] == "reproduced"
    assert set(latest["reproduced"]["varied"]) >= {"umask", "file-order"}
    assert "the same bytes" in (nightly.index / one / "index.html").read_text()
    done = nightly.tiny.run("check-index", "--index", nightly.index)
    assert done.returncode == 0, done.stderr
    assert list((nightly.tiny.dist / "nightly").glob("x86-*")) == []


def test_a_locked_wheel_is_locked_after_its_build_and_published_with_the_lock(nightly: Nightly) -> None:
    sha256 = pin_torch(nightly.tiny.root)
    newest = add_commit(nightly, "one")
    code, summary, said = nightly.run("--locked", "--build")
    assert code == 0, said
    assert [each["state"] for each in summary["outcomes"]] == ["built"]
    ready = nightly.tiny.dist / "nightly" / "ready" / f"x86-{newest}"
    record = json.loads((ready / "record.json").read_text())
    assert record["parameters"]["locked"] is True
    assert [note for note in record["notes"] if "pylock" in note] == []
    assert (ready / "pylock.toml").is_file(), said
    code, summary, said = nightly.run("--locked", "--publish", "--address", "https://wheels.example.org")
    assert code == 0, said
    latest = json.loads((nightly.index / "latest" / "x86.json").read_text())
    assert latest["locked"] is True
    (published,) = nightly.index.glob("files/*/pylock.toml")
    assert latest["lock"]["sha256"] == file_digest(published)
    found = {package["name"]: package for package in tomllib.loads(published.read_text())["packages"]}
    (torch,) = found["torch"]["wheels"]
    assert torch["hashes"]["sha256"] == sha256
    assert torch["url"].startswith("https://download.pytorch.org/whl/cpu/torch-2.13.0%2Bcpu-cp311-")
    (own,) = found["vllm"]["wheels"]
    assert own["url"].startswith("https://wheels.example.org/files/")
    assert own["hashes"]["sha256"] == latest["sha256"]
    assert {"numpy", "sympy"} <= found.keys(), "what torch requires, too"
    assert "pylock.toml" in (nightly.index / newest / "index.html").read_text()
    done = nightly.tiny.run("check-index", "--index", nightly.index)
    assert done.returncode == 0, done.stderr


def test_the_newest_release_in_place_of_the_newest_commit(nightly: Nightly) -> None:
    add_commit(nightly, "after")
    code, summary, said = nightly.run("--latest-release")
    assert code == 0, said
    (outcome,) = summary["outcomes"]
    assert outcome["wheel"].startswith("vllm-0.1.0+cpu-")
    assert (nightly.index / "0.1.0" / "cpu" / "vllm" / "index.html").is_file()


def test_when_the_time_is_up_the_rest_is_left_to_the_next_run(nightly: Nightly) -> None:
    first = add_commit(nightly, "one")
    second = add_commit(nightly, "two")
    code, summary, said = nightly.run("--since", "v0.1.0", "--hours", "0.0001")
    assert code == 43, said
    states = {each["source"]: each["state"] for each in summary["outcomes"]}
    assert states[first] == "postponed"
    code, summary, said = nightly.run("--since", "v0.1.0")
    assert code == 0, said
    assert {each["source"] for each in summary["outcomes"]} == {first, second}
    assert '"ratio": null' in (nightly.index / "commits.json").read_text()  # one has the kernels of the other


def test_the_index_may_be_a_bucket(nightly: Nightly, s3_client: Any) -> None:
    """What builds knows no credentials; what publishes runs no code of upstream."""
    newest = add_commit(nightly, "one")
    s3_client.create_bucket(Bucket="nightly-wheels")
    index = "s3://nightly-wheels/vllm"
    code, summary, said = nightly.run(index=index)
    assert code == 2, said
    assert "nightly --publish" in said
    code, summary, said = nightly.run("--build")
    assert code == 0, said
    assert [(each["source"], each["state"]) for each in summary["outcomes"]] == [(newest, "built")]
    assert "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY" in said
    assert list(nightly.index.iterdir()) == []
    ready = nightly.tiny.dist / "nightly" / "ready" / f"x86-{newest}"
    assert len(list(ready.glob("*.whl"))) == 1
    copy = shutil.copytree(ready, nightly.index.parent / "copy" / ready.name)
    for state in ("published", "there"):
        code, summary, said = nightly.run("--publish", index=index)
        assert code == 0, said
        assert [(each["source"], each["state"]) for each in summary["outcomes"]] == [(newest, state)]
    assert not ready.exists()
    done = nightly.tiny.run("check-index", "--index", index)
    assert done.returncode == 0, done.stderr
    latest = s3_client.get_object(Bucket="nightly-wheels", Key="vllm/latest/x86.json")["Body"].read()
    assert json.loads(latest)["parity"] == "passed in part"

    other = add_commit(nightly, "two")  # whose build left the wheel of another commit
    copy.rename(copy.with_name(f"x86-{other}"))
    code, summary, said = nightly.run("--publish", "--commit", other, "--wheels", str(copy.parent), index=index)
    assert code == 42, said
    assert f"built from commit {newest}, not {other}" in said
    assert json.loads(s3_client.get_object(Bucket="nightly-wheels", Key="vllm/latest/x86.json")["Body"].read()) == (
        json.loads(latest)
    )


def test_commits_that_the_index_would_not_keep_are_not_built(nightly: Nightly) -> None:
    matrix = nightly.tiny.root / "matrix.yaml"
    matrix.write_text(matrix.read_text().replace("keep_days: 100000", "keep_days: 60"))
    add_commit(nightly, "one")
    newest = add_commit(nightly, "two")
    for state in ("published", "there"):
        code, summary, said = nightly.run("--since", "v0.1.0")
        assert code == 0, said
        assert "1 commits are left out" in said
        assert [(each["source"], each["state"]) for each in summary["outcomes"]] == [(newest, state)]


def test_a_hostile_commit_beside_a_clean_one(nightly: Nightly, tmp_path: Path) -> None:
    """It gains nothing, and the wheel of the commit after it is as if the hostile one had never been built."""
    home, stores = tmp_path / "home", nightly.tiny.cache
    for kind in STORES:
        (stores / kind / PLANTED).unlink(missing_ok=True)  # from a run in which this failed
    for name in (".ssh/id_ed25519", ".aws/credentials", ".netrc"):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(SECRET)
    clean_files = {
        path: path.read_bytes() for path in nightly.clone.rglob("*") if path.is_file() and ".git" not in path.parts
    }
    with noting_server() as server:
        make_hostile(
            nightly.clone,
            read=[*home.rglob("*")],
            written=[home, nightly.clone, nightly.index, nightly.tiny.root, *(stores / kind for kind in STORES)],
            url=server.url("/stolen"),
        )
        hostile = commit_all(nightly.clone, "hostile")
        for path in nightly.clone.rglob("*"):
            if path.is_file() and ".git" not in path.parts:
                path.unlink()
        for path, content in clean_files.items():
            path.write_bytes(content)
        clean = add_commit(nightly, "clean")
        outside = [home, nightly.clone, nightly.tiny.root]
        before = content_of(outside)
        uv = os.environ.get("UV_CACHE_DIR") or str(Path.home() / ".cache" / "uv")  # uv's own files are no concern here
        env = {"HOME": str(home), "UV_CACHE_DIR": uv, "AWS_SECRET_ACCESS_KEY": SECRET, "EDITOR": SECRET}
        code, summary, said = nightly.run("--since", "v0.1.0", env=env)
        assert server.asked == []
    assert code == 0, said
    assert {each["source"]: each["state"] for each in summary["outcomes"]} == {hostile: "published", clean: "published"}
    assert content_of(outside) == before
    for folder in (nightly.tiny.dist, nightly.index, stores):
        found = [path for path in folder.rglob("*") if path.is_file() and path.name != "attack.py"]
        assert [path for path in found if path.name == PLANTED] == []
        if folder != stores:
            assert [path for path in found if SECRET.encode() in path.read_bytes()] == []
    assert nightly.tiny.run("check-index", "--index", nightly.index).returncode == 0

    published = next((nightly.index / "files").rglob(f"*{clean[:9]}*.whl")).read_bytes()
    forget(stores, *MADE)
    again = dataclasses.replace(nightly.tiny, dist=tmp_path / "again").build("--repo", nightly.clone, "--source", clean)
    assert again.read_bytes() == published

    # The logs of a published wheel are not kept; those of the hostile commit by itself show that it attacks.
    alone = dataclasses.replace(nightly.tiny, dist=tmp_path / "alone")
    alone.build("--repo", nightly.clone, "--source", hostile, env=env)
    logs = b"".join(path.read_bytes() for path in alone.dist.rglob("*.log"))
    assert [place for place in PLACES if f"attack ran: {place}".encode() not in logs] == []
    assert SECRET.encode() not in logs
    assert content_of(outside) == before


def content_of(folders: list[Path]) -> dict[Path, bytes]:
    return {path: path.read_bytes() for folder in folders for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--since", "nothing"], "there is no commit 'nothing'"),
        (["--branch", "nothing"], "there is no commit 'nothing'"),
        (["--target", "x99"], "unknown target 'x99'"),
        (["--since", "v0.1.0", "--latest-release"], "one of --since, --release and --latest-release"),
    ],
)
def test_bad_input_is_one_message(nightly: Nightly, arguments: list[str], words: str) -> None:
    code, summary, said = nightly.run(*arguments)
    assert code not in {0, 1}
    assert words in said
    assert "Traceback" not in said
    assert summary == {}
    assert list(nightly.index.iterdir()) == []
