"""Completion in the shells themselves, at a terminal, and the manual page as a formatter reads it.

The shells are pinned (locks/shells-amd64.yaml). Each reads the script where the wheel of this project puts it.
"""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Self

import pytest

from cpuwheels.cli.completion import SCRIPTS, VARIABLE
from cpuwheels.cli.manual import PLACE
from layout import ROOT
from pinned_root import pinned_root

SECONDS = 60
SHARE = ROOT / "share"
PROMPT = "ready> "
CLEAR_LINE = "\x15"


@pytest.fixture(scope="module")
def shells() -> Path:
    """The root with the shells and the formatter."""
    return pinned_root("shells", "shells")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder to type in, with a wheel and a matrix of its own."""
    (tmp_path / "dist").mkdir()
    (tmp_path / "dist" / "some-1.whl").touch()
    (tmp_path / "matrix.yaml").write_text((ROOT / "matrix.yaml").read_text())
    return tmp_path


class Terminal:
    """A shell at a terminal."""

    def __init__(self, command: list[str | Path], folder: Path, **variables: str) -> None:
        self.text = ""
        env = {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "HOME": str(folder),
            "TERM": "dumb",
            "LC_ALL": "C.UTF-8",
            **variables,
        }
        ours, theirs = pty.openpty()
        self._screen = ours
        self._process = subprocess.Popen(
            list(map(str, command)),
            cwd=folder,
            env=env,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        self.wait(PROMPT)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._screen)

    def type(self, text: str) -> None:
        """Type, and forget what was on the screen."""
        self.text = ""
        os.write(self._screen, text.encode())

    def type_anew(self, text: str) -> None:
        """Type at an empty prompt: what was typed before is taken back."""
        self.type(f"{CLEAR_LINE}\n")
        self.wait(PROMPT)
        self.type(text)

    def wait(self, *wanted: str) -> str:
        """Return what is on the screen as soon as it has all the words that are waited for."""
        deadline = time.monotonic() + SECONDS
        while not all(word in self.text for word in wanted):
            ready, _, _ = select.select([self._screen], [], [], max(0, deadline - time.monotonic()))
            assert ready, f"waiting for {wanted}, there is: {self.text!r}"
            self.text += os.read(self._screen, 4096).decode(errors="replace")
        return self.text


def bash(shells: Path, folder: Path) -> Terminal:
    script = SHARE / SCRIPTS["bash"]
    (folder / ".bashrc").write_text(f"PS1='{PROMPT}'\nbind 'set bell-style none'\nsource {script}\n")
    return Terminal([shells / "usr/bin/bash", "--rcfile", folder / ".bashrc", "-i"], folder)


def zsh(shells: Path, folder: Path) -> Terminal:
    """The script is found by its name in the path of functions, as it is where it is installed."""
    return _zsh(shells, folder, (SHARE / SCRIPTS["zsh"]).parent)


def zsh_that_evaluates(shells: Path, folder: Path) -> Terminal:
    """The script is what the program prints."""
    return _zsh(shells, folder, folder, f'eval "$({VARIABLE}=zsh_source cpuwheels)"\n')


def _zsh(shells: Path, folder: Path, first: Path, more: str = "") -> Terminal:
    modules = next(shells.glob("usr/lib/*/zsh/*"))
    functions = sorted({path.parent for path in (shells / "usr/share/zsh/functions").rglob("*") if path.is_file()})
    places = " ".join(map(str, [first, *functions]))
    (folder / ".zshrc").write_text(
        f"module_path=({modules})\nfpath=({places})\nPS1='{PROMPT}'\nunsetopt PROMPT_SP PROMPT_CR\n"
        f"autoload -Uz compinit && compinit -u -d {folder}/.zcompdump\n{more}"
    )
    return Terminal([shells / "usr/bin/zsh", "-d", "-i"], folder, ZDOTDIR=str(folder))


@pytest.mark.parametrize("start", [bash, zsh, zsh_that_evaluates])
def test_a_tab_at_a_terminal(shells: Path, folder: Path, start: Callable[[Path, Path], Terminal]) -> None:
    with start(shells, folder) as terminal:
        terminal.type("cpuwheels verify-\t")
        terminal.wait("cpuwheels verify-provenance ")
        terminal.type_anew("cpuwheels build s3\t")
        terminal.wait("build s390x ")
        terminal.type("--toolch\t")
        terminal.wait("--toolchain ")
        terminal.type("deb\t")
        terminal.wait("debian ")
        terminal.type_anew("cpuwheels sign dist/so\t")
        terminal.wait("sign dist/some-1.whl")
        terminal.type_anew("cpuwheels build \t\t")
        terminal.wait("arm", "macos", "s390x", "x86")


def test_what_fish_offers(shells: Path, folder: Path) -> None:
    script = SHARE / SCRIPTS["fish"]
    own = f"set fish_function_path {shells}/usr/share/fish/functions"  # where they are unpacked
    env = {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "HOME": str(folder),
        "TERM": "dumb",
        "LC_ALL": "C.UTF-8",
    }

    def offered(line: str) -> list[str]:
        command = [
            shells / "usr/bin/fish",
            "--no-config",
            "-c",
            f"{own}; source {script}; complete --do-complete '{line}'",
        ]
        done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=True)
        assert done.stderr == ""
        return [text.partition("\t")[0] for text in done.stdout.splitlines()]

    assert offered("cpuwheels verify-") == ["verify-provenance"]
    assert offered("cpuwheels build ") == ["arm", "macos", "s390x", "x86"]
    assert offered("cpuwheels build --toolchain ") == ["auto", "debian", "host"]
    assert offered("cpuwheels sign dist/so") == ["dist/some-1.whl"]


def test_a_formatter_has_nothing_to_say_of_the_manual_page(shells: Path) -> None:
    """But that it has no date: the same commands are to give the same page."""
    page = SHARE / PLACE
    done = subprocess.run(
        [shells / "usr/bin/mandoc", "-T", "lint", "-W", "warning", page], capture_output=True, text=True, check=False
    )
    complaints = [line for line in done.stdout.splitlines() if "missing date" not in line]
    assert complaints == []
    text = subprocess.run(
        [shells / "usr/bin/mandoc", "-T", "utf8", page], capture_output=True, text=True, check=True
    ).stdout
    assert "cpuwheels build [OPTIONS] TARGET" in re.sub(".\b", "", text)
