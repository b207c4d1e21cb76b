"""What editors and hooks are told agrees with the locks and with the files."""

from __future__ import annotations

import re
import subprocess
from configparser import ConfigParser

import pytest
import yaml

from layout import ROOT

HOOKS = [
    hook
    for repository in yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    for hook in repository["hooks"]
]

SIGNED = "tests/campaign/debian_lock/data/"
"""Signatures, keys and compressed lists: their bytes are what is tested."""
REPORTS = "docs/upstream/"
"""Pages that show patches, whose empty lines of context begin with a space."""


def tracked() -> list[str]:
    done = subprocess.run(["git", "-C", ROOT, "ls-files", "-z"], check=True, capture_output=True, text=True)
    return [name for name in done.stdout.split("\0") if name and (ROOT / name).is_file()]


def test_the_hooks_are_the_checks_of_lint() -> None:
    assert [hook["id"] for hook in HOOKS] == ["ruff", "ruff-format", "clang-format", "schema"]
    text = (ROOT / "noxfile.py").read_text()
    assert '"ruff", "check"' in text
    assert '"--style=file:csrc/.clang-format"' in text
    assert '"cpuwheels", "schema", "--check"' in text


@pytest.mark.parametrize("hook", [hook for hook in HOOKS if hook["language"] == "python"], ids=lambda hook: hook["id"])
def test_a_hooks_tool_is_the_one_of_the_lock(hook: dict[str, object]) -> None:
    locked = set(re.findall(r"^([\w-]+==[\w.]+)", (ROOT / "locks" / "dev.txt").read_text(), re.MULTILINE))
    assert hook["additional_dependencies"]
    assert set(hook["additional_dependencies"]) <= locked


def test_c_is_formatted_by_the_hook_as_by_lint() -> None:
    (files,) = (hook["files"] for hook in HOOKS if hook["id"] == "clang-format")
    by_lint = [name for name in tracked() if re.fullmatch(r"csrc/.*\.[ch]", name) or re.fullmatch(r"tests/.*\.c", name)]
    assert [name for name in tracked() if re.search(files, name)] == by_lint != []


def test_files_are_as_editorconfig_says() -> None:
    config = ConfigParser()
    config.read_string("[preamble]\n" + (ROOT / ".editorconfig").read_text())
    assert config["*"]["end_of_line"] == "lf"
    assert config["*.{patch,svg}"]["trim_trailing_whitespace"] == "false"
    found = []
    for name in tracked():
        if name.endswith((".patch", ".svg", ".webp")) or name.startswith((SIGNED, REPORTS)):
            continue  # a picture in WebP is no text
        content = (ROOT / name).read_bytes()
        content.decode("utf-8")
        if b"\r\n" in content or re.search(rb"[ \t]$", content, re.MULTILINE) or content[-1:] not in {b"", b"\n"}:
            found.append(name)
    assert found == []
