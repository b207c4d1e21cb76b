"""The web as a command that installs a wheel sees it: an index of wheels, PyTorch's index, and PyPI, which is real.

The commands have the hosts of the first two inside; the environment sends them to servers on this machine, and is empty
of all that could help a command that is wrong.
"""

from __future__ import annotations

import contextlib
import os
import ssl
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import certifi
import tomli_w
import trustme
from uv import find_uv_bin

from cpuwheels.config.matrix import load_matrix
from cpuwheels.fetch.uv import site_packages
from cpuwheels.index.bucket import Folder
from cpuwheels.index.publish_wheel import publish_wheel
from layout import ROOT
from nginx_server import Site, nginx
from redirected import proxy
from sample_source import sha256
from small_wheels import write_wheel
from wheel_notes import wheel_note

PYTORCH, EXAMPLE = "download.pytorch.org", "wheels.example.org"
TORCH = "2.13.0+cpu"
RELEASE, COMMIT = "0.32.0+cpu", "c" * 40
BUILT = "0.33.0+cpu"
"""What a build without a source makes; it is not in the index."""

NEWEST = f"0.32.1.dev5+g{COMMIT[:9]}.cpu"
"""PyPI has newer ones than both."""

_TAGS = {"x86": "cp38-abi3-manylinux_2_27_x86_64", "arm": "cp38-abi3-manylinux_2_27_aarch64"}
_KEPT = ("HOME", "LANG", "TMPDIR", "USER")


@dataclass(frozen=True)
class Web:
    """What is served, and how it is reached.

    Attributes:
        index: Folder of the index.
        url: Its address.
        work: Folder with ``dist``, where the wheels were built.
        env: The environment of a command.
        asked: Hosts that were asked over HTTPS.
    """

    index: Path
    url: str
    work: Path
    env: dict[str, str]
    asked: list[str]

    def run(self, command: str, venv: Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        """Run a command as a person would who has activated an environment."""
        path = os.pathsep.join([str(venv / "bin"), str(Path(find_uv_bin()).parent), os.defpath])
        # A cache of its own, so that every command asks for all that it needs.
        caches = {"PIP_CACHE_DIR": str(venv / "pip-cache"), "UV_CACHE_DIR": str(venv / "uv-cache")}
        env = caches | self.env | {"VIRTUAL_ENV": str(venv), "PATH": path}
        return subprocess.run(
            ["sh", "-c", command], env=env, cwd=cwd or self.work, capture_output=True, text=True, check=False
        )


@contextlib.contextmanager
def serve_web(nginx_root: Path, folder: Path) -> Iterator[Web]:
    """Serve an index with a release and a commit's wheel, and a torch for them, for as long as the block lasts.

    Args:
        nginx_root: Where nginx was unpacked.
        folder: Empty; for everything that is served.
    """
    for target in ("arm", "x86"):
        _publish(folder, target, RELEASE, nightly=target == "arm")
    _publish(folder, "x86", NEWEST, nightly=True, commit=COMMIT)
    _build(folder, "x86", BUILT)
    pytorch = folder / "pytorch"
    for version in (TORCH, "2.14.0+cpu"):
        offer_torch(pytorch, write_wheel(folder / "torch", "torch", version, {"torch/__init__.py": ""}))
    with reached(nginx_root, folder, index=folder / "index", pytorch=pytorch) as found:
        _publish_locks(found, folder)
        yield found


def _publish_locks(web: Web, folder: Path) -> None:
    """Publish two wheels again, now with locks: the release's names its wheel by URL, the commit's by path."""
    venv, requirements = new_venv(folder / "lock"), folder / "requirements.in"
    requirements.write_text(f"torch=={TORCH}\niniconfig\n")
    command = "uv pip compile requirements.in --format pylock.toml -o pylock.toml --torch-backend cpu"
    done = web.run(command, venv, folder)
    assert done.returncode == 0, done.stderr
    lock = tomllib.loads((folder / "pylock.toml").read_text())
    for version, address in ((RELEASE, f"https://{EXAMPLE}/"), (NEWEST, None)):
        (wheel,) = folder.glob(f"dist/x86/*/vllm-{version}-*.whl")
        file = {"path": wheel.name, "hashes": {"sha256": sha256(wheel)}}
        packages = [*lock["packages"], {"name": "vllm", "version": version, "wheels": [file]}]
        wheel.with_name("pylock.toml").write_text(tomli_w.dumps(lock | {"packages": packages}))
        publish_wheel(Folder(folder / "index"), wheel, load_matrix(ROOT), address=address)


def offer_torch(pytorch: Path, wheel: Path) -> None:
    """Add a wheel to what is served as PyTorch's host."""
    page = pytorch / "whl" / "cpu" / wheel.name.partition("-")[0] / "index.html"
    page.parent.mkdir(parents=True, exist_ok=True)
    for folder in (page.parent, page.parent.parent):  # a lock names the second
        (folder / wheel.name).symlink_to(wheel)
    with page.open("a") as stream:
        stream.write(f'<a href="{wheel.name}">{wheel.name}</a>\n')


@contextlib.contextmanager
def reached(
    nginx_root: Path, folder: Path, *, index: Path, pytorch: Path | None, caches: Mapping[str, str] | None = None
) -> Iterator[Web]:
    """Serve two folders, the one as an index of wheels and the other as PyTorch's host.

    Args:
        nginx_root: Where nginx was unpacked.
        folder: For certificates and logs.
        index: Of the wheels.
        pytorch: With ``whl/cpu``; without it PyTorch's own host is asked.
        caches: Variables that name a cache; if there are none, each environment has its own.
    """
    authority = trustme.CA()
    certificate, bundle = folder / "certificate.pem", folder / "authorities.pem"
    authority.issue_cert(PYTORCH, EXAMPLE).private_key_and_cert_chain_pem.write_to_path(certificate)
    known = ssl.get_default_verify_paths().cafile or certifi.where()
    bundle.write_bytes(Path(known).read_bytes() + authority.cert_pem.bytes())
    (folder / "nginx").mkdir()
    hosts = {EXAMPLE: index} | ({PYTORCH: pytorch} if pytorch else {})
    sites = [Site(index), *(Site(root, host, certificate) for host, root in hosts.items())]
    with (
        nginx(nginx_root, folder / "nginx", sites) as (plain, *secure),
        proxy(dict(zip(hosts, secure, strict=True))) as (address, asked),
    ):
        env = (
            {name: os.environ[name] for name in _KEPT if name in os.environ}
            | {
                "HTTPS_PROXY": address,
                "SSL_CERT_FILE": str(bundle),
                "REQUESTS_CA_BUNDLE": str(bundle),
                "PIP_CERT": str(bundle),
                "PIP_CONFIG_FILE": os.devnull,
                "UV_NO_CONFIG": "1",
            }
            | dict(caches or {})
        )
        yield Web(index, f"http://127.0.0.1:{plain}/", folder, env, asked)


def new_venv(folder: Path, python: Path | None = None) -> Path:
    """Make an environment with pip, of the interpreter that runs the tests if no other is given."""
    subprocess.run([find_uv_bin(), "venv", "-q", "--seed", "--python", python or sys.executable, folder], check=True)
    return folder


def with_newest_pip(venv: Path) -> Path:
    """Give an environment the pip of the tests: older ones read no lock."""
    pip = f"pip=={metadata.version('pip')}"
    subprocess.run([find_uv_bin(), "pip", "install", "-q", "--python", venv / "bin" / "python", pip], check=True)
    return venv


def installed(venv: Path) -> dict[str, str]:
    """Return the versions of what is installed, by name."""
    return {one.name: one.version for one in metadata.distributions(path=[str(site_packages(venv))])}


def _publish(folder: Path, target: str, version: str, *, nightly: bool, commit: str = "") -> None:
    wheel = _build(folder, target, version, commit)
    publish_wheel(Folder(folder / "index"), wheel, load_matrix(ROOT), nightly=nightly)


def _build(folder: Path, target: str, version: str, commit: str = "") -> Path:
    public = version.partition("+")[0]
    epoch = 1_790_000_000 + (40_000 if commit else 0)
    note = wheel_note(target=target, epoch=epoch, commit=commit or None)
    info, needs = f"vllm-{version}.dist-info", (f"torch=={TORCH}", "iniconfig")
    files = {"vllm/__init__.py": "", f"{info}/cpuwheels.json": note.render().decode()}
    return write_wheel(folder / "dist" / target / public, "vllm", version, files, *needs, tag=_TAGS[target], sbom=True)
