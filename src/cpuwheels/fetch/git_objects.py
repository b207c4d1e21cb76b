"""Whether objects of git have the content that they are named after; git compares that only when it fetches."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from cpuwheels.core.capture import blocks
from cpuwheels.core.errors import CommandError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from cpuwheels.fetch.git import Git

_SHA1_DIGITS = 40


def misnamed_objects(git: Git, names: Sequence[str]) -> list[str]:
    """Return what is wrong with objects, one line each, in the order of the names.

    Nothing is fetched: an object that is not there is wrong.

    Args:
        git: The repository.
        names: Full hashes.
    """
    asked = "".join(f"{name}\n" for name in names).encode()
    command, env = git.command("cat-file", "--batch", "--buffer"), git.env | {"GIT_NO_LAZY_FETCH": "1"}
    stream = _Stream(blocks(command, env=env, stdin=asked))
    wrong = []
    try:
        for name in names:
            words = stream.line().split()
            if len(words) != 3 or words[0].decode() != name:  # noqa: PLR2004  (name, kind, size)
                wrong.append(f"{name} is not there")
                continue
            digest = hashlib.sha1(usedforsecurity=False) if len(name) == _SHA1_DIGITS else hashlib.sha256()
            digest.update(b"%s %s\0" % (words[1], words[2]))
            for part in stream.bytes(int(words[2])):
                digest.update(part)
            stream.line()
            if digest.hexdigest() != name:
                wrong.append(f"{name} has the content of {digest.hexdigest()}")
    except CommandError as error:
        wrong.append(f"git cannot read it: {(error.output or error.what).strip()}")
    return wrong


class _Stream:
    """The bytes of a command's output, which come in parts of megabytes; only what is asked for is copied."""

    def __init__(self, parts: Iterator[bytes]) -> None:
        self._parts = parts
        self._part, self._at = b"", 0

    def line(self) -> bytes:
        """Return what is left of a line, without its end."""
        while (end := self._part.find(b"\n", self._at)) < 0:
            if not self._more():
                end = len(self._part)
                break
        line, self._at = self._part[self._at : end], end + 1
        return line

    def bytes(self, count: int) -> Iterator[bytes]:
        """Yield so many bytes, in parts; fewer if there are no more."""
        while count and (self._at < len(self._part) or self._more()):
            piece = self._part[self._at : self._at + count]
            self._at += len(piece)
            count -= len(piece)
            yield piece

    def _more(self) -> bool:
        """Append the next part to what is left, and return whether there is one."""
        for part in self._parts:
            if part:
                self._part, self._at = self._part[self._at :] + part, 0
                return True
        return False
