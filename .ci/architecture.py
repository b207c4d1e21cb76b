"""Draw docs/images/architecture.svg: stages, stores and trust boundaries. `.ci/farm_drawing.py` draws a farm likewise.

    python .ci/architecture.py            # writes it
    python .ci/architecture.py --check    # is it what would be written?

What is drawn is the data below. Everything has its place in pixels, as there is little of it; a text that is too long
for its box is an error.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from html import escape
from pathlib import Path

IMAGES = Path(__file__).parents[1] / "docs" / "images"
TITLE = "Stages, stores and trust boundaries: what is fetched, what runs in the sandbox, what is stored, who publishes"
CHARACTER = {"t": 7.2, "d": 6.0, "z": 7.0}
"""Width of a character in each class of text, at most."""

STYLE = """
    text { font-family: system-ui, sans-serif; fill: #1f2328 }
    .t { font-size: 13px; font-weight: 600 }
    .d { font-size: 11.5px }
    .z { font-size: 12px; font-weight: 600; font-style: italic }
    rect { stroke-width: 1.5; rx: 6px }
    .bg { fill: #ffffff; stroke: none }
    .zone { fill: none; stroke-width: 2 }
    .outside { stroke: #cf222e; stroke-dasharray: 6 4 }
    .own { stroke: #0969da }
    .sandbox { stroke: #cf222e; fill: #fff5f5 }
    .kept { stroke: #59636e }
    .public { stroke: #1a7f37 }
    .box { fill: #f6f8fa; stroke: #59636e }
    .a { fill: none; stroke: #59636e; stroke-width: 1.5 }
    marker path { fill: #59636e }
    @media (prefers-color-scheme: dark) {
      text { fill: #f0f6fc }
      .bg { fill: #0d1117 }
      .outside { stroke: #f85149 }
      .own { stroke: #4493f8 }
      .sandbox { stroke: #f85149; fill: #2a1215 }
      .kept { stroke: #9198a1 }
      .public { stroke: #3fb950 }
      .box { fill: #262c36; stroke: #9198a1 }
      .a { stroke: #9198a1 }
      marker path { fill: #9198a1 }
    }
  """


@dataclass(frozen=True)
class Zone:
    """An area in which the same is trusted."""

    x: int
    y: int
    width: int
    height: int
    kind: str
    title: str


@dataclass(frozen=True)
class Box:
    """A stage, a store or a party."""

    x: int
    y: int
    width: int
    title: str
    lines: tuple[str, ...]

    @property
    def height(self) -> int:
        """Height of the box."""
        return 26 + 16 * len(self.lines)


@dataclass(frozen=True)
class Note:
    """Words at a place."""

    x: int
    y: int
    words: tuple[str, ...]


@dataclass(frozen=True)
class Arrow:
    """A path, with words at a place."""

    path: str
    note: Note = Note(0, 0, ())


@dataclass(frozen=True)
class Drawing:
    """Everything of a drawing."""

    name: str
    title: str
    width: int
    height: int
    zones: tuple[Zone, ...]
    boxes: tuple[Box, ...]
    notes: tuple[Note, ...]
    arrows: tuple[Arrow, ...]


ZONES = (
    Zone(10, 10, 740, 104, "outside", "Outside: nothing counts but what a digest, a hash or a signature vouches for"),
    Zone(10, 168, 430, 344, "own", "cpuwheels, its locks and patches: trusted"),
    Zone(500, 168, 250, 344, "sandbox", "Sandbox: the commit's code"),
    Zone(10, 566, 740, 106, "kept", "Stores: an entry has the key of its inputs, and is checked when it is used"),
    Zone(10, 726, 368, 106, "public", "Publisher: has keys; runs nothing of vLLM"),
    Zone(390, 726, 360, 106, "outside", "Others: count by what they sign themselves"),
)
BOXES = (
    Box(22, 44, 166, "vLLM", ("sdist by sha256,", "commit by its hash")),
    Box(204, 44, 166, "PyPI, PyTorch", ("torch and build tools,", "by the hashes of locks")),
    Box(386, 44, 166, "Debian's mirrors", ("compiler, sysroot,", "by sha256")),
    Box(568, 44, 170, "Git repositories", ("oneDNN, Arm Compute", "Library, by commit")),
    Box(22, 204, 126, "source", ("unpacked, patched",)),
    Box(160, 204, 126, "toolchain", ("compiler, sysroot",)),
    Box(298, 204, 130, "environment", ("torch, build tools",)),
    Box(22, 266, 406, "kernels", ("key: the files that compilers read; memory cap",)),
    Box(22, 328, 406, "wheel, audit", ("as declared; floor, instructions, licences; canonical",)),
    Box(22, 390, 406, "load, parity, serving", ("each library; every operator; a server's answers",)),
    Box(22, 452, 406, "record, provenance, reports", ("in dist/, next to the wheel: data from here on",)),
    Box(512, 204, 226, "setup.py", ("what it answers about the package",)),
    Box(512, 266, 226, "CMake, ninja, compilers", ("no network, one folder to write",)),
    Box(512, 328, 226, "build backend", ("packs the wheel",)),
    Box(512, 390, 226, "libraries, tests, server", ("in an environment of their own",)),
    Box(22, 600, 222, "of everybody", ("downloads, toolchains, sysroots,", "environments")),
    Box(256, 600, 150, "of releases", ("kernels, objects,", "what was learned")),
    Box(418, 600, 150, "of commits", ("the same, apart, in", "from-commits/")),
    Box(580, 600, 158, "of local trees", ("the same, apart, in", "from-trees/")),
    Box(22, 760, 160, "check, sign", ("commit, target, bytes", "are those asked for")),
    Box(208, 760, 160, "index", ("static files, by", "commit and version")),
    Box(402, 760, 156, "users, bisections", ("install by hash;", "verify who built it")),
    Box(580, 760, 158, "rebuilders", ("build it again and", "sign what they got")),
)
NOTES = (
    Note(516, 460, ("What comes back is plain files", "of limited size and number.", "No link in them is followed.")),
    Note(22, 702, ("The publisher takes what is in dist/ as data, and compares it with what was asked for.",)),
)
ARROWS = (
    Arrow(
        "M225 114V166",
        Note(
            236,
            136,
            (
                "fetched by cpuwheels, compared before it is used;",
                "what is not pinned: a NOTE, and refused by --locked",
            ),
        ),
    ),
    Arrow("M440 222H498", Note(446, 214, ("step",))),
    Arrow("M498 352H442", Note(446, 344, ("files",))),
    Arrow("M160 512V564", Note(60, 544, ("what is made",))),
    Arrow("M300 564V514", Note(310, 544, ("what has the same key: no work",))),
    Arrow("M600 512V564", Note(612, 544, ("its own compiler cache",))),
    Arrow("M182 789H206"),
    Arrow("M368 789H400"),
    Arrow("M580 803H560"),
)


def text(x: float, y: float, kind: str, words: str, room: float) -> str:
    """Return a line of text.

    Raises:
        ValueError: It is wider than the room for it.
    """
    if (width := len(words) * CHARACTER[kind]) > room:
        raise ValueError(f"'{words}' takes {width:.0f} of {room:.0f} pixels")
    return f'  <text class="{kind}" x="{x}" y="{y}">{escape(words)}</text>'


def drawn(drawing: Drawing) -> str:
    """Return a drawing as SVG."""
    size = f'width="{drawing.width}" height="{drawing.height}" viewBox="0 0 {drawing.width} {drawing.height}"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-labelledby="title">',
        f'  <title id="title">{escape(drawing.title)}</title>',
        f"  <style>{STYLE}</style>",
        '  <defs><marker id="head" viewBox="0 0 8 8" refX="6" refY="4" markerWidth="7" markerHeight="7" orient="auto">',
        '    <path d="M0 0L8 4L0 8z"/></marker></defs>',
        '  <rect class="bg" width="100%" height="100%"/>',
    ]
    for zone in drawing.zones:
        place = f'x="{zone.x}" y="{zone.y}" width="{zone.width}" height="{zone.height}"'
        lines.append(f'  <rect class="zone {zone.kind}" {place}/>')
        lines.append(text(zone.x + 12, zone.y + 22, "z", zone.title, zone.width - 20))
    for box in drawing.boxes:
        place = f'x="{box.x}" y="{box.y}" width="{box.width}" height="{box.height}"'
        lines.append(f'  <rect class="box" {place}/>')
        lines.append(text(box.x + 10, box.y + 19, "t", box.title, box.width - 14))
        lines += [text(box.x + 10, box.y + 35 + 16 * at, "d", one, box.width - 14) for at, one in enumerate(box.lines)]
    lines += [f'  <path class="a" d="{arrow.path}" marker-end="url(#head)"/>' for arrow in drawing.arrows]
    for note in (*drawing.notes, *(arrow.note for arrow in drawing.arrows)):
        room = drawing.width - note.x
        lines += [text(note.x, note.y + 15 * at, "d", words, room) for at, words in enumerate(note.words)]
    return "\n".join([*lines, "</svg>", ""])


def write(drawing: Drawing, words: list[str], about: str | None) -> int:
    """Write a drawing, or check it; return the exit code."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    path = IMAGES / drawing.name
    if parser.parse_args(words).check:
        same = path.is_file() and path.read_text(encoding="utf-8") == drawn(drawing)
        print("up to date" if same else f"{path} is not what would be drawn")
        return int(not same)
    path.write_text(drawn(drawing), encoding="utf-8")
    return 0


ARCHITECTURE = Drawing("architecture.svg", TITLE, 760, 842, ZONES, BOXES, NOTES, ARROWS)


def main(words: list[str]) -> int:
    """Write or check; return the exit code."""
    return write(ARCHITECTURE, words, __doc__)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
