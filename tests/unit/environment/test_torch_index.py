from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from cpuwheels.config.matrix import load_matrix
from cpuwheels.config.pins import TorchPin
from cpuwheels.environment.torch_index import (
    TorchOffer,
    cuda_of,
    is_version,
    offered_files,
    pip_configs,
    torch_offers,
    torch_requirement,
)
from cpuwheels.environment.torch_install import judge_plan
from loopback import DEAD, Answer, Server

if TYPE_CHECKING:
    from pathlib import Path

PIN = TorchPin(index="https://cpu.invalid/whl/cpu")
LAST = f"index {PIN.index} matrix.yaml"


def offers(environ: dict[str, str], *configs: Path) -> list[str]:
    found = torch_offers(PIN, environ, configs)
    return [f"{offer.kind.removeprefix('find-')} {offer.location} {offer.named_by}" for offer in found]


def test_the_last_place_is_the_systems_own_index() -> None:
    (offer,) = torch_offers(PIN, {}, (), "Darwin")
    assert offer.location == PIN.plain_index != PIN.index


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, []),
        ({"UV_FIND_LINKS": "/a,/b"}, ["links /a UV_FIND_LINKS", "links /b UV_FIND_LINKS"]),
        ({"PIP_FIND_LINKS": "/a https://b/c"}, ["links /a PIP_FIND_LINKS", "links https://b/c PIP_FIND_LINKS"]),
        (
            {"PIP_EXTRA_INDEX_URL": "https://x", "PIP_FIND_LINKS": "/p", "UV_FIND_LINKS": "/u"},
            ["links /u UV_FIND_LINKS", "links /p PIP_FIND_LINKS", "index https://x PIP_EXTRA_INDEX_URL"],
        ),
        (
            {"UV_INDEX": "torch-cpu=https://x/cpu https://y?a=b"},
            ["index https://x/cpu UV_INDEX", "index https://y?a=b UV_INDEX"],
        ),
        ({"UV_FIND_LINKS": "/a,/b", "PIP_FIND_LINKS": "/a"}, ["links /a UV_FIND_LINKS", "links /b UV_FIND_LINKS"]),
        ({"UV_FIND_LINKS": "", "PIP_INDEX_URL": " "}, []),
    ],
)
def test_the_order_of_offers(environ: dict[str, str], expected: list[str]) -> None:
    assert offers(environ) == [*expected, LAST]


def test_the_pins_own_index_is_asked_once_and_where_the_user_put_it() -> None:
    assert offers({"PIP_INDEX_URL": PIN.index, "PIP_EXTRA_INDEX_URL": "https://x"}) == [
        f"index {PIN.index} PIP_INDEX_URL",
        "index https://x PIP_EXTRA_INDEX_URL",
    ]


CONFIG = """\
[global]
# find-links = /commented-out
find_links =
    /srv/it's-wheels/
    file:///srv/more
extra-index-url = https://x
timeout = 60

[install]
find-links = /install

[search]
index = https://not-for-packages
"""


def test_pips_configuration_follows_the_environment(tmp_path: Path) -> None:
    config = tmp_path / "pip.conf"
    config.write_text(CONFIG)
    assert offers({"PIP_FIND_LINKS": "/first", "PIP_INDEX_URL": "https://first"}, config) == [
        "links /first PIP_FIND_LINKS",
        f"links /srv/it's-wheels/ {config}",
        f"links file:///srv/more {config}",
        f"links /install {config}",
        "index https://first PIP_INDEX_URL",
        f"index https://x {config}",
        LAST,
    ]


@pytest.mark.parametrize(
    "content", [b"find-links = /a\n", b"[global]\na = 1\na = 2\n", b"[global]\nfind-links = \xff\xfe\n"]
)
def test_a_configuration_that_pip_cannot_read_either_is_passed_over(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "pip.conf").write_bytes(content)
    assert offers({}, tmp_path / "pip.conf") == [LAST]


def test_where_pip_looks_for_its_configuration(tmp_path: Path) -> None:
    places = [tmp_path / ".pip" / "pip.conf", tmp_path / ".config" / "pip" / "pip.conf", tmp_path / "mine.conf"]
    for place in places:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text("")

    def found(**environ: str) -> list[Path]:
        return [path for path in pip_configs({"HOME": str(tmp_path)} | environ) if path.is_relative_to(tmp_path)]

    assert found() == places[:2]
    assert found(PIP_CONFIG_FILE=str(places[2])) == places
    assert found(PIP_CONFIG_FILE=str(tmp_path / "gone")) == places[:2]
    assert found(XDG_CONFIG_HOME=str(tmp_path / "elsewhere")) == places[:1]
    assert found(PIP_CONFIG_FILE=os.devnull) == []


@pytest.mark.parametrize(
    ("target", "expected"), [("x86", "torch==2.13.0+cpu"), ("s390x", "torch==2.13.0+cpu"), ("macos", "torch==2.13.0")]
)
def test_only_a_cpu_build_satisfies_the_requirement(project_root: Path, target: str, expected: str) -> None:
    assert torch_requirement("2.13.0", PIN, load_matrix(project_root).target(target)) == expected


@pytest.mark.parametrize(
    ("offer", "options"),
    [
        (TorchOffer("find-links", "/a", "x"), ["--no-index", "--find-links", "/a"]),
        (TorchOffer("index", "https://a", "x"), ["--default-index", "https://a"]),
    ],
)
def test_uv_is_told_to_look_nowhere_else(offer: TorchOffer, options: list[str]) -> None:
    assert offer.uv_options() == options


GOOD_PLAN = """\
Using Python 3.11.7 environment at: env
Resolved 1 package in 2ms
Would download 1 package
Would install 1 package
 + torch==2.13.0+cpu
"""
CUDA_PLAN = """\
Resolved 4 packages in 1.05s
Would download 4 packages
Would uninstall 1 package
Would install 4 packages
 - filelock==3.0
 + nvidia-cublas==13.1.0.3
 + nvidia-cuda-runtime==13.0.96
 + torch==2.13.0
 + triton==3.6.0
"""
NO_VERSION = """\
Using Python 3.11.7 environment at: env
  \N{MULTIPLICATION SIGN} No solution found when resolving dependencies:
  ╰─▶ Because there is no version of torch==2.13.0+cpu and you require torch==2.13.0+cpu, we can conclude that
      your requirements are unsatisfiable.

"""
REFUSED = """\
error: Failed to fetch: https://cpu.invalid/whl/cpu/torch/
  cause: dns error
"""


@pytest.mark.parametrize(
    ("returncode", "output", "verdict"),
    [
        (0, GOOD_PLAN, ""),
        (
            0,
            CUDA_PLAN,
            "not a CPU build of torch==2.13.0+cpu: it would bring nvidia-cublas, nvidia-cuda-runtime, triton",
        ),
        (1, NO_VERSION, "your requirements are unsatisfiable."),
        (2, REFUSED, "cause: dns error"),
        (1, "", "no such version"),
        (1, "\n \n", "no such version"),
    ],
    ids=["torch alone", "cuda", "no version", "no route", "silence", "blanks"],
)
def test_judging_plans(returncode: int, output: str, verdict: str) -> None:
    assert judge_plan(returncode, output, "torch==2.13.0+cpu") == verdict


@pytest.mark.parametrize(
    ("text", "cuda"),
    [
        ("cuda: Optional[str] = None\n", None),
        ("cuda: str | None = None\n", None),
        ("cuda = None\n", None),
        ("__version__ = '2.13.0+cu130'\ncuda: Optional[str] = '13.0'\nhip: Optional[str] = None\n", "13.0"),
        ('cuda = "12.8"\n', "12.8"),
        ("__version__ = '2.13.0'\n", None),
        ("not_cuda = '1'\n", None),
    ],
)
def test_what_torch_was_built_for_is_read_without_importing_it(tmp_path: Path, text: str, cuda: str | None) -> None:
    (tmp_path / "version.py").write_text(text)
    assert cuda_of(tmp_path) == cuda


NAMES = ["torch-2.12.0+cpu-cp311-cp311-linux_x86_64.whl", "torch-2.13.0+cpu-cp311-cp311-linux_x86_64.whl"]
PAGE = "".join(f'<a href="/whl/cpu/{name.replace("+", "%2B")}#sha256=00">{name}</a>\n' for name in NAMES)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of wheels that is also a simple index."""
    for name in [*NAMES, "torchvision-1.0-py3-none-any.whl", "numpy-2.0-py3-none-any.whl"]:
        (tmp_path / name).write_text("")
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "index.html").write_text(PAGE)
    return tmp_path


def test_what_a_folder_lists(folder: Path) -> None:
    assert offered_files(TorchOffer("find-links", str(folder), "x")) == NAMES
    assert offered_files(TorchOffer("find-links", folder.as_uri(), "x")) == NAMES
    assert offered_files(TorchOffer("index", folder.as_uri(), "x")) == NAMES
    assert offered_files(TorchOffer("find-links", (folder / "torch" / "index.html").as_uri(), "x")) == NAMES
    assert offered_files(TorchOffer("find-links", str(folder / "gone"), "x")) == []
    assert offered_files(TorchOffer("index", (folder / "gone").as_uri(), "x")) == []


def test_what_a_server_lists(server: Server) -> None:
    server.serve("/cpu/torch/", Answer(PAGE.encode()))
    server.serve("/files.html", Answer(PAGE.encode()))
    assert offered_files(TorchOffer("index", server.url("/cpu"), "x")) == NAMES
    assert offered_files(TorchOffer("index", server.url("/cpu/"), "x")) == NAMES
    assert offered_files(TorchOffer("find-links", server.url("/files.html"), "x")) == NAMES
    assert offered_files(TorchOffer("index", server.url("/gone"), "x")) == []


@pytest.mark.parametrize("location", [DEAD, "http://[::oops"])
def test_a_place_that_does_not_answer_is_an_os_error(location: str) -> None:
    with pytest.raises(OSError, match=r"no connection|not a URL") as caught:
        offered_files(TorchOffer("index", location, "x"))
    assert isinstance(caught.value, ConnectionError) is (location == DEAD)


def test_encryption_that_fails_here_may_be_right_for_other_programs(server: Server) -> None:
    with pytest.raises(OSError, match=r"no connection.*SSL") as caught:
        offered_files(TorchOffer("index", server.url("/cpu").replace("http:", "https:"), "x"))
    assert not isinstance(caught.value, ConnectionError)


@pytest.mark.parametrize(
    ("name", "wanted", "expected"),
    [
        (NAMES[1], "torch==2.13.0+cpu", True),
        (NAMES[1], "torch==2.13.0", True),
        (NAMES[1], "torch==2.13.0+xpu", False),
        (NAMES[0], "torch==2.13.0+cpu", False),
        ("torch-2.13.0-cp311-none-macosx_11_0_arm64.whl", "torch==2.13.0", True),
        ("torch-2.13.0-cp311-none-macosx_11_0_arm64.whl", "torch==2.13.0+cpu", False),
        ("torch-2.13.0rc1+cpu-cp311-cp311-linux_x86_64.whl", "torch==2.13.0rc1+cpu", True),
        ("torch-nightly-cp311-cp311-linux_x86_64.whl", "torch==2.13.0+cpu", False),
        ("torch-.whl", "torch==2.13.0+cpu", False),
    ],
)
def test_whether_a_file_may_be_the_version_that_is_wanted(name: str, wanted: str, expected: bool) -> None:
    assert is_version(name, wanted) is expected
