"""The provenance that is published with a wheel: only what was verified, where PEP 740 wants it, and never another."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pypi_attestations import Provenance

from attested_wheels import attested_wheel
from cpuwheels.attestation.keyless import Identity
from cpuwheels.attestation.keys import make_key
from cpuwheels.attestation.pep740 import attestations_of, provenance_object
from cpuwheels.attestation.sign import Signing, sign_wheel
from cpuwheels.attestation.statement import PUBLISH
from cpuwheels.attestation.verify import Trust
from cpuwheels.config.downloads import Download
from cpuwheels.config.matrix import Matrix, load_matrix
from cpuwheels.core.errors import PublishError
from cpuwheels.index.bucket import Folder
from cpuwheels.index.check import check_index, repair_index
from cpuwheels.index.entry import Entry, Signed
from cpuwheels.index.publish_wheel import publish_wheel
from cpuwheels.index.reading import read_entries
from cpuwheels.index.retention import remove_old
from html_anchors import links
from index_publications import check_links
from local_sigstore import IDENTITY, ISSUER, LocalSigstore
from sample_source import sha256

ADDRESS = "https://wheels.example.org"
SUFFIXES = (".provenance.json", ".intoto.jsonl", ".provenance")


class Place:
    """A wheel, a key, a Sigstore and an index."""

    def __init__(self, folder: Path, matrix: Matrix, sigstore: LocalSigstore) -> None:
        self.matrix, self.index, self.sigstore = matrix, folder / "index", sigstore
        self.config = sigstore.trust_config(folder / "trust.json")
        self.key, self.public = folder / "key", make_key(folder / "key")
        self.wheel = attested_wheel(folder / "dist")
        self.trust = Trust(keys=(self.public,), identity=Identity(IDENTITY, ISSUER), trust_config=self.config)

    def sign(self, *, keyless: bool = True) -> None:
        signing = Signing(key=str(self.key), keyless=keyless, trust_config=self.config)
        sign_wheel(self.wheel, signing, self.sigstore.environment() if keyless else {})

    def publish(self, trust: Trust | None = None, address: str | None = ADDRESS, **how: Any) -> Entry:
        entry = publish_wheel(
            Folder(self.index), self.wheel, self.matrix, nightly=True, address=address, trust=trust, **how
        ).entry
        for view in (entry.commit or "", "nightly"):
            assert read_entries(Folder(self.index), view) == [entry]
        return entry

    def beside(self, suffix: str) -> Path:
        return self.wheel.with_name(f"{self.wheel.name}{suffix}")

    def published(self, suffix: str) -> Path:
        (path,) = self.index.glob(f"files/*/*.whl{suffix}")
        return path

    def faults(self) -> list[str]:
        check_links(self.index)
        return [fault.what for fault in check_index(Folder(self.index))]

    def file(self) -> dict[str, Any]:
        page = json.loads((self.index / "nightly/cpu/vllm/index.v1.json").read_text())
        assert page["meta"]["api-version"] == "1.3"
        (found,) = page["files"]
        return dict(found)


@pytest.fixture
def place(tmp_path: Path, project_root: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    with LocalSigstore() as sigstore:
        sigstore.be_github(monkeypatch)
        yield Place(tmp_path, load_matrix(project_root), sigstore)


def test_an_unsigned_statement_is_published_and_said_to_be_unsigned(place: Place) -> None:
    entry = place.publish()
    assert entry.signed == Signed(statement=sha256(place.beside(".provenance.json")))
    assert place.published(".provenance.json").read_bytes() == place.beside(".provenance.json").read_bytes()
    page = (place.index / "nightly/index.html").read_text()
    assert "not signed" in page
    assert "provenance" not in place.file()
    assert place.faults() == []


def test_a_wheel_without_a_statement_is_published_as_before(place: Place) -> None:
    place.beside(".provenance.json").unlink()
    assert place.publish().signed is None
    assert "Provenance" not in (place.index / "nightly/index.html").read_text()
    assert place.faults() == []


def test_signatures_are_published_where_pep_740_wants_them(place: Place) -> None:
    place.sign()
    entry = place.publish(place.trust)
    assert entry.signed
    assert entry.signed.by[1:] == (IDENTITY,)
    url = f"{ADDRESS}/{place.published('.provenance').relative_to(place.index)}".replace("+", "%2B")
    assert place.file()["provenance"] == url
    html = (place.index / "nightly/cpu/vllm/index.html").read_text()
    assert f'data-provenance="{url}"' in html
    assert '<meta name="pypi:repository-version" content="1.3">' in html
    found = Provenance.model_validate_json(place.published(".provenance").read_bytes())
    (bundle,) = found.attestation_bundles
    assert bundle.publisher.kind == "GitHub"
    kinds = [attestation.statement["predicateType"] for attestation in bundle.attestations]
    assert kinds == ["https://slsa.dev/provenance/v1", "https://docs.pypi.org/attestations/publish/v1"]
    page = (place.index / "nightly/index.html").read_text()
    assert f"signed by key {entry.signed.by[0].removeprefix('key ')}; {IDENTITY}" in page
    assert sum(f"{suffix}" in link for suffix in SUFFIXES[1:] for link in links(page)) >= 2
    assert place.faults() == []


@pytest.mark.parametrize(
    ("address", "given"),
    [
        (None, False),
        ("http://wheels.example.org", False),
        ("http://127.0.0.1:8000/deep/", True),
        ("https://a:b@wheels.example.org/deep", True),
    ],
)
def test_its_address_is_a_whole_one_over_a_safe_connection(place: Place, address: str | None, given: bool) -> None:
    place.sign()
    entry = place.publish(place.trust, address)
    assert entry.signed
    assert ("provenance" in place.file()) is given
    if given:
        assert entry.signed.url
        assert "/deep/files/" in entry.signed.url
        assert "a:b@" not in entry.signed.url
    assert place.published(".provenance").is_file()
    assert place.faults() == []


def test_a_signature_is_published_only_if_somebody_vouches_for_it(place: Place, tmp_path: Path) -> None:
    place.sign()
    with pytest.raises(PublishError, match="it is signed, and nothing says whose signature counts") as raised:
        place.publish()
    assert "--trusted-key" in raised.value.next_step
    with pytest.raises(PublishError, match="no key that is trusted signed this"):
        place.publish(Trust(keys=(make_key(tmp_path / "other"),)))
    assert not place.index.exists() or not list(place.index.rglob("*.whl"))
    assert place.publish(Trust(keys=(place.public,))).signed
    # The attestations were not verified, so they are not there.
    assert not list(place.index.rglob("*.whl.provenance"))
    assert place.faults() == []


def change(path: Path, changed: Callable[[Any], None]) -> None:
    data = json.loads(path.read_text())
    changed(data)
    path.write_text(json.dumps(data))


def forge(data: dict[str, Any]) -> None:
    text = base64.b64decode(data["payload"]).replace(b'"locked": false', b'"locked": true')
    data["payload"] = base64.b64encode(text).decode()


@pytest.mark.parametrize(
    ("suffix", "changed", "words"),
    [
        (
            ".provenance.json",
            lambda data: data["subject"][0].update(name="a.whl"),
            "the statement is refused: it is about",
        ),
        (
            ".provenance.json",
            lambda data: data["predicate"]["buildDefinition"]["externalParameters"].update(locked=True),
            "does not say what the build record says",
        ),
        (".intoto.jsonl", forge, "the signature does not verify"),
        (
            ".slsa.attestation",
            lambda data: data["envelope"].update(signature="AAAA"),
            "the attestation does not verify",
        ),
        (".publish.attestation", lambda data: data.pop("version"), "the attestation is refused"),
    ],
)
def test_what_was_changed_is_not_published(
    place: Place, suffix: str, changed: Callable[[Any], None], words: str
) -> None:
    place.sign()
    change(place.beside(suffix), changed)
    with pytest.raises(PublishError, match=words) as raised:
        place.publish(place.trust)
    assert str(raised.value.what).startswith(f"the provenance of {place.wheel.name} cannot be published: ")
    assert suffix in str(raised.value.where)
    assert raised.value.next_step
    assert not list(place.index.rglob("*.whl"))


def test_a_link_in_place_of_a_file_is_not_followed(place: Place, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("{}")
    place.beside(".intoto.jsonl").symlink_to(secret)
    with pytest.raises(PublishError, match=r"intoto.jsonl cannot be read: it is a symbolic link"):
        place.publish(place.trust)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (lambda data: data["predicate"]["runDetails"].update(metadata=None), "does not say what the build record says"),
        (lambda data: data.update(predicateType=PUBLISH, predicate=None), "does not say how the wheel was built"),
        (lambda data: data["predicate"].update(runDetails=[]), "it is no statement"),
    ],
)
def test_a_statement_of_whatever_form_is_one_message(place: Place, changed: Callable[[Any], None], words: str) -> None:
    change(place.beside(".provenance.json"), changed)
    with pytest.raises(PublishError, match=words):
        place.publish()


def test_a_builder_that_has_not_signed_is_not_named(place: Place) -> None:
    """Whoever has only the statement of a signed wheel cannot publish it as if nobody had to sign."""
    place.sign()
    for suffix in (".intoto.jsonl", ".slsa.attestation", ".publish.attestation"):
        place.beside(suffix).unlink()
    with pytest.raises(PublishError, match=r"names the builder https://github.com/.*, which has not signed it"):
        place.publish()


def test_the_commit_of_what_was_used_is_that_of_the_wheel(tmp_path: Path, place: Place) -> None:
    used = Download(stage="source", name="vllm", digest={"gitCommit": "f" * 40})
    place.wheel = attested_wheel(tmp_path / "other", 2, dependencies=(used,))
    with pytest.raises(PublishError, match=rf"the statement says target x86 and source {'f' * 40}; the wheel is of"):
        place.publish()


@pytest.mark.parametrize("asked", [{"source": "f" * 40}, {"target": "arm"}])
def test_a_record_that_says_another_source_or_target_is_refused(
    tmp_path: Path, place: Place, asked: dict[str, str]
) -> None:
    place.wheel = attested_wheel(tmp_path / "other", 2, asked=asked)
    with pytest.raises(PublishError, match=r"the statement says target .* and source .*; the wheel is of target x86"):
        place.publish()


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("content", [None, b"{}"])
def test_what_is_missing_or_changed_in_an_index_is_named_and_healed(
    place: Place, suffix: str, content: bytes | None
) -> None:
    place.sign()
    place.publish(place.trust)
    path = place.published(suffix)
    before = path.read_bytes()
    path.unlink() if content is None else path.write_bytes(content)
    state = "is missing" if content is None else "has other bytes than its pages say"
    name = str(path.relative_to(place.index))
    assert [fault.what for fault in check_index(Folder(place.index))] == [f"{name} {state}"]
    place.publish(place.trust)
    assert place.faults() == []
    if suffix != ".provenance":  # its object is written anew, with a digest of its own
        assert path.read_bytes() == before


def test_a_statement_about_another_wheel_is_a_fault_whatever_the_pages_say(place: Place) -> None:
    place.publish()
    path = place.published(".provenance.json")
    digest = sha256(path)
    path.write_bytes(path.read_bytes().replace(sha256(place.wheel).encode(), b"0" * 64))
    for page in place.index.rglob("*.json"):
        page.write_text(page.read_text().replace(digest, sha256(path)))
    said = "\n".join(fault.what for fault in check_index(Folder(place.index)))
    assert "the statement is refused: it is about" in said


def test_a_page_without_it_or_with_another_address_is_written_anew(place: Place) -> None:
    place.sign()
    place.publish(place.trust)
    page = place.index / "nightly/cpu/vllm/index.html"
    before = page.read_bytes()
    for text in (b"", before.replace(ADDRESS.encode(), b"https://evil.example.org")):
        page.write_bytes(text)
        assert place.faults() == ["nightly/cpu/vllm/index.html does not match the wheels there"]
        assert repair_index(Folder(place.index)) == []
        assert page.read_bytes() == before


def test_it_stays_when_the_wheel_is_published_again_without(place: Place) -> None:
    place.sign()
    first = place.publish(place.trust)
    for suffix in (".provenance.json", ".intoto.jsonl", ".slsa.attestation", ".publish.attestation"):
        place.beside(suffix).unlink()
    assert place.publish().signed == first.signed
    assert place.faults() == []


def test_a_wheel_can_be_signed_after_it_was_published(place: Place) -> None:
    first = place.publish()
    place.sign(keyless=False)
    second = place.publish(place.trust)
    assert first.signed
    assert second.signed
    assert second.signed.statement == first.signed.statement
    assert len(second.signed.by) == 1
    assert place.published(".intoto.jsonl").is_file()
    assert place.faults() == []


def test_another_signature_does_not_replace_the_first(place: Place, tmp_path: Path) -> None:
    place.sign(keyless=False)
    first = place.publish(place.trust)
    envelope = place.published(".intoto.jsonl").read_bytes()
    place.key, place.public = tmp_path / "second", make_key(tmp_path / "second")
    place.sign(keyless=False)
    assert place.publish(Trust(keys=(place.public,))).signed == first.signed
    assert place.published(".intoto.jsonl").read_bytes() == envelope
    assert place.faults() == []


def test_a_publisher_signs_what_it_has_checked(place: Place) -> None:
    signing = Signing(key=str(place.key), keyless=True, trust_config=place.config)
    entry = place.publish(None, signing=signing, commit=f"{1:040x}", version="0.32.1.dev1+g000000001")
    assert entry.signed
    assert entry.signed.envelope
    assert entry.signed.provenance
    assert place.faults() == []


def test_what_others_signed_is_not_published_as_what_a_publisher_signs(place: Place) -> None:
    place.sign()
    found = attestations_of(place.beside(".slsa.attestation").read_bytes(), "here")
    theirs = provenance_object(found, "here")
    for suffix in (".slsa.attestation", ".publish.attestation"):
        place.beside(suffix).unlink()
    place.beside(".provenance").write_bytes(theirs)
    place.publish(None, signing=Signing(keyless=True, trust_config=place.config))
    published = Provenance.model_validate_json(place.published(".provenance").read_bytes())
    (bundle,) = published.attestation_bundles
    assert len(bundle.attestations) == 2
    assert found[0] not in bundle.attestations
    assert place.faults() == []


def test_a_publisher_signs_nothing_that_it_refuses(place: Place) -> None:
    signing = Signing(key=str(place.key))
    with pytest.raises(PublishError, match="was asked for"):
        place.publish(None, signing=signing, commit=f"{1:040x}", version="0.99")
    assert not place.beside(".intoto.jsonl").exists()


def test_it_goes_with_its_wheel(place: Place) -> None:
    place.sign()
    entry = place.publish(place.trust)
    other = attested_wheel(place.wheel.parent.parent, 9)
    place.wheel = other
    publish_wheel(Folder(place.index), other, place.matrix, nightly=True)
    removed = remove_old(Folder(place.index), 1, datetime.now(UTC) + timedelta(days=9))
    assert removed == [entry.commit]
    assert [path.name for path in place.index.rglob("*.whl*") if entry.filename in path.name] == []
    assert place.faults() == []
