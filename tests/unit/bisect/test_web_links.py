"""Addresses on the site of a repository."""

from __future__ import annotations

import pytest

from cpuwheels.bisect.web_links import WebLinks, web_links

VLLM = "https://github.com/vllm-project/vllm"
COMMIT = "c" * 40


@pytest.mark.parametrize(
    "address",
    [
        VLLM,
        f"{VLLM}/",
        f"{VLLM}.git",
        "http://github.com/vllm-project/vllm.git",
        "git@github.com:vllm-project/vllm.git",
        "ssh://git@github.com/vllm-project/vllm",
    ],
)
def test_a_repository_on_github_has_a_site(address: str) -> None:
    assert web_links(address).base == VLLM


@pytest.mark.parametrize(
    "address",
    [
        "",
        "/home/me/vllm",
        "../github.com/a/b",
        "https://github.com/a",
        "https://github.com/a/b/c",
        "https://github.com.example.org/a/b",
        "https://example.org/github.com/a/b",
        'https://github.com/a/b"onclick="x',
        "https://github.com/a/b\nhttps://x",
        "javascript://github.com/a/b",
        "file:///github.com/a/b",
    ],
)
def test_others_have_none(address: str) -> None:
    links = web_links(address)
    assert links == WebLinks()
    assert links.hash(COMMIT) == f"<code>{COMMIT[:9]}</code>"
    assert links.subject("a <b> (#12)") == "a &lt;b&gt; (#12)"


def test_commits_and_changes() -> None:
    links = web_links(VLLM)
    assert links.commit(COMMIT) == f"{VLLM}/commit/{COMMIT}"
    assert links.compare("a", "b") == f"{VLLM}/compare/a...b"
    shown = f'<a href="{VLLM}/commit/{COMMIT}" rel="noreferrer"><code>cccc</code></a>'
    assert links.hash(COMMIT, 4) == shown


def test_issues_in_a_subject_are_links_and_the_rest_is_escaped() -> None:
    found = web_links(VLLM).subject("<i> (#123), #4 & a#5 &#6; ##7 #08 /#9 https://x/#10")
    issue = '<a href="{0}/issues/{1}" rel="noreferrer">#{1}</a>'
    assert found == (
        f"&lt;i&gt; ({issue.format(VLLM, 123)}), {issue.format(VLLM, 4)} &amp; a#5 &amp;#6; ##7 #08 /#9 https://x/#10"
    )
