"""A wheel's own record of what it was made from: every input by content, nothing of the machine, and read back as
written."""

from __future__ import annotations

import io
import json
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from cpuwheels.audit.policy import Audited, Bundled
from cpuwheels.kernels.tcmalloc import Tcmalloc
from cpuwheels.pipeline.inventory import Inventory
from cpuwheels.pipeline.kernel_facts import alternates, kernel_facts
from cpuwheels.pipeline.provenance import PackageFacts, Provenance, note_or_none, provenance, read_note, wheel_note
from cpuwheels.source.acl import Acl
from cpuwheels.source.onednn import OneDnn
from cpuwheels.source.patched import PreparedSource
from cpuwheels.source.patches import AppliedPatch
from cpuwheels.source.result import Source
from cpuwheels.wheel.requirements import MovedRequirement
from kernel_request import environment, toolchain
from wheel_notes import wheel_note as whole_note

SOURCE = Source("0.32.0", Path("/store/source"), "s" * 64, 1_700_000_000, "sdist from somewhere", "release")
PINNED = OneDnn(Path("/store/onednn"), "v3.13", "c" * 40, "c" * 40, "pinned")
ALTERNATE = OneDnn(Path("/store/onednn"), "v3.13", "3.7.2", "d" * 64, "alternate")
PATCHED = replace(
    ALTERNATE, release="3.7.2", patches=(AppliedPatch("0009-b.patch", "q" * 64, "applied", ("Of oneDNN",)),)
)
ACL = Acl(Path("/store/acl"), "v52.6.0", "e" * 40, "pinned", {})
PACKAGE = PackageFacts(name="g++-15", version="15.3", file="g++-15_15.3_amd64.deb", sha256="1" * 64)
INVENTORY = Inventory((PACKAGE,), (), (), {"cmake": "4.4"}, "2" * 64)
WITHOUT = Acl(None, "v52.6.0", None, "absent", {})


def made_from(
    onednn: OneDnn | None = PINNED,
    source: Source = SOURCE,
    acl: Acl | None = ACL,
    chooser: str | None = None,
    tcmalloc: Tcmalloc | None = None,
) -> Provenance:
    prepared = PreparedSource(
        "0.32.0", Path("/store/prepared"), 1, (AppliedPatch("0001-a.patch", "p" * 64, "applied"),)
    )
    facts = kernel_facts(
        toolchain=toolchain(),
        environment=environment(),
        inventory=INVENTORY,
        onednn=onednn,
        acl=acl,
        kernels="key",
        chooser=chooser,
        tcmalloc=tcmalloc,
    )
    return provenance("x86", source, prepared, facts, packing_tools={"setuptools": "78"})


def test_the_note_in_the_wheel_names_every_input_by_content() -> None:
    text = json.dumps(made_from().as_dict())
    for digest in (
        SOURCE.digest,
        "p" * 64,
        PINNED.digest,
        ACL.commit,
        toolchain().digest,
        PACKAGE.sha256,
        INVENTORY.tools_lock,
        environment().torch_digest,
        "key",
    ):
        assert digest in text


def test_the_note_in_the_wheel_holds_nothing_of_the_machine() -> None:
    assert "/store" not in json.dumps(made_from().as_dict())
    assert "/env" not in json.dumps(made_from().as_dict())
    assert "/tc" not in json.dumps(made_from().as_dict())
    elsewhere = Source("0.32.0", Path("/other"), SOURCE.digest, SOURCE.epoch, "sdist from elsewhere", "release")
    assert made_from(source=elsewhere) == made_from()


def test_a_chooser_is_an_input_and_only_where_there_is_one() -> None:
    assert made_from(chooser="chosen").as_dict() == made_from().as_dict() | {"chooser_key": "chosen"}


def test_so_is_an_allocator() -> None:
    allocator = Tcmalloc("2.16", "a" * 64, "compiled", Path("/store/libtcmalloc_minimal.so"), Path("/store/sources"))
    facts = {"version": "2.16", "digest": "a" * 64, "key": "compiled"}
    assert made_from(tcmalloc=allocator).as_dict() == made_from().as_dict() | {"tcmalloc": facts}


@pytest.mark.parametrize(
    ("onednn", "acl", "said"),
    [
        (PINNED, None, []),
        (PINNED, ACL, []),
        (ALTERNATE, None, ["oneDNN 3.7.2 in place of v3.13"]),
        (PINNED, WITHOUT, ["no Arm Compute Library in place of v52.6.0"]),
    ],
)
def test_an_alternate_is_said(onednn: OneDnn, acl: Acl | None, said: list[str]) -> None:
    assert alternates(onednn, acl, environment()) == tuple(said)
    assert made_from(onednn, acl=acl).as_dict()["alternates"] == said


def test_what_became_of_arm_compute_library_is_said() -> None:
    assert made_from(acl=ACL).as_dict()["acl"] == {"tag": "v52.6.0", "version": "e" * 40, "kind": "pinned"}
    assert made_from(acl=WITHOUT).as_dict()["acl"] == {"tag": "v52.6.0", "version": None, "kind": "absent"}
    assert made_from(acl=None).as_dict()["acl"] is None


def test_an_alternate_torch_is_said() -> None:
    debian = environment(torch_version="2.14.1", torch_from="locks/root.yaml", torch_alternate=True)
    assert alternates(None, None, debian) == ("torch 2.14.1 from locks/root.yaml",)


def test_the_kernels_of_another_wheel_bring_their_facts_along() -> None:
    donor = whole_note(kernel_key="taken", chooser_key="c")
    prepared = PreparedSource("0.32.0", Path("/store/prepared"), 1, ())
    made = provenance("x86", SOURCE, prepared, donor, packing_tools={"setuptools": "79"})
    assert (made.kernel_key, made.chooser_key, made.toolchain) == ("taken", "c", donor.toolchain)
    assert (made.source.digest, made.packing_tools) == (SOURCE.digest, {"setuptools": "79"})
    assert "policy" not in made.as_dict()


def test_faults_that_are_fixed_are_said() -> None:
    patches = (
        AppliedPatch("0001-a.patch", "p" * 64, "applied", ("One", "Two")),
        AppliedPatch("0002-b.patch", "p" * 64, "upstream", ("Two",)),
        AppliedPatch("0003-c.patch", "p" * 64, "left out", ("Three",)),
    )
    made = provenance("x86", SOURCE, PreparedSource("0.32.0", Path("/p"), 1, patches), whole_note(), packing_tools={})
    assert (made.fixed_faults, made.upstream_kernels, made.upstream_speed) == (("One", "Two"), False, False)
    assert Provenance.model_validate(made.as_dict()).fixed_faults == made.fixed_faults
    assert made_from(PATCHED).fixed_faults == ("Of oneDNN",)
    bare = PreparedSource("0.32.0", Path("/p"), 1, ())
    assert (
        provenance("x86", SOURCE, bare, whole_note(), packing_tools={}, upstream_kernels=True).as_dict()[
            "upstream_kernels"
        ]
        is True
    )
    slow = provenance("x86", SOURCE, bare, whole_note(), packing_tools={}, upstream_speed=True).as_dict()
    assert (slow["upstream_kernels"], slow["upstream_speed"]) == (False, True)


def test_patches_for_onednn_are_said_with_it() -> None:
    made = made_from(PATCHED)
    patch = {"file": "0009-b.patch", "sha256": "q" * 64, "state": "applied", "fixes": ["Of oneDNN"]}
    assert made.as_dict()["onednn"] == {
        "tag": "v3.13",
        "version": "3.7.2",
        "digest": "d" * 64,
        "kind": "alternate",
        "release": "3.7.2",
        "patches": [patch],
    }
    assert [each.file for each in made.all_patches] == ["0001-a.patch", "0009-b.patch"]
    assert [each.file for each in made_from(None).all_patches] == ["0001-a.patch"]


def test_the_note_adds_what_the_audit_found() -> None:
    audited = Audited(
        Path("x.whl"),
        ("p",),
        "p",
        (Bundled("libnuma.so.1", "demo.libs/libnuma-1.so.1"),),
        ("GLIBC_2.17",),
        untried={"_C": ("AMX-FP8",)},
    )
    moved = (MovedRequirement("a @ https://e.org/a-1.tar.gz", "a==1", "a"),)
    note = wheel_note(made_from(), audited, moved)
    assert json.loads(note.render()) == made_from().as_dict() | {
        "bundled_libraries": {"demo.libs/libnuma-1.so.1": "libnuma.so.1"},
        "moved_requirements": [{"declared": "a @ https://e.org/a-1.tar.gz", "now": "a==1", "extra": "a"}],
        "policy": "p",
        "symbol_versions": ["GLIBC_2.17"],
        "untried": {"_C": ["AMX-FP8"]},
    }


def wheel(note: bytes | None) -> io.BytesIO:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("demo-1.dist-info/METADATA", "")
        if note is not None:
            archive.writestr("demo-1.dist-info/cpuwheels.json", note)
    return stream


def test_a_note_is_read_back_as_it_was_written() -> None:
    note = whole_note(commit="c" * 40)
    assert read_note(wheel(note.render())) == note


def test_what_a_later_version_adds_is_passed_over_but_another_format_is_not() -> None:
    data = json.loads(whole_note().render())
    assert read_note(wheel(json.dumps(data | {"sbom": {}}).encode())) == whole_note()
    with pytest.raises(ValueError, match="of another version"):
        read_note(wheel(json.dumps(data | {"format": 2}).encode()))


@pytest.mark.parametrize("note", [b"{", b"{}", b"[]"])
def test_half_a_note_is_refused(note: bytes) -> None:
    with pytest.raises(ValueError, match="of another version"):
        read_note(wheel(note))


def test_a_wheel_of_somebody_else_has_none() -> None:
    assert read_note(wheel(None)) is None
    with pytest.raises(ValueError, match="not a wheel"):
        read_note(io.BytesIO(b"no zip"))


def test_whoever_can_do_without_a_note_gets_none(tmp_path: Path) -> None:
    (tmp_path / "a.whl").write_bytes(wheel(whole_note().render()).getvalue())
    assert note_or_none(tmp_path / "a.whl") == whole_note()
    for bad in (wheel(None).getvalue(), wheel(b"{}").getvalue(), b"no zip"):
        (tmp_path / "a.whl").write_bytes(bad)
        assert note_or_none(tmp_path / "a.whl") is None
    assert note_or_none(tmp_path / "gone.whl") is None
