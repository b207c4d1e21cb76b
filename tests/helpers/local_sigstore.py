"""A Sigstore of this machine: a CA with a log of certificates, a log of signatures, and a CI that says who one is.

Nothing of it is taken from Sigstore's programs. Clients talk HTTP to it, and verify what it made as they verify what
the public instance makes.
"""

from __future__ import annotations

import base64
import hashlib
import http.server
import json
import struct
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Self

import jwt
import rfc8785
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from running import Quiet, running

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

REPOSITORY, WORKFLOW = "wheels/cpu", "nightly.yml"
IDENTITY = f"https://github.com/{REPOSITORY}/.github/workflows/{WORKFLOW}@refs/heads/main"
ISSUER = "https://token.actions.githubusercontent.com"
_CLAIMS = "1.3.6.1.4.1.57264.1"
_ORIGIN = "rekor.local - 1"


def _key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def _public(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def _sign(key: ec.EllipticCurvePrivateKey, data: bytes) -> bytes:
    return key.sign(data, ec.ECDSA(hashes.SHA256()))


def _b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _der(tag: int, content: bytes) -> bytes:
    size = len(content)
    length = bytes([size]) if size < 0x80 else bytes([0x82]) + struct.pack(">H", size)
    return bytes([tag]) + length + content


@dataclass
class LocalSigstore:
    """The services.

    Attributes:
        identity: Whom the CI says that everybody is.
        claims: What certificates say besides, by the number of the claim.
        leaves: What was logged.
    """

    identity: str = IDENTITY
    claims: dict[int, str] = field(
        default_factory=lambda: {
            1: ISSUER,
            8: ISSUER,
            9: IDENTITY,
            12: f"https://github.com/{REPOSITORY}",
            13: "c" * 40,
            14: "refs/heads/main",
            18: IDENTITY,
        }
    )
    leaves: list[bytes] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._ca, self._certificates, self._log = _key(), _key(), _key()
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "local sigstore")])
        began = datetime.now(UTC) - timedelta(days=1)
        self._root = (
            x509.CertificateBuilder(name, name, self._ca.public_key(), 1, began, began + timedelta(days=9))
            .add_extension(x509.BasicConstraints(ca=True, path_length=1), critical=True)
            .add_extension(_usage(signs=False), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(self._ca.public_key()), critical=False)
            .sign(self._ca, hashes.SHA256())
        )
        services = self

        class Handler(Quiet, http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._answer({"value": services.token()})

            def do_POST(self) -> None:
                asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                self._answer(services.certify(asked) if "signingCert" in self.path else services.log(asked))

            def _answer(self, answer: dict[str, Any]) -> None:
                body = json.dumps(answer).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._life = ExitStack()

    def __enter__(self) -> Self:
        self._life.enter_context(running(self._server))
        return self

    def __exit__(self, *_: object) -> None:
        self._life.close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def environment(self) -> dict[str, str]:
        """Return the variables of a job of GitHub that may ask for its identity."""
        return {
            "GITHUB_ACTIONS": "true",
            "GITHUB_SERVER_URL": "https://github.com",
            "GITHUB_REPOSITORY": REPOSITORY,
            "GITHUB_WORKFLOW_REF": self.identity.removeprefix("https://github.com/"),
            "GITHUB_RUN_ID": "7",
            "GITHUB_RUN_ATTEMPT": "1",
            "ACTIONS_ID_TOKEN_REQUEST_TOKEN": "t",
            "ACTIONS_ID_TOKEN_REQUEST_URL": f"{self.url}/token",
        }

    def be_github(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Have this process run in such a job."""
        for name, value in self.environment().items():
            monkeypatch.setenv(name, value)

    def token(self) -> str:
        now = int(time.time())
        claims = {
            "iss": ISSUER,
            "sub": "repo:wheels/cpu:ref:refs/heads/main",
            "aud": "sigstore",
            "iat": now - 5,
            "exp": now + 300,
            "job_workflow_ref": self.identity,
        }
        return jwt.encode(claims, "a key that nobody checks, of 32 bytes or more", algorithm="HS256")

    def certify(self, asked: dict[str, str]) -> dict[str, Any]:
        """Return a certificate for a key, as Fulcio does: for a few minutes, and in the log of certificates."""
        wanted = x509.load_pem_x509_csr(base64.b64decode(asked["certificateSigningRequest"]))
        began = datetime.now(UTC).replace(microsecond=0) - timedelta(seconds=10)
        builder = (
            x509.CertificateBuilder()
            .subject_name(x509.Name([]))
            .issuer_name(self._root.subject)
            .public_key(wanted.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(began)
            .not_valid_after(began + timedelta(minutes=10))
            .add_extension(_usage(signs=True), critical=True)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CODE_SIGNING]), critical=False)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(wanted.public_key()), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._ca.public_key()), critical=False)
            .add_extension(x509.SubjectAlternativeName([x509.UniformResourceIdentifier(self.identity)]), critical=True)
        )
        for number, text in self.claims.items():
            oid = x509.ObjectIdentifier(f"{_CLAIMS}.{number}")
            value = text.encode() if number == 1 else _der(0x0C, text.encode())  # the first is older than the rule
            builder = builder.add_extension(x509.UnrecognizedExtension(oid, value), critical=False)
        before = builder.sign(self._ca, hashes.SHA256()).tbs_certificate_bytes
        listed = x509.UnrecognizedExtension(x509.ObjectIdentifier("1.3.6.1.4.1.11129.2.4.2"), self._timestamps(before))
        certificate = builder.add_extension(listed, critical=False).sign(self._ca, hashes.SHA256())
        chain = [one.public_bytes(Encoding.PEM).decode() for one in (certificate, self._root)]
        return {"signedCertificateEmbeddedSct": {"chain": {"certificates": chain}}}

    def _timestamps(self, before: bytes) -> bytes:
        """Return the list with the timestamp of the log of certificates (RFC 6962), as an extension has it."""
        moment = int(time.time() * 1000)
        issuer = hashlib.sha256(_public(self._ca)).digest()
        entry = issuer + struct.pack(">I", len(before))[1:] + before
        signed = struct.pack(">BBQH", 0, 0, moment, 1) + entry + struct.pack(">H", 0)
        signature = _sign(self._certificates, signed)
        stamp = b"\0" + hashlib.sha256(_public(self._certificates)).digest() + struct.pack(">QH", moment, 0)
        stamp += struct.pack(">BBH", 4, 3, len(signature)) + signature
        one = struct.pack(">H", len(stamp)) + stamp
        return _der(0x04, struct.pack(">H", len(one)) + one)

    def log(self, proposed: dict[str, Any]) -> dict[str, Any]:
        """Log a signed envelope, as Rekor does, and return the entry with the proof that it is there."""
        content = proposed["spec"]["proposedContent"]
        envelope = json.loads(content["envelope"])
        payload = base64.b64decode(envelope["payload"])
        body = {
            "apiVersion": "0.0.1",
            "kind": "dsse",
            "spec": {
                "envelopeHash": _hash(content["envelope"].encode()),
                "payloadHash": _hash(payload),
                "signatures": [{"signature": envelope["signatures"][0]["sig"], "verifier": content["verifiers"][0]}],
            },
        }
        leaf = rfc8785.dumps(body)
        self.leaves.append(leaf)
        index = len(self.leaves) - 1
        digests = [hashlib.sha256(b"\0" + one).digest() for one in self.leaves]
        root, path = _tree(digests), _path(digests, index)
        name = hashlib.sha256(_public(self._log)).digest()
        entry = {"body": _b64(leaf), "integratedTime": int(time.time()), "logID": name.hex(), "logIndex": index}
        note = f"{_ORIGIN}\n{len(digests)}\n{_b64(root)}\n"
        checkpoint = f"{note}\n\u2014 rekor.local {_b64(name[:4] + _sign(self._log, note.encode()))}\n"
        proof = {
            "checkpoint": checkpoint,
            "hashes": [one.hex() for one in path],
            "logIndex": index,
            "rootHash": root.hex(),
            "treeSize": len(digests),
        }
        promise = _b64(_sign(self._log, rfc8785.dumps(entry)))
        return {"f" * 64: entry | {"verification": {"inclusionProof": proof, "signedEntryTimestamp": promise}}}

    def trust_config(self, path: Path) -> Path:
        """Write whom to trust, and where the services are, and return the file."""
        since = {"start": (datetime.now(UTC) - timedelta(days=1)).strftime("%Y-%m-%dT%H:%M:%SZ")}

        def log(key: ec.EllipticCurvePrivateKey) -> dict[str, Any]:
            public = {"rawBytes": _b64(_public(key)), "keyDetails": "PKIX_ECDSA_P256_SHA_256", "validFor": since}
            name = _b64(hashlib.sha256(_public(key)).digest())
            return {"baseUrl": self.url, "hashAlgorithm": "SHA2_256", "publicKey": public, "logId": {"keyId": name}}

        def service(url: str) -> dict[str, Any]:
            return {"url": url, "majorApiVersion": 1, "validFor": since, "operator": "local"}

        root = {"rawBytes": _b64(self._root.public_bytes(Encoding.DER))}
        config = {
            "mediaType": "application/vnd.dev.sigstore.clienttrustconfig.v0.1+json",
            "trustedRoot": {
                "mediaType": "application/vnd.dev.sigstore.trustedroot+json;version=0.1",
                "tlogs": [log(self._log)],
                "certificateAuthorities": [
                    {
                        "subject": {"organization": "local", "commonName": "local sigstore"},
                        "uri": self.url,
                        "certChain": {"certificates": [root]},
                        "validFor": since,
                    }
                ],
                "ctlogs": [log(self._certificates)],
                "timestampAuthorities": [],
            },
            "signingConfig": {
                "mediaType": "application/vnd.dev.sigstore.signingconfig.v0.2+json",
                "caUrls": [service(self.url)],
                "oidcUrls": [service(self.url)],
                "rekorTlogUrls": [service(self.url)],
                "tsaUrls": [],
                "rekorTlogConfig": {"selector": "ANY"},
                "tsaConfig": {"selector": "ANY"},
            },
        }
        path.write_text(json.dumps(config))
        return path


def _usage(*, signs: bool) -> x509.KeyUsage:
    others = ("content_commitment", "key_encipherment", "data_encipherment", "key_agreement")
    rest = dict.fromkeys((*others, "encipher_only", "decipher_only"), False)
    return x509.KeyUsage(digital_signature=signs, key_cert_sign=not signs, crl_sign=not signs, **rest)


def _hash(content: bytes) -> dict[str, str]:
    return {"algorithm": "sha256", "value": hashlib.sha256(content).hexdigest()}


def _split(size: int) -> int:
    """Return the largest power of two below a number."""
    return 1 << (size - 1).bit_length() - 1


def _tree(leaves: list[bytes]) -> bytes:
    """Return the root of a Merkle tree (RFC 6962)."""
    if len(leaves) == 1:
        return leaves[0]
    at = _split(len(leaves))
    return hashlib.sha256(b"\1" + _tree(leaves[:at]) + _tree(leaves[at:])).digest()


def _path(leaves: list[bytes], index: int) -> list[bytes]:
    if len(leaves) == 1:
        return []
    at = _split(len(leaves))
    if index < at:
        return [*_path(leaves[:at], index), _tree(leaves[at:])]
    return [*_path(leaves[at:], index - at), _tree(leaves[:at])]
