"""The repository of the bisections' benchmark."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from bisectbench.history import KERNELS, make_history, planted

from cpuwheels.core.errors import UsageError

FILES = {
    "csrc/cpu/layernorm.cpp": "float s = 1.0f / sqrtf(v);\nfloat t = 1.0f / sqrtf(w);\n",
    "csrc/cpu/activation.cpp": "int a;\n",
    "csrc/cpu/pos_encoding.cpp": "int p;\n",
    "vllm/utils/math_utils.py": "def cdiv(a, b):\n    return -(a // -b)\n",
    "vllm/__init__.py": "",
    "vllm/a.py": "a = 1\n",
    "PKG-INFO": "Version: 1\n",
    "vllm/_version.py": "version = '1'\n",
    "build.log": "ignored by some .gitignore\n",
    ".gitignore": "*.log\n",
}


@pytest.fixture
def releases(tmp_path: Path) -> dict[str, Path]:
    made = {}
    for version in ("1.0", "2.0"):
        folder = tmp_path / version
        for name, text in (FILES | {"vllm/version.txt": version, f"only-{version}.txt": ""}).items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)
        made[version] = folder
    return made


def git(folder: Path, *arguments: str) -> str:
    return subprocess.run(["git", "-C", folder, *arguments], check=True, capture_output=True, text=True).stdout.strip()


def test_releases_with_small_commits_after_each(releases: dict[str, Path], tmp_path: Path) -> None:
    history = make_history(tmp_path / "vllm", releases, between=10, kernels_every=3)
    assert git(history.folder, "rev-list", "--reverse", "main").split() == list(history.commits)
    assert len(history.commits) == 22
    assert git(history.folder, "rev-list", "-1", "v1.0") == history.commits[0]
    assert git(history.folder, "rev-list", "-1", "v2.0") == history.commits[11]
    assert git(history.folder, "ls-tree", "-r", "--name-only", "v2.0").split() == sorted(
        [*(FILES.keys() - {"PKG-INFO", "vllm/_version.py"}), "only-2.0.txt", "vllm/version.txt"]
    )
    for commit in history.commits:
        changed = git(history.folder, "show", "--format=", "--name-only", commit).split()
        assert (commit in history.kernel_changes) == any(name in KERNELS for name in changed)
    assert len(history.kernel_changes) == 2 + 6 + 1  # releases, three after each of them, the fault


def test_the_faults_come_with_the_commits_that_are_named(releases: dict[str, Path], tmp_path: Path) -> None:
    history = make_history(tmp_path / "vllm", releases, between=10, kernels_every=100)
    for fault, name, wrong in (
        ("python", "vllm/utils/math_utils.py", "return a // b"),
        ("kernel", "csrc/cpu/layernorm.cpp", "1.01f / sqrtf"),
    ):
        bad = history.commits.index(history.first_bad[fault])  # type: ignore[index]
        assert bad > history.commits.index(git(history.folder, "rev-list", "-1", "v2.0"))
        texts = [git(history.folder, "show", f"{commit}:{name}") for commit in history.commits]
        assert [wrong in text for text in texts] == [number >= bad for number in range(len(texts))]


def test_the_same_releases_give_the_same_commits(releases: dict[str, Path], tmp_path: Path) -> None:
    first, second = (make_history(tmp_path / name, releases, between=4, kernels_every=2) for name in ("a", "b"))
    assert first.commits == second.commits


def test_a_release_without_the_place_of_the_fault(tmp_path: Path) -> None:
    (tmp_path / "csrc" / "cpu").mkdir(parents=True)
    (tmp_path / "csrc" / "cpu" / "layernorm.cpp").write_text("// another norm\n")
    with pytest.raises(UsageError, match="no place for the fault"):
        planted(tmp_path, "kernel")
