"""Certificates that are made once, for this user alone."""

from __future__ import annotations

import ssl
import stat
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509

from cpuwheels.core.errors import FarmError
from cpuwheels.farm.security import CERTIFICATE, FILES, PRIVATE, SIGNING, make_certificates, read_certificates


def test_only_this_user_reads_them(tmp_path: Path) -> None:
    made = make_certificates(tmp_path / "keys")
    assert [path.name for path in made] == [CERTIFICATE, PRIVATE, SIGNING, f"{SIGNING}.pub"]
    assert stat.S_IMODE((tmp_path / "keys").stat().st_mode) == 0o700
    assert all(stat.S_IMODE((tmp_path / "keys" / name).stat().st_mode) == 0o600 for name in (PRIVATE, SIGNING))
    security = read_certificates(tmp_path / "keys")
    assert security.require_encryption
    assert security.tls_min_version == ssl.TLSVersion.TLSv1_3
    assert security.get_connection_args("client")["ssl_context"].verify_mode == ssl.CERT_REQUIRED


def test_a_clock_may_be_a_day_slow_and_strict_verifiers_accept_them(tmp_path: Path) -> None:
    make_certificates(tmp_path)
    certificate = x509.load_pem_x509_certificate((tmp_path / CERTIFICATE).read_bytes())
    now = datetime.now(UTC)
    assert certificate.not_valid_before_utc <= now - timedelta(hours=23, minutes=59)
    assert now + timedelta(days=364) <= certificate.not_valid_after_utc <= now + timedelta(days=366)

    # Two sides that verify each other, as a worker and the scheduler do.
    sides = [read_certificates(tmp_path).get_connection_args(role)["ssl_context"] for role in ("client", "worker")]
    listening = read_certificates(tmp_path).get_listen_args("scheduler")["ssl_context"]
    for context in (*sides, listening):
        context.verify_flags |= ssl.VERIFY_X509_STRICT
    for context in sides:
        wires = [ssl.MemoryBIO() for _ in range(2)]
        client = context.wrap_bio(wires[0], wires[1], server_hostname="any")
        server = listening.wrap_bio(wires[1], wires[0], server_side=True)
        for _ in range(4):
            for side in (client, server):
                with suppress(ssl.SSLWantReadError):
                    side.do_handshake()
        assert client.getpeercert() == server.getpeercert() != {}


def test_they_are_not_overwritten(tmp_path: Path) -> None:
    make_certificates(tmp_path)
    before = (tmp_path / PRIVATE).read_bytes()
    with pytest.raises(FarmError, match="is there already"):
        make_certificates(tmp_path)
    assert (tmp_path / PRIVATE).read_bytes() == before


def test_a_key_that_others_read_is_refused(tmp_path: Path) -> None:
    make_certificates(tmp_path)
    (tmp_path / PRIVATE).chmod(0o640)
    with pytest.raises(FarmError, match=r"others can read farm\.key"):
        read_certificates(tmp_path)


@pytest.mark.parametrize("name", FILES)
def test_a_missing_one_is_named(tmp_path: Path, name: str) -> None:
    make_certificates(tmp_path)
    (tmp_path / name).unlink()
    with pytest.raises(FarmError, match=f"there is no {name}"):
        read_certificates(tmp_path)
