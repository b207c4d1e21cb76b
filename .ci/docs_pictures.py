"""Make the pictures of the documentation again: of a terminal, from what commands print, and of pages of a build.

    python .ci/docs_pictures.py [NAME ...] [--build dist/x86/0.33.0]

Pictures of a terminal are SVG, written by rich from the output as it is. Those of pages are WebP, taken with Chromium
from the files that a build left in its folder, without the release of the machine's kernel.
"""

from __future__ import annotations

import argparse
import io
import os
import re
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from chromium import Tab, chromium
from docs_browser import SETTLE_SECONDS, served
from rich.console import Console
from rich.terminal_theme import SVG_EXPORT_THEME
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[1]
IMAGES = ROOT / "docs" / "images"
FORMAT = """\
<svg class="rich-terminal" viewBox="0 0 {terminal_width} {terminal_height}" width="{terminal_width}" role="img" \
aria-label="Output of a command" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; \
font-size: {char_height}px; line-height: {line_height}px; font-variant-east-asian: full-width; }}
{styles}
</style>
<defs>{lines}</defs>
<rect fill="#292929" width="{terminal_width}" height="{terminal_height}" rx="8"/>
<g transform="translate({terminal_x}, 12)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""
"""As rich's own, without the frame of a window and without fonts from another server."""

_MARGIN = 12
"""Above and below the text; rich gives the height of the text alone."""


@dataclass(frozen=True)
class Terminal:
    """A command whose output is a picture.

    Attributes:
        command: What is run, and shown in front of its output; `{wheel}` is the file name of the build's wheel.
        columns: Width of the terminal.
    """

    command: str
    columns: int = 92


TERMINALS = {
    "matrix": Terminal("cpuwheels matrix"),
    "error": Terminal("cpuwheels build x68", 72),
    "runtime": Terminal("cpuwheels doctor --runtime {wheel} --machine laptop-avx2.txt", 100),
}
PAGES = {"report": ("report.html", 960, 640), "parity": ("parity.html", 960, 880)}
"""Picture → the page, and the size of the window."""


def main(words: list[str]) -> int:
    """Make pictures; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join([*TERMINALS, *PAGES])} (default: all)")
    parser.add_argument("--build", type=Path, default=ROOT / "dist" / "x86" / "0.33.0", help="folder of a build")
    options = parser.parse_args(words)
    chosen = options.names or [*TERMINALS, *PAGES]
    if wrong := {*chosen} - {*TERMINALS, *PAGES}:
        parser.error(f"there is no picture {', '.join(sorted(wrong))}")
    for name in filter(TERMINALS.__contains__, chosen):
        (IMAGES / f"{name}.svg").write_text(terminal(TERMINALS[name], options.build.resolve()), encoding="utf-8")
    if pages := [name for name in chosen if name in PAGES]:
        with _shown(options.build) as build, served(build) as address, chromium(build) as browser:
            for name in pages:
                path, width, height = PAGES[name]
                tab = Tab(browser, f"{address}/{path}", width, height)
                time.sleep(SETTLE_SECONDS)
                tab.screenshot(IMAGES / f"{name}.webp", whole=False)
                tab.close()
    return 0


@contextmanager
def _shown(build: Path) -> Iterator[Path]:
    """Yield a folder with a build's pages as they are shown."""
    with tempfile.TemporaryDirectory() as name:
        for path, _, _ in PAGES.values():
            page = re.sub(r"\bLinux \d[\w.+-]*", "Linux", (build / path).read_text(encoding="utf-8"))
            (Path(name) / path).write_text(page, encoding="utf-8")
        yield Path(name)


def terminal(picture: Terminal, build: Path) -> str:
    """Return the picture of a command and its output, run where nothing else is."""
    with tempfile.TemporaryDirectory() as name:
        work, wheel = Path(name), "wheel"
        for link in (*build.glob("*.whl"), *(ROOT / "tests" / "data" / "machines").glob("*.txt")):
            (work / link.name).symlink_to(link)
            wheel = link.name if link.suffix == ".whl" else wheel
        line = picture.command.format(wheel=wheel)
        env = {
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "HOME": name,
            "FORCE_COLOR": "1",
            "COLUMNS": str(picture.columns),
            "TERM": "xterm-256color",
            "LC_ALL": "C.UTF-8",
        }
        program, *words = line.split()
        done = subprocess.run(
            [Path(sys.executable).with_name(program), *words],
            cwd=work,
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
    console = Console(
        record=True, file=io.StringIO(), width=picture.columns, force_terminal=True, color_system="truecolor"
    )
    console.print(Text(f"$ {line}", style="bold"))
    console.print(Text.from_ansi(done.stdout.rstrip("\n")))
    drawn = console.export_svg(theme=SVG_EXPORT_THEME, code_format=FORMAT, unique_id="terminal")
    return _with_margins(drawn)


def _with_margins(drawn: str) -> str:
    """Return a picture that is higher by the margins above and below its text."""
    return re.sub(
        r'(viewBox="0 0 \S+ |<rect fill="#292929" width="\S+" height=")([\d.]+)',
        lambda found: f"{found[1]}{float(found[2]) + 2 * _MARGIN:g}",
        drawn,
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
