"""Attacks by a server that is asked for a pinned file."""

from __future__ import annotations

import datetime as dt
import ssl
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import trustme

from cpuwheels.core.errors import DigestMismatchError, DiskFullError, StoreError
from cpuwheels.core.limits import Patience
from cpuwheels.core.store import Store
from cpuwheels.fetch.download import ATTEMPTS, download, fetch
from loopback import DEAD, Answer, Server
from pinned_file import GOOD, SHA256, SHORT, pinned
from raw_server import RawServer, drip, head

Refused = Callable[..., str]
Send = Callable[[bytes], None]

OTHER = b"x" * len(GOOD)


@pytest.mark.parametrize(
    ("answer", "tries"),
    [
        pytest.param(Answer(status=404), 1, id="01-missing"),
        pytest.param(Answer(status=403), 1, id="02-forbidden"),
        pytest.param(Answer(status=503), ATTEMPTS, id="03-overloaded"),
        pytest.param(Answer(GOOD[:100], announced=len(GOOD)), ATTEMPTS, id="04-cut"),
        pytest.param(Answer(GOOD[:100]), 1, id="05-short"),
    ],
)
def test_no_file(server: Server, refused: Refused, answer: Answer, tries: int) -> None:
    refused(server.serve("/f", answer))
    assert server.asked == ["/f"] * tries * 2


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(OTHER, id="06-other-bytes"),
        pytest.param(GOOD + b"more", id="07-more-bytes"),
        pytest.param(b"\0" * (64 << 20), id="08-64-mib-for-17-kb"),
    ],
)
def test_other_bytes(server: Server, refused: Refused, body: bytes) -> None:
    message = refused(server.serve("/f", Answer(body)), error=DigestMismatchError)
    assert SHA256 in message
    # More than the pinned size is not fetched.
    assert ("more than 17000 bytes" in message) == (len(body) > len(GOOD))


@pytest.mark.parametrize(
    "url",
    [
        pytest.param(f"{DEAD}/f", id="09-nobody-listens"),
        pytest.param("file:///nowhere/f", id="10-no-such-file"),
        pytest.param("http://[::bad/f", id="11-no-url"),
        pytest.param("ftp://127.0.0.1/etc/hostname", id="12-ftp"),
        pytest.param("http://127.0.0.1:9/\x1b[2J", id="13-escape-in-a-url"),
    ],
)
def test_no_server(refused: Refused, url: str) -> None:
    refused(url, file_name="f")


def test_14_password_in_a_url(server: Server, refused: Refused) -> None:
    url = server.serve("/f", Answer(status=404)).replace("://", "://user:secret@")
    assert "secret" not in refused(url)
    assert "secret" not in refused(f"http://user:secret@127.0.0.1:9/{'f' * 20}")


def test_15_redirects_without_end(server: Server, refused: Refused) -> None:
    server.serve("/b", Answer(status=302, headers={"Location": "/a"}))
    assert "redirects" in refused(server.serve("/a", Answer(status=302, headers={"Location": "/b"})))


@pytest.mark.parametrize(
    "target",
    [
        pytest.param("file://{home}/.bashrc", id="16-to-a-file"),
        pytest.param("ftp://127.0.0.1/f", id="17-to-ftp"),
        pytest.param("http://user:secret@[", id="18-to-no-url"),
    ],
)
def test_redirect_elsewhere(server: Server, refused: Refused, home: Path, target: str) -> None:
    location = target.format(home=home)
    message = refused(server.serve("/f", Answer(status=302, headers={"Location": location})), file_name="f")
    assert "secret" not in message
    assert "before" not in message


def answering(*parts: bytes) -> Callable[[str, Send], None]:
    """Return a server's function that sends these bytes."""
    return lambda _, send: [send(part) for part in parts] and None


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        pytest.param(lambda _, send: (send(head()), drip(send, b"x" * 65536, 0)), "pinned is", id="19-endless"),
        pytest.param(lambda _, send: (send(head()), drip(send)), "too slow", id="20-drip"),
        pytest.param(lambda _, send: (send(head()[:17] + b"X: "), drip(send)), "no answer", id="21-drip-in-the-head"),
        pytest.param(
            lambda _, send: (send(head("Transfer-Encoding: chunked") + b"1;"), drip(send)),
            "too slow",
            id="22-drip-between-chunks",
        ),
        pytest.param(lambda *_: time.sleep(2), "no answer in", id="23-silence"),
        pytest.param(lambda _, send: (send(head()), drip(send, b"x" * 300)), "not whole in", id="24-just-fast-enough"),
        pytest.param(answering(head("Content-Length: -1"), GOOD), "announces|Protocol", id="25-length-below-zero"),
        pytest.param(answering(head("Content-Length: 0x10"), GOOD), "announces|Protocol", id="26-length-that-is-none"),
        pytest.param(answering(head(f"Content-Length: {'9' * 5000}")), "Protocol", id="27-length-of-5000-digits"),
        pytest.param(answering(b"\0\xff" * 5000), "Protocol", id="28-no-http"),
        pytest.param(answering(head(*(f"X{n}: {'x' * 1000}" for n in range(500)))), "Protocol", id="29-endless-head"),
    ],
)  # fmt: skip
def test_bad_server(refused: Refused, answer: Callable[[str, Send], None], message: str) -> None:
    with RawServer(answer) as server:
        size = None if message == "not whole in" else len(GOOD)
        error = DigestMismatchError if message == "pinned is" else None
        text = refused(server.url("/f"), once=True, size=size, **({"error": error} if error else {}))
    assert any(part in text for part in message.split("|"))


def dripping(_path: str, send: Send) -> None:
    send(head())
    drip(send)


def test_30_threads_end_with_their_requests(refused: Refused) -> None:
    before = threading.active_count()
    with RawServer(dripping) as server:
        refused(server.url("/f"), once=True)
        until = time.monotonic() + 5
        while any(thread.name == "http" for thread in threading.enumerate()) and time.monotonic() < until:
            time.sleep(0.05)
        assert not [thread for thread in threading.enumerate() if thread.name == "http"]
    assert threading.active_count() <= before


def test_31_a_slow_disk_is_not_a_slow_server(server: Server, cache: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[float] = []

    def fsync(_handle: int) -> None:
        time.sleep(0 if synced else 1)
        synced.append(time.monotonic())

    monkeypatch.setattr("os.fsync", fsync)
    url = server.serve("/f", Answer(GOOD))
    impatient = Patience(answer=5, rate=1 << 30, window=0.4, whole=0.8)
    writing = iter([0.5, 0.5])
    path = fetch(pinned(url), cache, patience=impatient, on_bytes=lambda *_: time.sleep(next(writing, 0)))
    assert path.read_bytes() == GOOD
    assert synced


@pytest.fixture
def authority(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> trustme.CA:
    """An authority for certificates that this process trusts."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    return authority


def tls(authority: trustme.CA, *names: str, valid_for: int = 1) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    end = dt.datetime.now(dt.UTC) + dt.timedelta(days=valid_for)
    begin = end - dt.timedelta(days=2)
    authority.issue_cert(*names, not_before=begin, not_after=end).configure_cert(context)
    return context


def self_signed() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    stranger = trustme.CA()
    with stranger.cert_pem.tempfile() as certificate, stranger.private_key_pem.tempfile() as key:
        context.load_cert_chain(certificate, key)
    return context


WHOLE = answering(head(f"Content-Length: {len(GOOD)}"), GOOD)


def test_32_a_good_certificate(authority: trustme.CA, cache: Store, untouched: None) -> None:
    del untouched
    with RawServer(WHOLE, tls(authority, "127.0.0.1")) as server:
        assert fetch(pinned(server.url("/f")), cache, patience=SHORT).read_bytes() == GOOD


@pytest.mark.parametrize(
    ("names", "valid_for", "own", "message"),
    [
        pytest.param(["127.0.0.1"], 0, True, "expired", id="33-expired"),
        pytest.param([], 1, False, "self-signed", id="34-self-signed"),
        pytest.param(["example.org"], 1, True, "mismatch", id="35-another-host"),
    ],
)
def test_bad_certificate(
    authority: trustme.CA, refused: Refused, names: list[str], valid_for: int, own: bool, message: str
) -> None:
    context = tls(authority, *names, valid_for=valid_for) if own else self_signed()
    with RawServer(WHOLE, context) as server:
        assert message in refused(server.url("/f"))
        assert server.asked == []


def test_36_from_https_to_http(authority: trustme.CA, server: Server, refused: Refused) -> None:
    plain = server.serve("/f", Answer(GOOD))
    with RawServer(answering(head(f"Location: {plain}", status="302 Found")), tls(authority, "127.0.0.1")) as secure:
        assert "a redirect from https to http:" in refused(secure.url("/f"))
    assert server.asked == []


@pytest.mark.parametrize(
    "fault", [pytest.param("full", id="37-full-disk"), pytest.param("file", id="38-folder-that-is-a-file")]
)
def test_no_place(server: Server, cache: Store, home: Path, fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_handle: int) -> None:
        with open("/dev/full", "wb", buffering=0) as stream:  # noqa: PTH123  (what the system says of a full disk)
            stream.write(b"x")

    if fault == "full":
        monkeypatch.setattr("os.fsync", full)
    else:
        (home / "file").write_text("")
    target = home / "f" if fault == "full" else home / "file" / "f"
    with pytest.raises(DiskFullError if fault == "full" else StoreError):
        download(pinned(server.serve("/f", Answer(GOOD))), target)
    if fault == "full":
        with pytest.raises(DiskFullError):
            fetch(pinned(server.url("/f")), cache)
    assert sorted(path.name for path in home.iterdir() if path.name != "store") == sorted(
        {".bashrc", target.parent.name} - {home.name}
    )
