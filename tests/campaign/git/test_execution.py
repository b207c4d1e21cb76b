"""Nothing of what a repository, its work tree or its address names is executed."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from cpuwheels.core.errors import DownloadError, OneDnnError, SourceError
from cpuwheels.fetch.git_archive import GitSource, get_commit
from cpuwheels.source.worktree import TreeRequest
from hostile_git import raw_object
from sample_source import commit, git

if TYPE_CHECKING:
    from pathlib import Path

    from cpuwheels.core.console import Reporter
    from cpuwheels.core.store import Store
    from hostile_git import Get, Trap


@pytest.mark.parametrize(
    "address",
    [
        pytest.param("--upload-pack={trap}", id="01-option"),
        pytest.param("ext::{trap}", id="02-ext"),
        pytest.param("ext::sh -c {trap}% >&2", id="03-ext-with-a-command"),
        pytest.param("fd::3", id="04-fd"),
        pytest.param("ssh://-oProxyCommand={trap}/x", id="05-option-of-ssh"),
    ],
)
def test_an_address(
    address: str, get: Get, clone: Path, trap: Trap, store: Store, reporter: Reporter, logs: Path
) -> None:
    address = address.format(trap=trap)
    with pytest.raises((SourceError, DownloadError)) as raised:
        get("main", None, address)
    assert raised.value.next_step
    thing = GitSource("Thing", "thing", "v0.32.0", (address,), "VARIABLE", OneDnnError)
    with pytest.raises((SourceError, DownloadError, OneDnnError)):
        get_commit(thing, git(clone, "rev-parse", "HEAD"), store=store, reporter=reporter, logs=logs)
    assert get("main", None, clone).commit  # the same store is of use afterwards


@pytest.mark.parametrize(
    "revision",
    [
        pytest.param("--upload-pack={trap}", id="06-option-of-fetch"),
        pytest.param("--output={home}/.profile", id="07-option-of-log"),
        pytest.param("-c core.fsmonitor={trap}", id="08-setting"),
    ],
)
def test_a_revision(revision: str, get: Get, clone: Path, trap: Trap, home: Path) -> None:
    for place in ((clone,), (None, clone)):
        with pytest.raises(SourceError, match="there is no commit"):
            get(revision.format(trap=trap, home=home), *place)


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({"core.fsmonitor": "{trap}"}, id="09-fsmonitor"),
        pytest.param({"core.hooksPath": "{hooks}"}, id="10-hooks-elsewhere"),
        pytest.param({"filter.x.smudge": "{trap}", "filter.x.required": "true"}, id="11-smudge"),
        pytest.param({"filter.x.clean": "{trap}"}, id="12-clean"),
        pytest.param({"filter.x.process": "{trap}", "filter.x.required": "true"}, id="13-process"),
        pytest.param({"log.showSignature": "true", "gpg.program": "{trap}"}, id="14-signature"),
        pytest.param({"diff.external": "{trap}", "core.pager": "{trap}", "diff.x.textconv": "{trap}"}, id="15-pager"),
        pytest.param({"core.alternateRefsCommand": "{trap}", "core.askPass": "{trap}"}, id="16-alternates"),
        pytest.param({"include.path": "{included}", "core.fsmonitor": "false"}, id="17-include"),
    ],
)
@pytest.mark.usefixtures("home")
def test_a_setting_of_a_checkout(
    settings: dict[str, str], get: Get, clone: Path, trap: Trap, tmp_path: Path, store: Store, reporter: Reporter
) -> None:
    (clone / ".gitattributes").write_text("*.py filter=x diff=x\n")
    wanted = signed(clone, commit(clone))
    included = tmp_path / "included"
    included.write_text(f'[core]\n fsmonitor = {trap}\n[filter "x"]\n smudge = {trap}\n clean = {trap}\n')
    hooks = _hooks(tmp_path / "hooks", trap)
    for name, value in settings.items():
        git(clone, "config", "--add", name, value.format(trap=trap, included=included, hooks=hooks))
    _touch(clone / "setup.py")
    for source in (get(wanted, clone), get("main", None, clone), TreeRequest(clone).get(store, reporter)):
        assert source.commit == wanted
        assert (source.folder / "setup.py").read_text() == "two\n"


def test_18_hooks_of_a_clone(get: Get, clone: Path, trap: Trap, store: Store, reporter: Reporter) -> None:
    _hooks(clone / ".git" / "hooks", trap)
    _touch(clone / "setup.py")
    wanted = git(clone, "rev-parse", "HEAD")
    assert get(wanted, clone).commit == get("main", None, clone).commit == wanted
    assert TreeRequest(clone).get(store, reporter).commit == wanted


def test_19_lfs_of_the_user_gives_the_committed_bytes(get: Get, clone: Path, trap: Trap, home: Path) -> None:
    (home / ".gitconfig").write_text(
        f'[filter "lfs"]\n smudge = {trap} %f\n clean = {trap}\n process = {trap}\n required = true\n'
    )
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n"
    (clone / "model.bin").write_text(pointer)
    (clone / ".gitattributes").write_text("*.bin filter=lfs diff=lfs merge=lfs -text\n")
    (clone / ".lfsconfig").write_text("[lfs]\n url = https://example.invalid\n")
    wanted = commit(clone)
    for place in ((clone,), (None, clone)):
        assert (get(wanted, *place).folder / "model.bin").read_text() == pointer


def test_20_a_setting_that_cannot_be_taken_back_is_refused(get: Get, clone: Path, trap: Trap) -> None:
    (clone / ".gitattributes").write_text("*.py filter=a=b\n")
    wanted = commit(clone)
    git(clone, "config", "filter.a=b.smudge", str(trap))
    with pytest.raises(SourceError, match="which git cannot be told to leave out"):
        get(wanted, clone)


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({"remote.origin.url": "ext::{trap}"}, id="21-ext-when-a-file-is-missing"),
        pytest.param({"remote.origin.url": "x@example.invalid:x", "core.sshCommand": "{trap}"}, id="22-ssh-command"),
        pytest.param({"remote.origin.uploadpack": "{trap}"}, id="23-upload-pack"),
    ],
)
def test_a_partial_clone_that_lacks_a_file(
    settings: dict[str, str], get: Get, clone: Path, trap: Trap, tmp_path: Path
) -> None:
    git(tmp_path, "clone", "--quiet", "--bare", "--filter=blob:none", clone.as_uri(), "partial")
    partial = tmp_path / "partial"
    for name, value in settings.items():
        git(partial, "config", name, value.format(trap=trap))
    refused = "remote.origin.uploadpack" in settings
    with pytest.raises(SourceError, match="cannot be told to leave out" if refused else "git cannot check out"):
        get("v0.32.0", partial)


def test_24_a_submodule_of_a_checkout(
    clone: Path, trap: Trap, tmp_path: Path, store: Store, reporter: Reporter
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "a.py").write_text("a\n")
    (other / ".gitattributes").write_text("*.py filter=x\n")
    commit(other)
    git(clone, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(other), "sub")
    wanted = commit(clone)
    for name in ("core.fsmonitor", "filter.x.clean", "filter.x.smudge"):
        git(clone / "sub", "config", name, str(trap))
    git(clone, "config", "submodule.recurse", "true")
    git(clone, "config", "submodule.sub.update", f"!{trap}")
    _touch(clone / "sub" / "a.py")
    source = TreeRequest(clone).get(store, reporter)
    assert source.commit == wanted
    assert not (source.folder / "sub" / "a.py").exists()


def test_25_a_bare_repository_inside_a_tree_without_git(
    clone: Path, trap: Trap, store: Store, reporter: Reporter
) -> None:
    git(clone, "config", "core.fsmonitor", str(trap))
    git(clone, "config", "log.showSignature", "true")
    git(clone, "config", "gpg.program", str(trap))
    (clone / "PKG-INFO").write_text("Metadata-Version: 2.4\nName: vllm\nVersion: 0.32.0\n")
    for part in list((clone / ".git").iterdir()):
        part.rename(clone / part.name)
    (clone / ".git").rmdir()
    assert TreeRequest(clone).get(store, reporter).commit is None


def test_26_no_cookie_file_is_written(
    get: Get, clone: Path, home: Path, cookie_server: str, store: Store, reporter: Reporter, logs: Path
) -> None:
    (home / ".gitconfig").write_text(f'[http "{cookie_server}"]\n cookieFile = {home}/.profile\n saveCookies = true\n')
    # Asking what is there succeeds, and a git that succeeds writes its cookies.
    thing = GitSource("Thing", "thing", "v0.32.0", (f"{cookie_server}/thing.git",), "VARIABLE", OneDnnError)
    with pytest.raises(OneDnnError, match="it has no commit"):
        get_commit(thing, "1" * 40, store=store, reporter=reporter, logs=logs)
    assert get("main", clone).commit


def test_27_nothing_goes_on_in_the_background(get: Get, clone: Path, home: Path, store: Store) -> None:
    (home / ".gitconfig").write_text(
        "[gc]\n auto = 1\n[maintenance]\n auto = true\n[fetch]\n writeCommitGraph = true\n"
    )
    assert get("main", None, clone).commit
    (own,) = (store.root / "git").glob("vllm-*")
    assert not (own / "gc.pid").exists()
    assert not list(own.glob("objects/info/commit-graph*"))
    assert not list(own.glob("objects/pack/*.bitmap"))
    running = subprocess.run(["ps", "-eo", "args"], check=True, capture_output=True, text=True).stdout
    assert str(own) not in running


def signed(clone: Path, name: str) -> str:
    """Give a commit something that looks like a signature, make it the branch's, and return its name."""
    text = git(clone, "cat-file", "commit", name)
    header, _, message = text.partition("\n\n")
    signature = "gpgsig -----BEGIN PGP SIGNATURE-----\n \n x\n -----END PGP SIGNATURE-----"
    made = raw_object(clone, "commit", f"{header}\n{signature}\n\n{message}\n".encode())
    git(clone, "reset", "--quiet", "--hard", made)
    return made


def _hooks(folder: Path, trap: Trap) -> Path:
    folder.mkdir(exist_ok=True)
    for name in ("post-checkout", "post-index-change", "reference-transaction", "pre-auto-gc", "post-update", "update"):
        (folder / name).write_text(trap.path.read_text())
        (folder / name).chmod(0o755)
    return folder


def _touch(path: Path) -> None:
    """Give a file another time and the same content, so that git reads it again."""
    os.utime(path, (1, 1))
