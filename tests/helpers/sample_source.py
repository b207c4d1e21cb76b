"""Writes tiny stand-ins for vLLM: trees, sdists and git repositories."""

from __future__ import annotations

import hashlib
import io
import os
import subprocess
import tarfile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

EPOCH = 1_700_000_000
CPUINFO = "    execute_process(COMMAND cat /proc/cpuinfo\n                    OUTPUT_VARIABLE CPUINFO)\n"
ONEDNN = """\
    FetchContent_Declare(
        oneDNN
        GIT_REPOSITORY https://example.invalid/oneDNN.git
        GIT_TAG v3.13
    )
"""
BINDINGS = "#include <torch/library.h>\n\nTORCH_LIBRARY_EXPAND(TORCH_EXTENSION_NAME, ops) {\n}\n"
ATTENTION = """\
    return runtime_has_amx_fp8();
  } else if (isa_hint == "amx_fp8") {
    } else if (isa == "amx_fp8") {
"""
FILES = {
    "CMakeLists.txt": "project(vllm_extensions)\n",
    "setup.py": "",
    "cmake/cpu_extension.cmake": CPUINFO + ONEDNN,
    "csrc/cpu/cpu_attn.cpp": ATTENTION,
    "csrc/cpu/ops.cpp": "int one() { return 1; }\n",
    "csrc/cpu/torch_bindings.cpp": BINDINGS,
    "requirements/cpu.txt": 'torch==2.13.0+cpu; platform_machine == "x86_64"\n',
    "vllm/__init__.py": "",
    "vllm/platforms/cpu.py": "            pytorch_libgomp_so_candidates = []\n",
}


def clone_of_two(folder: Path) -> Path:
    """Write a repository with the tag v0.32.0 on its first commit, and a second one; it serves parts of itself."""
    write_tree(folder)
    commit(folder)
    git(folder, "tag", "v0.32.0")
    git(folder, "config", "uploadpack.allowFilter", "true")
    (folder / "setup.py").write_text("two\n")
    commit(folder)
    return folder


def write_tree(folder: Path, changes: Mapping[str, str | None] | None = None) -> Path:
    """Write a tree; a change to None leaves the file out."""
    for name, text in (FILES | dict(changes or {})).items():
        if text is not None:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)
    return folder


def write_sdist(
    path: Path, version: str = "0.32.0", changes: Mapping[str, str | None] | None = None, info: str | None = None
) -> Path:
    """Write an sdist whose members are all from the same second."""
    files = {"PKG-INFO": info if info is not None else f"Metadata-Version: 2.4\nName: vllm\nVersion: {version}\n"}
    files |= {name: text for name, text in (FILES | dict(changes or {})).items() if text is not None}
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w:gz") as tar:
        for name, text in files.items():
            add(tar, f"vllm-{version}/{name}", text.encode())
    return path


def add(tar: tarfile.TarFile, name: str, content: bytes = b"", **attributes: object) -> None:
    """Add a member with whatever attributes a test needs."""
    member = tarfile.TarInfo(name)
    member.size, member.mtime = len(content), EPOCH
    for key, value in attributes.items():
        setattr(member, key, value)
    tar.addfile(member, io.BytesIO(content))


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def git(folder: Path, *arguments: str, date: str = f"{EPOCH} +0000") -> str:
    """Run git with an identity and a date of its own."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")} | {
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_AUTHOR_NAME": "a",
        "GIT_AUTHOR_EMAIL": "a@example.invalid",
        "GIT_AUTHOR_DATE": date,
        "GIT_COMMITTER_NAME": "a",
        "GIT_COMMITTER_EMAIL": "a@example.invalid",
        "GIT_COMMITTER_DATE": date,
    }
    command = ["git", "-C", str(folder), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True, env=env).stdout.strip()


def commit(folder: Path, message: str = "change") -> str:
    """Commit everything in a folder, making it a repository first; return the hash."""
    if not (folder / ".git").exists():
        git(folder, "init", "--quiet", "--initial-branch=main")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--allow-empty", "--message", message)
    return git(folder, "rev-parse", "HEAD")


def dated_commit(folder: Path, date: str) -> str:
    """Commit as `commit` does, at another time."""
    commit(folder, date)
    git(folder, "commit", "--quiet", "--amend", "--no-edit", "--allow-empty", "--date", date, date=date)
    return git(folder, "rev-parse", "HEAD")
