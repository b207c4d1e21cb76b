"""What pages show to those who want to install, and the script that makes it right where they are."""

from __future__ import annotations

import json
import re
from html import unescape
from urllib.parse import quote, urljoin

import pytest
import quickjs

from cpuwheels.index.commit_pages import Commits, row_of
from cpuwheels.index.entry import Lock
from cpuwheels.index.html import view_page
from cpuwheels.index.installs import installs_of, locked_installs, newest_installs
from cpuwheels.index.overview import root_page
from index_entries import COMMIT, entry

RELEASE = entry(version="0.32.0+cpu", commit="d" * 40, filename="vllm-0.32.0+cpu-cp38-abi3-manylinux_2_27_x86_64.whl")
ARM = entry(target="arm", filename="vllm-0.32.1.dev5+gccccccccc.cpu-cp38-abi3-manylinux_2_27_aarch64.whl")

BROWSER = """
const kept = {selected: null, copied: null};
class URL {
  constructor(url, base) {
    [this.href, this.protocol, this.hostname] = JSON.parse(resolve(url, base ?? ""));
  }
}
const code = {textContent: shown}, button = {hidden: true, textContent: "copy"};
const box = {querySelector: name => name === "code" ? code : button};
const document = {
  currentScript: {dataset: {root: root}}, baseURI: page, querySelectorAll: () => [box],
  execCommand: what => { if (allowed && what === "copy") kept.copied = kept.selected; return allowed; },
};
const getSelection = () => ({selectAllChildren: element => { kept.selected = element.textContent; }});
const navigator = clipboard ? {clipboard: {writeText: async text => {
  if (clipboard === "refuses") throw new Error();
  kept.copied = text;
}}} : {};
"""
"""As much of a browser as the script asks for; a secure page has a clipboard."""


def clicked(
    command: str, page: str = "https://a.org/", root: str = "./", *, clipboard: str = "", allowed: bool = True
) -> dict[str, str]:
    """Return what is shown, selected and copied after a click on the button."""
    context = quickjs.Context()

    def resolve(url: str, base: str) -> str:
        found = urljoin(base, url)
        scheme, _, rest = found.partition("://")
        host = rest.partition("/")[0]
        return json.dumps([found, f"{scheme}:", re.sub(r":\d+$", "", host)])

    context.add_callable("resolve", resolve)
    given = {"shown": command, "page": page, "root": root, "clipboard": clipboard, "allowed": allowed}
    for name, value in given.items():
        context.eval(f"const {name} = {json.dumps(value)};")
    context.eval(BROWSER + script(root_page(Commits().with_row(row_of(entry())), [])["index.html"]))
    assert context.eval("button.hidden") is False
    context.eval("button.onclick()")
    while context.execute_pending_job():
        pass
    found: dict[str, str] = json.loads(
        context.eval("JSON.stringify({...kept, shown: code.textContent, button: button.textContent})")
    )
    return found


def script(page: str) -> str:
    (found,) = re.findall(r"<script data-root=[^>]*>(.*?)</script>", page, re.DOTALL)
    return str(found)


def shown(page: str) -> list[str]:
    return [unescape(command) for command in re.findall(r'<div class="command">.*?<code>(.*?)</code>', page)]


@pytest.mark.parametrize(
    ("clipboard", "allowed", "button"),
    [("works", False, "copied"), ("", True, "copied"), ("refuses", True, "copied"), ("", False, "press Ctrl+C")],
)
def test_a_click_copies_with_and_without_a_clipboard(clipboard: str, allowed: bool, button: str) -> None:
    found = clicked("uv pip install INDEX_URL/v/cpu", clipboard=clipboard, allowed=allowed)
    command = "uv pip install https://a.org/v/cpu"
    assert found["shown"] == found["selected"] == command
    assert found["copied"] == (command if button == "copied" else None)
    assert found["button"] == button


@pytest.mark.parametrize(
    ("page", "root", "address"),
    [
        ("https://a.org/", "./", "https://a.org/"),
        ("https://a.org/deep/index.html", "./", "https://a.org/deep/"),
        ("http://127.0.0.1:8000/0.32.0/", "../", "http://127.0.0.1:8000/"),
        ("http://localhost/deep/0.32.0/index.html", "../", "http://localhost/deep/"),
    ],
)
def test_the_indexs_address_is_filled_in(page: str, root: str, address: str) -> None:
    assert clicked("pip install a --extra-index-url INDEX_URL/v", page, root)["shown"] == (
        f"pip install a --extra-index-url {address}v"
    )


@pytest.mark.parametrize(
    "page", ["https://a.org/x;id;$(reboot)/", "https://a.org/$&/", "https://a.org/a'b/", "https://a.org/a b/"]
)
def test_an_address_that_means_something_to_a_shell_is_not_filled_in(page: str) -> None:
    assert clicked("pip install a --extra-index-url INDEX_URL/v", page)["shown"].endswith("INDEX_URL/v")


def test_pip_is_told_to_trust_a_host_without_https() -> None:
    assert clicked("pip install INDEX_URL/v", "http://wheels.lan:81/")["shown"] == (
        "pip install http://wheels.lan:81/v --trusted-host wheels.lan"
    )
    assert clicked("uv pip install INDEX_URL/v", "http://wheels.lan:81/")["shown"] == (
        "uv pip install http://wheels.lan:81/v"
    )


def test_each_page_shows_commands_for_uv_and_pip() -> None:
    commits = Commits().with_row(row_of(entry()))
    pages = root_page(commits, [entry()]) | view_page(COMMIT, [entry()]) | view_page("nightly", [entry()])
    for path, page in pages.items():
        assert shown(page) == list(installs_of([entry()])[0].commands.values())
        assert f'<script data-root="{"./" if path == "index.html" else "../"}">' in page


def test_a_wheel_with_a_lock_has_its_commands() -> None:
    folder, name = f"INDEX_URL/files/{'a' * 16}", RELEASE.filename
    pip = f"pip install -r {folder}/pylock.toml"
    both = RELEASE.model_copy(update={"lock": Lock(sha256="f" * 64, by_url=True)})
    assert locked_installs(both) == {"uv": f"uv {pip}", "pip": pip}
    fetch = f"curl --fail-early -fsSL {folder}/pylock.toml -o pylock.vllm.toml {folder}/{quote(name)} -o {name}"
    path = RELEASE.model_copy(update={"lock": Lock(sha256="f" * 64)})
    assert locked_installs(path) == {"uv": f"{fetch} && uv pip install -r pylock.vllm.toml", "pip": pip}
    assert locked_installs(RELEASE) == {}
    for view in ("0.32.0", "nightly"):
        page = view_page(view, [path, ARM])[f"{view}/index.html"]
        assert shown(page)[-2:] == list(locked_installs(path).values())
        assert f'<a href="../files/{"a" * 16}/pylock.toml">pylock.toml</a>' in page
        assert f"sha256 <code>{'f' * 64}</code>" in page
        assert page.count(", locked</span>") == 2
        assert page.index(", locked</span>") < page.index("<script")  # it fills in the address before it


def test_the_newest_page_names_what_stays() -> None:
    page = view_page("nightly", [RELEASE, ARM])["nightly/index.html"]
    assert "/nightly/cpu" not in page
    assert [line for line in shown(page) if line.startswith("uv")] == [
        "uv pip install vllm==0.32.0+cpu --index INDEX_URL/0.32.0/cpu --torch-backend cpu",
        f"uv pip install vllm==0.32.1.dev5+gccccccccc.cpu --index INDEX_URL/{COMMIT}/cpu --torch-backend cpu",
    ]
    assert re.findall(r"<h3>(.*?)</h3>", page) == ["x86", "arm"]
    assert f'<a href="../{COMMIT}/"><code>{COMMIT}</code></a>' in page


def test_targets_of_one_version_share_its_commands() -> None:
    (install,) = installs_of([entry(), ARM])
    assert install.targets == ("x86", "arm")
    assert [one.targets for one in installs_of([ARM, RELEASE], COMMIT)] == [("x86",), ("arm",)]


def test_without_a_newest_the_newest_commit_with_a_wheel_is_shown() -> None:
    release = row_of(RELEASE.model_copy(update={"commit": None, "made": "2026-02-02T00:00:00Z"}))
    older = row_of(entry(made="2026-01-01T00:00:00Z"))
    without = older.model_copy(update={"commit": "e" * 40, "wheels": {}, "made": "2026-03-03T00:00:00Z"})
    commits = Commits().with_row(older).with_row(without).with_row(release)
    (install,) = newest_installs(commits, [])
    assert "--index INDEX_URL/0.32.0/cpu " in install.commands["uv"]
    assert "vllm==0.32.0+cpu " in install.commands["pip"]
    assert newest_installs(Commits(), []) == []
    assert "<script" not in root_page(Commits(), [])["index.html"]
