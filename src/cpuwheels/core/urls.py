"""URLs as messages and records may show them: without the credentials that they can carry."""

from __future__ import annotations

import re

_USERINFO = re.compile(r"://[^\s/?#]*@")
_MISWRITTEN = re.compile(r"://[^\s/?#@:\[]*:(?!\d*(?:[/?#\s]|$))\S{0,500}@")
"""A password with an unescaped ``/``, ``?`` or ``#``: what follows the colon is no port."""


def without_userinfo(text: str) -> str:
    """Return a URL, or a text with URLs in it, without the user names and passwords in them (RFC 3986, 3.2.1).

    A text without any stays as it is, so that this may be applied twice, and to paths.
    """
    if "@" not in text:
        return text
    return _MISWRITTEN.sub("://", _USERINFO.sub("://", text))
