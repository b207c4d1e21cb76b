"""Files of this program that something else has written over: they are made again, or one message says so."""

from __future__ import annotations

import io
import json
import os
import struct
import zipfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cpuwheels.audit.licences import NOTE, licence_faults
from cpuwheels.bisect.request import Question
from cpuwheels.bisect.state import STATE, read_state
from cpuwheels.core.direct_mode import DirectModeCache
from cpuwheels.core.elf import exported, read_elf
from cpuwheels.core.errors import BisectError, MalformedDataError, PublishError
from cpuwheels.core.models import Strict, parse_as
from cpuwheels.core.store import MANIFEST, Store, check_entry
from cpuwheels.environment.sealed_env import is_sealed
from cpuwheels.index.s3 import _Claim
from cpuwheels.index.wheel_file import read_wheel
from cpuwheels.kernels.memory.ledger import read_records
from cpuwheels.source.commit import COMMITS, CommitRequest
from cpuwheels.verification.parity.events import EventLog
from elf_writer import Elf
from sample_source import commit, write_tree
from wheel_writer import INFO, content, with_record, write_raw

if TYPE_CHECKING:
    from collections.abc import Callable

    from cpuwheels.core.console import Reporter

pytestmark = pytest.mark.timeout(30)

DEEP = "[" * 100_000
DAMAGES: dict[str, Callable[[Path], object]] = {
    "null": lambda path: path.write_text("null"),
    "list": lambda path: path.write_text("[]"),
    "deep": lambda path: path.write_text(DEEP),
    "number": lambda path: path.write_text("9" * 5000),
    "half": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "bytes": lambda path: path.write_bytes(b"\xff\x00"),
    "pipe": lambda path: (path.unlink(), os.mkfifo(path)),
    "link": lambda path: (path.unlink(), path.symlink_to("/dev/zero")),
    "folder": lambda path: (path.unlink(), path.mkdir()),
}


def _fill(folder: Path) -> None:
    (folder / "a").write_text("a")


@pytest.mark.parametrize(
    "damage", [pytest.param(name, id=f"{number:02}-manifest-{name}") for number, name in enumerate(DAMAGES, 46)]
)
def test_a_manifest(damage: str, store: Store) -> None:
    entry = store.get("kind", "key", _fill)
    DAMAGES[damage](entry / MANIFEST)
    assert check_entry(entry)
    assert check_entry(store.get("kind", "key", _fill)) == []
    assert (entry / "a").read_text() == "a"


@pytest.mark.parametrize(
    "files",
    [
        pytest.param(None, id="55-files-null"),
        pytest.param([], id="56-files-list"),
        pytest.param({"a": None}, id="57-digest-null"),
        pytest.param({"a": ["x"]}, id="58-digest-list"),
    ],
)
def test_a_manifest_with_other_files(files: object, store: Store) -> None:
    entry = store.get("kind", "key", _fill)
    said = json.loads((entry / MANIFEST).read_text())
    (entry / MANIFEST).write_text(json.dumps(said | {"files": files}))
    assert check_entry(entry)
    assert check_entry(store.get("kind", "key", _fill)) == []


class Reads(Strict):
    """What a program read."""

    files: dict[str, str]


@pytest.mark.parametrize(
    "damage", [pytest.param(name, id=f"{number:02}-reads-{name}") for number, name in enumerate(DAMAGES, 59)]
)
def test_a_list_of_what_was_read(damage: str, store: Store) -> None:
    cache = DirectModeCache(store, "reads", "key", Reads)
    cache.keep(Reads(files={"a": "1"}))
    (path,) = store.path("reads", "key").glob("*.json")
    good = Reads(files={"b": "2"})
    cache.keep(good)
    DAMAGES[damage](path)
    assert list(cache.known()) == [good]


@pytest.mark.parametrize(
    "damage", [pytest.param(name, id=f"{number:02}-commit-{name}") for number, name in enumerate(("list", "pipe"), 68)]
)
@pytest.mark.usefixtures("plain_git")
def test_the_record_of_a_commit(damage: str, store: Store, reporter: Reporter, tmp_path: Path) -> None:
    clone = write_tree(tmp_path / "vllm")
    wanted = commit(clone)
    first = CommitRequest(wanted, clone, ()).get(store, reporter)
    path = store.path(COMMITS, f"{wanted}.json")
    DAMAGES[damage](path)
    assert CommitRequest(wanted, clone, ()).get(store, reporter) == first
    assert json.loads(path.read_text())["source"] == first.folder.name


@pytest.mark.parametrize(
    "damage", [pytest.param(name, id=f"{number:02}-marker-{name}") for number, name in enumerate(DAMAGES, 70)]
)
def test_the_marker_of_an_environment(damage: str, tmp_path: Path) -> None:
    marker = tmp_path / "cpuwheels-environment.json"
    marker.write_text('{"python": "x"}')
    DAMAGES[damage](marker)
    assert not is_sealed(tmp_path)


@pytest.mark.parametrize(
    "damage", [pytest.param(name, id=f"{number:02}-state-{name}") for number, name in enumerate(DAMAGES, 79)]
)
def test_the_state_of_a_bisection(damage: str, tmp_path: Path) -> None:
    path = tmp_path / STATE
    path.write_text("{}")
    DAMAGES[damage](path)
    with pytest.raises(BisectError, match="file cannot be read"):
        read_state(tmp_path, Question.model_construct())
    assert os.path.lexists(path)


@pytest.mark.parametrize(
    "note",
    [
        pytest.param("[]", id="88-note-list"),
        pytest.param('{"components": [{}]}', id="89-note-without-names"),
        pytest.param('{"components": NaN}', id="90-note-nan"),
        pytest.param(DEEP, id="91-note-deep"),
    ],
)
def test_the_note_of_a_wheel(note: str, tmp_path: Path) -> None:
    members = content() | {f"{INFO}/{NOTE}": note.encode()}
    with zipfile.ZipFile(write_raw(tmp_path / "a.whl", members)) as archive:
        faults = list(licence_faults(archive, []))
    assert len(faults) == 1
    assert faults[0].startswith(f"{NOTE} is not")


def test_92_the_claim_of_a_publisher() -> None:
    for text in (b"[]", b"null", b"{}", DEEP.encode(), b"\xff", b'{"owner": 1}', b'{"until": 1e999}'):
        assert isinstance(_Claim.read(text), _Claim)


def test_93_lines_of_a_test(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    good = '{"event": "started", "case": "a"}\n'
    for bad in ("[]\n", "null\n", '{"case": "b"}\n', '{"event": "started"}\n', f"{DEEP}\n", '{"event": NaN}\n'):
        path.write_text(good + bad + good)
        events = EventLog(path)
        events.read()
        assert events.begun == ["a"]


def test_94_lines_of_a_ledger(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    path.write_text(f"[]\nnull\n{DEEP}\n{{\n{'9' * 5000}\n")
    assert list(read_records(path)) == []


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["files", "kind", "place"]), inner),
)


@given(said=_JSON)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=25)
def test_95_any_manifest(said: object, tmp_path: Path) -> None:
    store = Store(tmp_path / "cache")
    entry = store.get("kind", "key", _fill)
    (entry / MANIFEST).write_text(json.dumps(said))
    assert check_entry(entry)
    assert check_entry(store.get("kind", "key", _fill)) == []


@given(data=st.binary(max_size=100) | _JSON.map(lambda value: json.dumps(value).encode()))
@settings(deadline=None)
def test_96_any_answer_of_a_program(data: bytes) -> None:
    try:
        found = parse_as(dict[str, str], data, "here")
    except MalformedDataError as error:
        found = {"error": str(error)}
    assert all(isinstance(value, str) for value in found.values())


INFO_OF_1 = "vllm-1.dist-info"


@pytest.mark.parametrize(
    ("member", "content"),
    [
        pytest.param("RECORD", b"vllm/a\rb,,\n", id="97-record-with-half-a-line-end"),
        pytest.param("RECORD", b'"vllm/a,,\n', id="98-record-with-a-quote-without-end"),
        pytest.param("METADATA", b"Metadata-Version: 2.4\nName:\x80vllm\nVersion: 1\n", id="99-name-that-is-no-text"),
        pytest.param(
            "METADATA",
            b"Metadata-Version: 2.4\nName: vllm\nVersion: 1\nRequires-Dist: torch: 1\n",
            id="100-requirement-that-is-none",
        ),
        pytest.param("WHEEL", b"Wheel-Version: 1.0\nTag: py3-none-any\x80\n", id="101-tag-that-is-no-text"),
        pytest.param(
            "METADATA",
            "Metadata-Version: 2.4\nName: vllm\u00e9\nVersion: 1\n".encode(),
            id="106-name-that-is-not-ascii",
        ),
    ],
)
def test_a_text_of_a_wheel(member: str, content: bytes, tmp_path: Path) -> None:
    members = {
        f"{INFO_OF_1}/METADATA": b"Metadata-Version: 2.4\nName: vllm\nVersion: 1\n",
        f"{INFO_OF_1}/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{INFO_OF_1}/{member}": content,
    }
    whole = members if member == "RECORD" else with_record(members, INFO_OF_1)
    with pytest.raises(PublishError) as raised:
        read_wheel(write_raw(tmp_path / "vllm-1-py3-none-any.whl", whole))
    assert all(line.isprintable() for line in str(raised.value).splitlines())


def cyclic(library: bytes) -> bytes:
    """Make the chain of a library's only bucket a circle."""
    return library.replace(struct.pack("<III3I", 1, 3, 1, 0, 2, 0), struct.pack("<III3I", 1, 3, 1, 0, 1, 0))


def endless(library: bytes) -> bytes:
    """Make the list of needed versions one that leads to its own beginning, four thousand million times."""
    once = struct.pack("<IIQQ", 1, 1, 1, 0)
    assert library.count(once) == 1
    return library.replace(once, struct.pack("<IIQQ", 1, (1 << 32) - 1, 1, 0))


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        pytest.param(cyclic, "a circle", id="102-circle-of-symbols"),
        pytest.param(endless, "more than 10000 versions", id="103-versions-without-end"),
        pytest.param(lambda library: library[:-70], "not a readable ELF file", id="104-cut-off"),
        pytest.param(lambda library: library[:58] + b"\2" + library[59:], "e_shentsize", id="105-small-sections"),
    ],
)
def test_a_library(damage: Callable[[bytes], bytes], words: str) -> None:
    versions = {"libc.so.6": {"GLIBC_2.2.5": "printf"}} if damage is endless else {}
    whole = Elf(exports=("a", "b"), versions=versions, hash="sysv").write()
    broken = damage(whole)
    assert broken != whole
    with pytest.raises(ValueError, match=words):
        (read_elf if damage is endless else partial(exported, names=["x"]))(io.BytesIO(broken))
