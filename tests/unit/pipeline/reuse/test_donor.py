from __future__ import annotations

import hashlib
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from contexts import build_context
from cpuwheels.config.options import BuildOptions
from cpuwheels.core.console import Reporter
from cpuwheels.core.direct_mode import content_digest
from cpuwheels.core.errors import DigestMismatchError, DownloadError, PrecompiledError, UsageError
from cpuwheels.core.store import Store
from cpuwheels.core.trust import Trust
from cpuwheels.kernels.executed import counted_files
from cpuwheels.kernels.manifest import FILE, KernelManifest
from cpuwheels.kernels.request import KernelRequest
from cpuwheels.pipeline.reuse import binaries
from cpuwheels.pipeline.reuse.binaries import precompiled_binaries
from cpuwheels.pipeline.reuse.candidates import LocalCandidate
from cpuwheels.pipeline.reuse.donor import Donor, check_request, find_donor
from cpuwheels.wheel.dist_info import NOTE
from kernel_request import kernel_request
from loopback import Answer, Server
from wheel_notes import wheel_note
from wheel_writer import INFO, write_good

NOTES = wheel_note()


def name(version: str, tag: str = "manylinux_2_28_x86_64") -> str:
    return f"vllm-{version}-cp38-abi3-{tag}.whl"


class Place:
    """A source, and wheels whose kernels are or are not its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "wheels"
        self.folder.mkdir()
        self.store = Store(folder / "store", trust=Trust.COMMIT)
        self.request: KernelRequest = kernel_request(folder)
        self.said: list[str] = []
        reporter = Reporter("x86")
        reporter.announce = self.said.append  # type: ignore[method-assign]
        self.context = build_context(folder, self.request.target, store=self.store, reporter=reporter)
        source = self.request.source.folder
        (source / "csrc" / "cpu").mkdir(parents=True, exist_ok=True)
        (source / "csrc" / "cpu" / "a.cpp").write_text("int a;\n")

    def made_from(self, **files: str) -> KernelManifest:
        known = {"csrc/cpu/a.cpp": f"-:{hashlib.sha256(b'int a;' + bytes([10])).hexdigest()}"}
        source = self.request.source.folder
        known |= {name: content_digest(source / name) for name in counted_files(source)}
        return KernelManifest(
            kernels="k",
            modules=("_C",),
            chooser=None,
            beside=self.request.beside_source(),
            files=known | files,
            folders={},
        )

    def wheel(self, version: str, said: KernelManifest | None, tag: str = "manylinux_2_28_x86_64") -> Path:
        added = {f"{INFO}/{NOTE}": NOTES.render()}
        if said is not None:
            added[f"{INFO}/{FILE}"] = said.render()
        return write_good(self.folder, name(version, tag), **added)

    def find(self, place: object) -> Donor:
        return find_donor(self.context, str(place), self.request, None)


def test_a_release_takes_kernels_of_releases_alone(place: Place) -> None:
    place.wheel("1.0", place.made_from())
    place.context = replace(place.context, store=place.store.trusting(Trust.RELEASE))
    with pytest.raises(PrecompiledError, match="are not those of this source") as caught:
        place.find(place.folder)
    assert "matrix.yaml does not pin" in caught.value.output
    pinned = place.context.matrix.releases[0].sdist.sha256
    note = NOTES.model_copy(update={"source": NOTES.source.model_copy(update={"digest": pinned})})
    added = {f"{INFO}/{NOTE}": note.render(), f"{INFO}/{FILE}": place.made_from().render()}
    wheel = write_good(place.folder, name("1.0"), **added)
    assert place.find(place.folder).wheel == wheel


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def other(place: Place) -> KernelManifest:
    return place.made_from(**{"csrc/cpu/a.cpp": "-:other", "csrc/cpu/b.cpp": "-:b"})


def test_a_wheel_with_the_same_kernels(place: Place) -> None:
    wheel = place.wheel("1.0", place.made_from())
    donor = place.find(wheel)
    assert donor.wheel == wheel
    assert donor.note == NOTES


def test_a_wheel_with_other_kernels_is_refused_with_the_files_that_differ(place: Place) -> None:
    wheel = place.wheel("1.0", other(place))
    with pytest.raises(PrecompiledError, match="2 differences") as caught:
        place.find(wheel)
    assert "csrc/cpu/a.cpp has other content" in str(caught.value)
    assert "csrc/cpu/b.cpp is gone" in str(caught.value)


def test_of_a_folder_the_newest_that_fits_is_taken(place: Place) -> None:
    place.wheel("1.10", other(place))
    fits = place.wheel("1.9", place.made_from())
    place.wheel("1.2", place.made_from())
    place.wheel("2.0", None)
    place.wheel("3.0", place.made_from(), tag="manylinux_2_28_aarch64")
    (place.folder / "vllm-4.0-cp38-abi3-manylinux_2_28_x86_64.whl").write_bytes(b"no zip")
    with zipfile.ZipFile(place.folder / "vllm-5.0-cp38-abi3-manylinux_2_28_x86_64.whl", "w") as archive:
        archive.writestr("alone", "")
    (place.folder / "odd.whl").write_bytes(b"")
    assert place.find(place.folder).wheel == fits


def test_of_a_folder_without_any_the_nearest_is_compared(place: Place) -> None:
    place.wheel("2.0", place.made_from(**{f"csrc/{number}.h": "-:x" for number in range(30)}))
    place.wheel("1.0", other(place))
    with pytest.raises(PrecompiledError, match=r"vllm-1\.0-.* 2 differences"):
        place.find(place.folder)


def test_a_note_that_is_not_as_this_version_writes_it(place: Place) -> None:
    added = {f"{INFO}/{NOTE}": b"{}", f"{INFO}/{FILE}": place.made_from().render()}
    wheel = write_good(place.folder, name("1.0"), **added)
    with pytest.raises(PrecompiledError, match=r"cpuwheels\.json is of another version"):
        place.find(wheel)


def test_a_wheel_that_changes_under_our_eyes(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel = place.wheel("1.0", place.made_from())

    def changed(offer: LocalCandidate) -> Path:
        place.wheel("1.0", other(place))
        return offer.path

    monkeypatch.setattr(LocalCandidate, "get", changed)
    with pytest.raises(PrecompiledError, match="not what it was a moment ago"):
        place.find(wheel)


def test_many_differences_are_cut(place: Place) -> None:
    wheel = place.wheel("1.0", place.made_from(**{f"csrc/{number}.h": "-:x" for number in range(30)}))
    with pytest.raises(PrecompiledError, match="30 differences") as caught:
        place.find(wheel)
    assert "and 10 more" in str(caught.value)


def test_a_wheel_that_says_nothing(place: Place) -> None:
    wheel = place.wheel("1.0", None)
    with pytest.raises(PrecompiledError, match="no wheel there says") as caught:
        place.find(wheel)
    assert f"it has no {FILE}" in str(caught.value)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("gone", "is not there"),
        ("", "no wheel of vllm for Linux x86_64"),
        ("http://127.0.0.1:9/vllm-1.0-cp38-abi3-manylinux_2_28_x86_64.whl", "needs its digest"),
        ("http://127.0.0.1:9/a-1.0-py3-none-any.whl#sha256=" + "0" * 64, "no wheel of vllm for Linux x86_64"),
    ],
)
def test_a_place_without_wheels(place: Place, given: str, words: str) -> None:
    with pytest.raises(PrecompiledError, match=words):
        place.find(given if "://" in given else place.folder / given)


class TestOnAServer:
    def serve(self, server: Server, *wheels: Path, ranges: bool = True, digests: bool = True) -> str:
        links = []
        for wheel in wheels:
            content = wheel.read_bytes()
            url = server.serve(f"/{wheel.name}", Answer(content, ranges=ranges))
            links.append(f"{url}#sha256={hashlib.sha256(content).hexdigest()}" if digests else url)
        page = "".join(f'<a href="{link}">{Path(link).name}</a>' for link in links)
        server.serve("/simple/vllm/", Answer(page.encode(), headers={"Content-Type": "text/html"}))
        return server.url("/simple")

    @pytest.mark.parametrize("ranges", [True, False])
    def test_an_index(self, place: Place, ranges: bool) -> None:
        differs, fits = place.wheel("2.0", other(place)), place.wheel("1.0", place.made_from())
        with Server() as server:
            donor = place.find(self.serve(server, differs, fits, ranges=ranges))
        assert donor.wheel.read_bytes() == fits.read_bytes()
        assert donor.origin.endswith(f"/{fits.name}")

    def test_a_url_with_its_digest(self, place: Place) -> None:
        wheel = place.wheel("1.0", place.made_from())
        digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
        with Server() as server:
            self.serve(server, wheel)
            donor = place.find(f"{server.url('/' + wheel.name)}#sha256={digest}")
            assert donor.sha256 == digest
            with pytest.raises(DigestMismatchError):
                place.find(f"{server.url('/' + wheel.name)}#sha256={'0' * 64}")

    def test_wheels_without_a_digest_are_not_taken(self, place: Place) -> None:
        wheel = place.wheel("1.0", place.made_from())
        with Server() as server, pytest.raises(PrecompiledError, match="no wheel of vllm"):
            place.find(self.serve(server, wheel, digests=False))
        assert "gives no sha256" in place.said[0]

    def test_a_server_that_fails(self, place: Place) -> None:
        with Server() as server:
            server.serve("/simple/vllm/", Answer(status=500))
            with pytest.raises(DownloadError):
                place.find(server.url("/simple"))


class TestBinaries:
    def test_they_are_taken_as_they_are(self, place: Place) -> None:
        donor = place.find(place.wheel("1.0", place.made_from()))
        folder, (key, audited) = precompiled_binaries(donor, place.store)
        assert [path.relative_to(folder).as_posix() for path in folder.rglob("*.so")] == ["demo/_C.abi3.so"]
        assert audited.path.name == "vllm-0-cp38-abi3-manylinux_2_28_x86_64.whl"
        assert audited.policy == "manylinux_2_17"
        assert [(one.soname, one.path) for one in audited.bundled] == [("libnuma.so.1", "demo.libs/libnuma-1.so.1")]
        untried = {"_C": ("AMX-FP8",)}
        told = replace(donor, note=donor.note.model_copy(update={"untried": untried}))
        assert (audited.untried, precompiled_binaries(told, place.store)[1][1].untried) == ({}, untried)
        again = precompiled_binaries(donor, place.store)
        assert again == (folder, (key, audited))

    def test_those_that_another_compressor_packed_are_not_taken(
        self, place: Place, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        donor = place.find(place.wheel("1.0", place.made_from()))
        folder, (key, _) = precompiled_binaries(donor, place.store)
        monkeypatch.setattr(binaries, "compressor_key", lambda: "another")
        other_folder, (other_key, _) = precompiled_binaries(donor, place.store)
        assert (other_folder == folder, other_key == key) == (False, False)

    def test_damaged_ones_are_refused(self, place: Place) -> None:
        wheel = place.wheel("1.0", place.made_from())
        content = wheel.read_bytes()
        said = place.made_from()
        bad = write_good(
            place.folder / "bad",
            name("1.0"),
            library=b"\x7fELF other",
            **{f"{INFO}/{NOTE}": NOTES.render(), f"{INFO}/{FILE}": said.render()},
        )
        assert bad.read_bytes() != content
        swapped = self.with_record_of(wheel, bad)
        with pytest.raises(PrecompiledError, match=r"damaged: demo/_C\.abi3\.so"):
            precompiled_binaries(replace(place.find(wheel), wheel=swapped), place.store)

    def with_record_of(self, good: Path, bad: Path) -> Path:
        with zipfile.ZipFile(good) as first, zipfile.ZipFile(bad) as second:
            members = {one: second.read(one) for one in second.namelist()}
            members[f"{INFO}/RECORD"] = first.read(f"{INFO}/RECORD")
        with zipfile.ZipFile(bad, "w") as archive:
            for one, content in members.items():
                archive.writestr(one, content)
        return bad


@pytest.mark.parametrize("given", [{"locked": True}, {"debug_symbols": True}])
def test_options_that_mean_nothing_are_refused(given: dict[str, bool]) -> None:
    with pytest.raises(UsageError, match="exclude each other"):
        check_request(BuildOptions(kernels_from="a", **given))
