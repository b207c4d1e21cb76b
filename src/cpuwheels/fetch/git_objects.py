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
    """The bytes of a command's output."""

    def __init__(self, parts: Iterator[bytes]) -> None:
        self._parts = parts
        self._rest = b""

    def line(self) -> bytes:
        """Return what is left of a line, without its end."""
        while b"\n" not in self._rest:
            if not self._more():
                break
        line, _, self._rest = self._rest.partition(b"\n")
        return line

    def bytes(self, count: int) -> Iterator[bytes]:
        """Yield so many bytes, in parts; fewer if there are no more."""
        while count and (self._rest or self._more()):
            part, self._rest = self._rest[:count], self._rest[count:]
            count -= len(part)
            yield part

    def _more(self) -> bool:
        for part in self._parts:
            if part:
                self._rest += part
                return True
        return False
