"""What tests read of a terminal is all that was printed there."""

from __future__ import annotations

import errno
import os
import pty

import pytest

from pseudo_terminal import read_block


def test_what_is_printed_right_before_the_end_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    master, slave = pty.openpty()
    read = os.read

    def end_before_text(*_: object) -> bytes:
        """Answer as Linux does when a program prints and ends while it is looked for text, then for an end."""
        monkeypatch.setattr(os, "read", read)
        os.write(slave, b"the last line")
        os.close(slave)
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "read", end_before_text)
    try:
        assert read_block(master) == b"the last line"
        assert read_block(master) == b""
    finally:
        os.close(master)
