"""The site of the documentation: what is broken on purpose is refused, and links are right where pages are moved."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import ModuleType

import architecture
import docs_session
import farm_drawing
import pytest
from docs_commands import Block, blocks, run, sessions, unknown
from docs_site import TOPS, Site, list_versions, navigation, problems, requests, rewritten, stage

from cpuwheels.cli.main import cli
from layout import ROOT
from markdown_pages import anchors, links, pages

NOXFILE = (ROOT / "noxfile.py").read_text(encoding="utf-8")
SESSIONS = sessions(NOXFILE, ["x86"])
REPOSITORY = "https://example.org/project"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A copy of what the site is made of, with the files that pages link to."""
    copy = tmp_path / "project"
    shutil.copytree(ROOT / "docs", copy / "docs")
    for name in (*TOPS, "LICENSE", "matrix.yaml", "zensical.toml"):
        shutil.copy(ROOT / name, copy)
    for name in (".github", "cmake", "csrc", "locks", "measured", "patches", "share", "src", "tests"):
        (copy / name).symlink_to(ROOT / name)
    return copy


def change(project: Path, name: str, old: str, new: str) -> None:
    path = project / name
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")


def test_nothing_is_wrong_with_the_pages(project: Path) -> None:
    assert list(problems(project)) == []


@pytest.mark.parametrize(
    ("name", "old", "new", "found"),
    [
        ("docs/faq.md", "(build.md)", "(biuld.md)", "docs/faq.md: the link biuld.md leads nowhere"),
        (
            "docs/faq.md",
            "(provenance.md#verifying-a-wheel)",
            "(provenance.md#verify)",
            "docs/faq.md: the link provenance.md#verify leads nowhere",
        ),
        ("docs/build.md", "(../matrix.yaml)", "(../matrix.yml)", "docs/build.md: the link ../matrix.yml leads nowhere"),
        ("zensical.toml", '"faq.md"', '"build.md"', "zensical.toml: faq.md is not in the navigation"),
        ("zensical.toml", '"faq.md"', '"fqa.md"', "zensical.toml: there is no page fqa.md"),
        ("zensical.toml", '"faq.md"', '"build.md"', "zensical.toml: build.md is in the navigation twice"),
    ],
)
def test_what_is_broken_is_refused(project: Path, name: str, old: str, new: str, found: str) -> None:
    change(project, name, old, new)
    assert found in list(problems(project))


def test_a_build_begins_with_these_checks(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    change(project, "docs/faq.md", "(build.md)", "(biuld.md)")
    monkeypatch.setattr(docs_session, "ROOT", project)
    shutil.copy(ROOT / "noxfile.py", project)
    assert docs_session.main(["--out", str(tmp_path / "out")]) == 1
    assert "error: docs/faq.md: the link biuld.md leads nowhere" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_the_commands_in_the_pages_are_there() -> None:
    docs_session.check_commands()


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        ("nox -s build-x86 -- --source 0.32.0", []),
        ("nox -s biuld-x86", ["there is no session 'biuld-x86'; there is build-x86"]),
        ("uvx --from 'nox[uv]' nox -s doctr", ["there is no session 'doctr'; there is doctor"]),
        ("pipx run --spec cpuwheels.whl cpuwheels biuld x86", ["there is no command 'biuld'; there is build"]),
        ("nox -s build-x86 -- --sorce 0.32.0", ["build has no option --sorce; there is --source"]),
        ("nox -s parity-x86 -- \\\n      --levle deep", ["parity has no option --levle; there is --level"]),
        ("nox -s parity-x86 -- --smoke", ["--smoke of parity is hidden: an old spelling, or for other commands"]),
        ("cpuwheels check x86", ["there is no command 'check'; there is check-index"]),
        ("nox -s bench -- --anything", []),
        ("cpuwheels clean --dry-run | tail --lines=1", []),
        ("cpuwheels claen", ["there is no command 'claen'; there is clean"]),
        ("cpuwheels --version", []),
        ("cd /srv && nox -s nope", []),
        ("It's what cpuwheels claen does", []),
    ],
)
def test_a_command_that_is_not_there_is_found(line: str, wrong: list[str]) -> None:
    assert list(unknown(f"Text\n\n    {line}\n", SESSIONS, cli.commands)) == wrong


def test_sessions_have_their_commands() -> None:
    assert SESSIONS["parity-x86"] == "parity"
    assert SESSIONS["kernel-bench-x86"] == "kernel-bench"
    assert SESSIONS["clean"] == "clean"
    assert (SESSIONS["tests-full"], SESSIONS["lint"], SESSIONS["docs"]) == ("", "", "")


def test_blocks_are_found_with_their_marks() -> None:
    text = (
        "# A\n\n    one\n\n      two\n\ntext\n\n<!-- test -->\n\n    three\n\n```sh\nfour\n```\n\n"
        "<!-- test -->\n```sh\nfive\n```\n\n- item\n\n    goes on\n"
    )
    assert list(blocks(text)) == [
        Block(3, "one\n\n  two\n", is_test=False),
        Block(11, "three\n", is_test=True),
        Block(13, "four\n", is_test=False),
        Block(18, "five\n", is_test=True),
    ]


@pytest.mark.parametrize("text", ["<!-- test -->\n\nno block\n", "<!-- test -->\n"])
def test_a_mark_without_a_block_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="line 1"):
        list(blocks(text))


def test_some_blocks_are_marked() -> None:
    marked = [block for page in pages(ROOT) for block in blocks(page.read_text(encoding="utf-8")) if block.is_test]
    assert len(marked) >= 4


@pytest.mark.parametrize(
    ("script", "printed"),
    [
        ('cpuwheels clean --dry-run\ntest -z "$(ls -A)"\n', ""),
        ("echo before\nfalse | cat\necho after\n", "exit code 1\nbefore\n"),
        ("echo $unset_variable\n", "unset_variable: unbound variable\n"),
        ("cpuwheels build x68\n", "exit code 11\nerror: unknown target 'x68'\n"),
    ],
)
def test_a_block_is_run_in_an_empty_folder_and_its_failure_is_found(script: str, printed: str) -> None:
    found = run(Block(1, script, is_test=True))
    assert printed in found
    assert bool(found) is bool(printed)


def test_a_failing_block_fails_the_session(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for page in pages(project):
        page.write_text("# Nothing\n")
    monkeypatch.setattr(docs_session, "ROOT", project)
    with pytest.raises(docs_session.DocumentationError, match="no block of code is marked"):
        docs_session.run_marked()
    (project / "docs" / "faq.md").write_text("<!-- test -->\n\n    exit 7\n")
    with pytest.raises(docs_session.DocumentationError, match=r"docs/faq.md:3: exit code 7"):
        docs_session.run_marked()


def test_links_are_right_on_the_site(project: Path) -> None:
    page = project / "docs" / "tutorials" / "bisecter.md"
    page.write_text(
        "[a](../build.md#commits) [`m`](../../matrix.yaml) [csrc](../../csrc) [r](../../README.md#targets) "
        "[s](https://x.org/) [b](#b) `[c](../../none)` [x [y](../../LICENSE)]\n"
    )
    assert rewritten(Site(project, "v1", REPOSITORY), page) == (
        f"[a](../build.md#commits) [`m`]({REPOSITORY}/blob/v1/matrix.yaml) [csrc]({REPOSITORY}/tree/v1/csrc) "
        "[r](../readme.md#targets) [s](https://x.org/) [b](#b) `[c](../../none)` "
        f"[x [y]({REPOSITORY}/blob/v1/LICENSE)]\n"
    )
    assert rewritten(Site(project, "v1"), page) == (
        "[a](../build.md#commits) `m` csrc [r](../readme.md#targets) [s](https://x.org/) [b](#b) "
        "`[c](../../none)` [x y]\n"
    )
    assert "](build.md#without-a-checkout)" in rewritten(Site(project, "v1"), project / "README.md")


@pytest.mark.parametrize("repository", ["", REPOSITORY])
def test_every_link_of_the_copy_leads_somewhere(project: Path, tmp_path: Path, repository: str) -> None:
    folder = tmp_path / "staged"
    stage(Site(project, "main", repository), folder)
    assert (folder / "reference" / "matrix.schema.json").is_file()
    count = 0
    for page in folder.rglob("*.md"):
        for link in links(page.read_text(encoding="utf-8")):
            path, _, anchor = link.partition("#")
            if "://" in link or link.startswith("mailto:"):
                continue
            target = page.parent / path if path else page
            assert target.resolve().is_relative_to(folder.resolve()), (page, link)
            assert target.is_file(), (page, link)
            assert not anchor or anchor in anchors(target.read_text(encoding="utf-8")), (page, link)
            count += 1
    assert count > 500


@pytest.mark.parametrize(
    ("name", "text", "loaded"),
    [
        ("a.html", '<a href="https://x.org/"><link rel="canonical" href="https://x.org/"><img src="b.png">', ""),
        ("a.html", '<script src="https://x.org/a.js"></script>', "https://x.org/a.js"),
        ("a.html", '<img src="//x.org/a.png">', "//x.org/a.png"),
        ("a.html", '<link rel="stylesheet" href="https://x.org/a.css">', "https://x.org/a.css"),
        ("a.html", "<style>@import 'https://x.org/a.css';</style>", "https://x.org/a.css"),
        ("a.html", '<p style="background: url(https://x.org/a.png)">', "https://x.org/a.png"),
        ("a.html", '<pre class="mermaid">', "unpkg.com"),
        ("a.html", '<a href="https://x.org" data-md-component="source">', "api.github.com"),
        ("a.css", "a { background: url('https://x.org/a.png') }", "https://x.org/a.png"),
        ("a.css", "/* https://x.org */ a { background: url(data:image/png;base64,AA) }", ""),
        ("a.svg", "<svg><style>@font-face { src: url(https://x.org/a.woff) }</style></svg>", "https://x.org/a.woff"),
    ],
)
def test_what_is_loaded_from_elsewhere_is_found(tmp_path: Path, name: str, text: str, loaded: str) -> None:
    (tmp_path / name).write_text(text)
    assert set(requests(tmp_path)) == ({f"{name} loads {loaded}"} if loaded else set())


def test_pictures_load_nothing() -> None:
    assert list(requests(ROOT / "docs")) == []


def test_readers_get_the_first_version(tmp_path: Path) -> None:
    list_versions(tmp_path, ["v2", "main"])
    assert '"version": "v2"' in (tmp_path / "versions.json").read_text()
    assert 'url=v2/index.html"' in (tmp_path / "index.html").read_text()


def test_a_navigation_is_read_in_its_order() -> None:
    assert list(navigation([{"A": "a.md"}, {"B": [{"C": "c.md"}, {"D": [{"E": "e.md"}]}]}])) == ["a.md", "c.md", "e.md"]


@pytest.mark.parametrize(
    ("remote", "web"),
    [
        ("https://github.com/o/cpuwheels.git", "https://github.com/o/cpuwheels"),
        ("git@github.com:o/cpuwheels.git", "https://github.com/o/cpuwheels"),
        ("ssh://git@example.org/o/cpuwheels", "https://example.org/o/cpuwheels"),
        ("/srv/cpuwheels.git", ""),
        ("", ""),
    ],
)
def test_the_repository_is_that_of_the_remote(monkeypatch: pytest.MonkeyPatch, remote: str, web: str) -> None:
    class Done:
        stdout = f"{remote}\n"

    monkeypatch.setattr(docs_session.subprocess, "run", lambda *_, **__: Done)
    assert docs_session.origin() == web


@pytest.mark.parametrize("source", [architecture, farm_drawing])
def test_the_drawing_is_what_its_source_draws(source: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    assert source.main(["--check"]) == 0, capsys.readouterr().out


def test_a_text_that_is_too_long_for_its_box_is_an_error() -> None:
    with pytest.raises(ValueError, match="pixels"):
        architecture.text(0, 0, "d", "x" * 40, 100)
