"""The pages of an index, read as package managers read them."""

from __future__ import annotations

import json
from urllib.parse import unquote, urljoin

import pytest

from cpuwheels.index.layout import companion_path, link, project_folder, views, wheel_path
from cpuwheels.index.simple_pages import read_view, view_pages
from html_anchors import anchors
from index_entries import COMMIT, entry

ROOT = "https://wheels.example.org/deep/"


ARM = entry(
    filename="vllm-0.32.1.dev5+gccccccccc.cpu-1-cp38-abi3-manylinux_2_27_aarch64.whl", sha256="d" * 64, target="arm"
)


def test_the_links_lead_to_the_wheels_wherever_the_index_lies() -> None:
    pages = view_pages(COMMIT, [entry(), ARM])
    found = anchors(pages[f"{COMMIT}/cpu/vllm/index.html"])
    assert len(found) == 2
    for anchor, one in zip(found, (ARM, entry()), strict=True):
        url, _, fragment = str(anchor["href"]).partition("#")
        assert unquote(urljoin(f"{ROOT}{COMMIT}/cpu/vllm/", url)) == ROOT + wheel_path(one)
        assert "+" not in url
        assert fragment == f"sha256={one.sha256}"
        assert anchor["data-core-metadata"] == anchor["data-dist-info-metadata"] == f"sha256={one.metadata_sha256}"
        assert anchor["data-requires-python"] == "<3.15,>=3.11"
    (project,) = anchors(pages[f"{COMMIT}/cpu/index.html"])
    assert urljoin(f"{ROOT}{COMMIT}/cpu/", str(project["href"])) == f"{ROOT}{COMMIT}/cpu/vllm/"


def test_html_is_escaped() -> None:
    page = view_pages(COMMIT, [entry()])[f"{COMMIT}/cpu/vllm/index.html"]
    assert 'data-requires-python="&lt;3.15,&gt;=3.11"' in page
    assert "data-requires-python" not in view_pages("a", [entry(requires_python="")])["a/cpu/vllm/index.html"]


def test_the_json_page_is_that_of_the_simple_api() -> None:
    page = json.loads(view_pages(COMMIT, [entry()])[f"{COMMIT}/cpu/vllm/index.v1.json"])
    (file,) = page["files"]
    assert page["meta"] == {"api-version": "1.3"}
    assert page["name"] == "vllm"
    assert page["versions"] == ["0.32.1.dev5+gccccccccc.cpu"]
    assert file["hashes"] == {"sha256": "a" * 64}
    assert (file["size"], file["upload-time"]) == (7, "2026-11-23T05:00:00Z")
    assert file["core-metadata"] == {"sha256": "b" * 64}


def test_metadata_json_has_the_known_fields() -> None:
    rows = json.loads(view_pages(COMMIT, [entry(), ARM])[f"{COMMIT}/cpu/vllm/metadata.json"])
    assert rows[1] == {
        "package_name": "vllm",
        "version": "0.32.1.dev5+gccccccccc.cpu",
        "build_tag": None,
        "python_tag": "cp38",
        "abi_tag": "abi3",
        "platform_tag": "manylinux_2_27_x86_64",
        "variant": "cpu",
        "filename": entry().filename,
        "path": f"../../../files/{'a' * 16}/{entry().filename.replace('+', '%2B')}",
    }
    assert rows[0]["build_tag"] == "1"


def test_the_entries_are_read_back_from_the_json_page() -> None:
    pages = view_pages("0.32.0", [entry(), ARM])
    assert read_view(pages["0.32.0/cpu/vllm/index.v1.json"].encode()) == [ARM, entry()]


@pytest.mark.parametrize("page", [b"", b"[]", b"{}", b'{"files": [{}]}', b'{"files": [{"_cpuwheels": {"a": 1}}]}'])
def test_another_page_is_refused(page: bytes) -> None:
    with pytest.raises(ValueError, match="not a page that this version writes"):
        read_view(page)


def test_the_same_entries_give_the_same_pages() -> None:
    assert view_pages("a", [entry(), ARM]) == view_pages("a", [ARM, entry()])


def test_which_pages_list_a_wheel() -> None:
    release = entry(version="0.32.0+cpu", filename="vllm-0.32.0+cpu-cp38-abi3-manylinux_2_27_x86_64.whl", commit=None)
    assert views(entry(), nightly=True) == [COMMIT, "nightly"]
    assert views(entry(), nightly=False) == [COMMIT]
    assert views(release, nightly=True) == ["0.32.0", "nightly"]
    assert views(entry(version="0.33.0rc1+cpu"), nightly=False) == [COMMIT, "0.33.0rc1"]


def test_what_belongs_to_a_wheel_lies_beside_it() -> None:
    assert companion_path(entry(), "record.json") == f"files/{'a' * 16}/record.json"
    assert project_folder("nightly") == "nightly/cpu/vllm"
    assert link("", "files/a b/c+d.whl") == "files/a%20b/c%2Bd.whl"
