"""The pinned nginx, serving folders on this machine alone."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

CONFIG = """
daemon off;
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{}}
http {{
  access_log off;
  types {{ text/html html; application/json json; application/zip whl; }}
  map $http_accept $page {{
    default index.html;
    "~application/vnd.pypi.simple.v1\\+json" index.v1.json;
  }}
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
  {sites}
}}
"""
SITE = """
  server {{
    listen 127.0.0.1:{listen}; server_name {name}; root {root};
    location ~ /cpu/(vllm/)?$ {{ index $page index.html; }}
    location ~ /index.v1.json$ {{ types {{ }} default_type application/vnd.pypi.simple.v1+json; }}
  }}
"""


@dataclass(frozen=True)
class Site:
    """A folder that is served.

    Attributes:
        root: The folder.
        name: Of the host, if it is served over HTTPS.
        certificate: Chain and key of that host; plain HTTP without.
    """

    root: Path
    name: str = ""
    certificate: Path | None = None

    def config(self, port: int) -> str:
        """Return the part of nginx's configuration."""
        if self.certificate is None:
            return SITE.format(listen=port, name='""', root=self.root)
        tls = f"{port} ssl; ssl_certificate {self.certificate}; ssl_certificate_key {self.certificate}"
        return SITE.format(listen=tls, name=self.name, root=self.root)


@contextlib.contextmanager
def nginx(programs: Path, folder: Path, sites: Sequence[Site]) -> Iterator[list[int]]:
    """Serve folders for as long as the block lasts, and yield the port of each.

    Args:
        programs: Root that nginx was unpacked to.
        folder: Empty; for its own files.
        sites: What is served.
    """
    ports = free_ports(len(sites))
    # Whoever runs the tests runs nginx, also as root, so that it may read what they wrote.
    user = "user root;" if os.geteuid() == 0 else ""
    served = "".join(site.config(port) for site, port in zip(sites, ports, strict=True))
    (folder / "nginx.conf").write_text(user + CONFIG.format(folder=folder, sites=served))
    command = [programs / "usr/sbin/nginx", "-p", folder, "-c", folder / "nginx.conf", "-e", folder / "error.log"]
    server = subprocess.Popen(command)
    try:
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", ports[-1]), 1):
                break
            assert server.poll() is None, (folder / "error.log").read_text()
            time.sleep(0.1)
        yield ports
    finally:
        server.terminate()
        server.wait(20)


def free_ports(count: int) -> list[int]:
    """Return ports of this machine that nothing uses."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(contextlib.closing(socket.socket())) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
