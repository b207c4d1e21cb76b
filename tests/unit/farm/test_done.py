"""Results that are carried: what comes is what was sent, or nothing."""

from __future__ import annotations

import io
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest

from cpuwheels.core.digests import file_digest, text_digest
from cpuwheels.core.errors import CompileError, DownloadError, FarmError
from cpuwheels.farm import done as module
from cpuwheels.farm.done import NOT_RUN, Done, put_files, with_files
from farms import jobs_for


@pytest.fixture
def sent(tmp_path: Path) -> Done:
    folder = tmp_path / "sent"
    (folder / "debug").mkdir(parents=True)
    (folder / "a.whl").write_text("wheel")
    (folder / "debug" / "a.debug").write_text("more")
    done = Done("k", folder="x86/1", wheel="a.whl", sha256=file_digest(folder / "a.whl"), by="one")
    return with_files(done, folder)


def test_files_come_as_they_were_sent(sent: Done, tmp_path: Path) -> None:
    put_files(sent, tmp_path / "got")
    assert (tmp_path / "got" / "a.whl").read_text() == "wheel"
    assert (tmp_path / "got" / "debug" / "a.debug").read_text() == "more"
    assert sorted(sent.files) == ["a.whl", "debug/a.debug"]
    assert with_files(replace(sent, content=b""), tmp_path / "sent").content == sent.content, "the same bytes each time"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"content": b"no archive"}, "is not taken"),
        ({"sha256": "0" * 64}, "other files than named: a.whl"),
        ({"files": {}}, "other files than named: a.whl, debug/a.debug"),
        ({"wheel": "b.whl"}, "other files than named: b.whl"),
    ],
)
def test_what_is_not_as_named_is_not_taken(sent: Done, tmp_path: Path, change: dict[str, object], says: str) -> None:
    with pytest.raises(FarmError, match=says):
        put_files(replace(sent, **change), tmp_path / "got")  # type: ignore[arg-type]


def test_another_file_is_found_by_its_digest(sent: Done, tmp_path: Path) -> None:
    (tmp_path / "sent" / "debug" / "a.debug").write_text("else")
    other = with_files(sent, tmp_path / "sent")
    with pytest.raises(FarmError, match=r"other files than named: debug/a\.debug"):
        put_files(replace(sent, content=other.content), tmp_path / "got")


def test_a_path_that_leads_out_is_refused(sent: Done, tmp_path: Path) -> None:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as tar:
        member = tarfile.TarInfo("../out")
        member.size = 1
        tar.addfile(member, io.BytesIO(b"x"))
    with pytest.raises(FarmError, match="is not taken"):
        put_files(replace(sent, content=stream.getvalue()), tmp_path / "got")
    assert not (tmp_path / "out").exists()


def test_too_much_is_not_carried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST", 10)
    (tmp_path / "a").write_text("text")
    with pytest.raises(FarmError, match="more than 10 bytes"):
        with_files(Done("k"), tmp_path)


def test_an_error_is_of_the_class_of_the_exit_code() -> None:
    (job,) = jobs_for("a")
    error = Done("k", code=CompileError.exit_code, by="one", output="ops.cpp: error").error(job)
    assert isinstance(error, CompileError)
    assert str(error).splitlines()[:2] == ["wheel x86 a failed with status 27", "  where: wheel x86 a, one"]
    assert "ops.cpp: error" in str(error)
    assert isinstance(Done("k", code=99).error(job), FarmError)
    assert "was not begun: why" in str(Done("k", code=NOT_RUN, output="why").error(job))
    assert Done("k", code=DownloadError.exit_code).passing
    assert not Done("k", code=CompileError.exit_code).passing


def test_a_wheel_that_is_a_link_is_not_taken(tmp_path: Path) -> None:
    """Its digest in the result is that of the name to which it leads, whatever that file has."""
    folder = tmp_path / "sent"
    folder.mkdir()
    (folder / "real").write_text("anything")
    (folder / "a.whl").symlink_to("real")
    done = with_files(Done("k", folder="x86/1", wheel="a.whl", sha256=text_digest("real"), by="one"), folder)
    with pytest.raises(FarmError, match=r"other files than named: a\.whl"):
        put_files(done, tmp_path / "got")
