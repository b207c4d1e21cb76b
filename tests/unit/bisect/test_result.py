"""What a bisection has found, in words, as files and as a page."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from markupsafe import escape

from bisections import FOUND, LEFT, outcome
from cpuwheels.bisect.issue import issue_text
from cpuwheels.bisect.report import probe_table, result_page, write_bisection
from cpuwheels.bisect.result import is_kernel_file
from cpuwheels.bisect.search import Verdict
from html_anchors import links
from pseudo_terminal import WIDTHS, printed
from sample_source import git

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("plain_git")


def test_the_commit_is_told_with_what_it_changed_kernels_first(tmp_path: Path) -> None:
    result = outcome(tmp_path, FOUND)
    assert result.found is not None
    assert result.found.files == ("csrc/cpu/ops.cpp", "vllm/m5.py")
    assert tuple(filter(is_kernel_file, result.found.files)) == ("csrc/cpu/ops.cpp",)
    lines = result.as_lines()
    assert lines[0] == f"{result.found.commit} is the first bad commit"
    assert lines[1:4] == ["  change <5>", "  csrc/cpu/ops.cpp (kernels)", "  vllm/m5.py"]


def test_a_commit_that_changed_much_is_told_in_short(tmp_path: Path) -> None:
    found = outcome(tmp_path, FOUND)
    many = tuple(f"vllm/file{number:02}.py" for number in range(40))
    long = replace(found, suspects=(replace(found.suspects[0], files=many),))
    assert [line for line in long.as_lines() if "file" in line][-2:] == ["  vllm/file29.py", "  and 10 more files"]
    page = result_page(long)
    assert "vllm/file29.py" in page
    assert "vllm/file30.py" not in page
    assert "and 10 more files" in page
    assert "more files" not in result_page(found)
    assert len(long.as_json()["suspects"][0]["files"]) == 40


def test_what_could_not_be_told_apart_is_listed(tmp_path: Path) -> None:
    result = outcome(tmp_path, LEFT)
    assert result.found is None
    assert [suspect.subject for suspect in result.suspects] == ["change <4>", "change <5>", "change <6>"]
    assert result.as_lines()[0].startswith("one of these 3 commits is the first bad one")


@pytest.mark.parametrize("verdicts", [FOUND, LEFT], ids=["found", "left"])
def test_a_line_shows_it_again(tmp_path: Path, verdicts: dict[int, Verdict]) -> None:
    result = outcome(tmp_path, verdicts)
    words = shlex.split(result.again())
    options = dict(zip(words[4::2], words[5::2], strict=False))
    assert words[:4] == ["nox", "-s", "bisect", "--"]
    tree = tmp_path / "vllm"
    good, bad = ("4", "5") if result.found else ("3", "6")
    assert options["--good"] == git(tree, "rev-parse", f"main~{8 - int(good)}")
    assert options["--bad"] == git(tree, "rev-parse", f"main~{8 - int(bad)}")
    assert (options["--run"], options["--timeout"]) == ("test -e 'a b'", "60")
    assert {"--no-requirements", "--allow-sdists", "--unconfined"} < set(words)
    pairs = list(pairwise(words))
    assert {("--readable", "/a"), ("--readable", "/b c"), ("--writable", "/d")} < set(pairs)
    assert [words[at + 1] for at, word in enumerate(words) if word == "--pass-env"] == ["A", "B"]
    assert str(tree) in words


@pytest.mark.parametrize(
    ("judge", "words"),
    [
        ({"parity": "rms_norm", "level": "full"}, "--parity rms_norm --level full"),
        ({"bench": "rms_norm", "slower": 1.2, "library": "_C"}, "--bench rms_norm --slower 1.2 --library _C"),
        ({"serve": "opt", "slower": 1.3}, "--serve opt --slower 1.3"),
        ({"serve": "opt", "prompt": "a b", "regress": "crash"}, "--serve opt --prompt 'a b' --regress crash"),
    ],
)
def test_the_line_says_who_judged(tmp_path: Path, judge: dict[str, str | float], words: str) -> None:
    assert words in outcome(tmp_path, FOUND, judge).again()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ((), []),
        (("--toolchain", "auto", "--upstream-kernels"), []),
        (("--toolchain", "auto", "--compiler-cache", "auto"), ["--patched-kernels"]),
        (
            ("--toolchain", "host", "--kernels-from", "a b", "--locked", "--upstream-kernels"),
            ["--toolchain", "host", "--kernels-from", "a b", "--locked"],
        ),
    ],
)
def test_the_line_makes_the_same_wheels(tmp_path: Path, given: tuple[str, ...], words: list[str]) -> None:
    found = outcome(tmp_path, FOUND)
    plain = shlex.split(found.again(elsewhere=True))
    question = found.state.question.model_copy(update={"options": given})
    state = found.state.model_copy(update={"question": question})
    assert shlex.split(replace(found, state=state).again(elsewhere=True)) == plain + words


def test_the_line_for_others_has_no_folder_of_this_machine(tmp_path: Path) -> None:
    found = outcome(tmp_path, FOUND)
    assert str(tmp_path) in found.again()
    assert str(tmp_path) not in issue_text(found)


def test_the_files(tmp_path: Path) -> None:
    result = outcome(tmp_path, FOUND)
    log, issue, page, data = write_bisection(result)
    assert issue.read_text() == issue_text(result)
    found = json.loads(data.read_text())
    assert found["first_bad"] == result.suspects[0].commit
    assert [probe["verdict"] for probe in found["probes"]] == ["good", "bad", "good", "bad"]
    assert [probe["subject"] for probe in found["probes"]][2:] == ["change <4>", "change <5>"]
    assert found["range"] == {"base": result.history.base, "commits": 8, "merges": 0}
    assert found["seconds"] == 4 * 61
    git(tmp_path / "vllm", "bisect", "replay", str(log))
    assert "first bad commit" in git(tmp_path / "vllm", "bisect", "log")
    text = page.read_text()
    assert "change &lt;5&gt;" in text
    assert "because &lt;4&gt;" in text
    assert not re.search(r"<[45]>|https?://|src=|<link|url\(", text)
    assert text.count("<script") == 1


def test_the_page_of_what_is_left(tmp_path: Path) -> None:
    *_, page, data = write_bisection(outcome(tmp_path, LEFT))
    assert json.loads(data.read_text())["first_bad"] is None
    assert "One of 3 commits" in page.read_text()


@pytest.mark.parametrize("width", WIDTHS)
def test_the_table_has_every_probe(tmp_path: Path, width: int) -> None:
    found = outcome(tmp_path, FOUND)
    rows = printed(probe_table(found).print, width).rows
    verdicts = {tuple(row.split()[:2]) for row in rows if "1:01" in row}
    assert verdicts == {(probe.commit[:9], probe.verdict) for probe in found.state.probes}
    assert len(verdicts) == 4
    assert all(probe.reason in "\n".join(rows) for probe in found.state.probes)


def test_the_page_leads_to_commits_and_issues_of_the_clones_origin(tmp_path: Path) -> None:
    result = outcome(tmp_path, FOUND, origin="https://me:secret@github.com/vllm-project/vllm.git")
    site = "https://github.com/vllm-project/vllm"
    assert result.found is not None
    assert result.address == f"{site}.git"
    page = result_page(result)
    good, bad = result.state.question.good, result.state.question.bad
    assert {
        *(f"{site}/commit/{commit}" for commit in (good, bad, result.last_good, result.found.commit)),
        f"{site}/compare/{good}...{bad}",
        f"{site}/compare/{result.last_good}...{result.found.commit}",
        *(f"{site}/issues/{number}23" for number in (4, 5, 8)),
    } == {link for link in links(page) if link.startswith("http")}
    assert "secret" not in page


def test_the_page_has_both_ends_and_the_text_for_an_issue(tmp_path: Path) -> None:
    result = outcome(tmp_path, FOUND)
    page = result_page(result)
    ends = re.findall(r'<th scope="row">([a-z ]+)</th><td data-label="Hash"><code>(\w+)</code>', page)
    tree = tmp_path / "vllm"
    assert ends == [
        (what, git(tree, "rev-parse", f"main~{8 - number}"))
        for what, number in (("good end", 0), ("last good", 4), ("first bad", 5), ("bad end", 8))
    ]
    assert escape(issue_text(result)) in page
    assert 'tabindex="0" role="region" aria-label="Table: The commits that were tested"' in page


def test_the_page_and_the_issue_say_what_a_bad_commit_is(tmp_path: Path) -> None:
    result = outcome(tmp_path, FOUND, {"verdicts": "by a person", "regress": "crash"})
    assert "(it crashes)" in result_page(result)
    assert " is the first bad commit (it crashes), and " in issue_text(result)
    assert "- verdicts: `by a person`\n- regress: `crash`\n" in issue_text(result)
    assert "--regress crash" in result.again()
    assert "--run" not in result.again()
