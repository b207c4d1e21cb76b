"""Which version is built where the user names none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from contexts import build_context
from cpuwheels.config.context import BuildContext
from cpuwheels.config.options import BuildOptions
from cpuwheels.core.errors import DownloadError, TorchError
from cpuwheels.pipeline import default_source
from cpuwheels.pipeline.default_source import with_default_source


class Torches:
    """The torches that can be had, and the questions for them."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.asked = folder, list[str]()
        self.there = {"2.14.0", "2.13.0"}
        self.error: type[TorchError | DownloadError] = TorchError
        self.known: Mapping[str, object] = {}

    def get(self, _context: BuildContext, torch: str) -> str:
        self.asked.append(torch)
        if torch not in self.there:
            raise self.error(f"no torch {torch}", where="nowhere", next_step="look elsewhere")
        return f"with {torch}"

    def source(self, options: BuildOptions | None = None, default: str = "0.33.0") -> tuple[str | None, list[str]]:
        """Return what is built, and the notes."""
        context = build_context(self.folder, options=options, default_source=default)
        chosen, self.known = with_default_source(context)
        return chosen.options.source, list(context.reporter.announcements)


@pytest.fixture
def torches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Torches:
    found = Torches(tmp_path)
    monkeypatch.setattr(default_source, "torch_environment", found.get)
    return found


def test_the_default_is_built_if_its_torch_can_be_had(torches: Torches) -> None:
    assert torches.source() == ("0.33.0", [])
    assert torches.asked == ["2.14.0"]


@pytest.mark.parametrize("error", [TorchError, DownloadError])
def test_the_newest_release_whose_torch_can_be_had_takes_its_place_with_one_note(
    torches: Torches, error: type[TorchError | DownloadError]
) -> None:
    torches.there, torches.error = {"2.13.0"}, error
    source, notes = torches.source()
    assert source == "0.32.0"
    (note,) = notes
    assert "building vLLM 0.32.0: the torch of 0.33.0 cannot be had here; --source 0.33.0 tells why" in note
    assert torches.asked == ["2.14.0", "2.13.0"]
    assert torches.known == {"2.13.0": "with 2.13.0"}


def test_a_newer_release_than_the_default_is_never_built(torches: Torches) -> None:
    torches.there = {"2.14.0"}
    with pytest.raises(TorchError, match=r"no torch 2\.13\.0"):
        torches.source(default="0.32.0")
    assert torches.asked == ["2.13.0"]  # once, though five releases need it


def test_without_any_torch_the_error_is_that_of_the_default(torches: Torches) -> None:
    torches.there = set()
    with pytest.raises(TorchError, match=r"no torch 2\.14\.0"):
        torches.source()


@pytest.mark.parametrize(
    "options",
    [
        BuildOptions(source="0.33.0"),
        BuildOptions(repo=Path("clone")),
        BuildOptions(sha256="0" * 64),
        BuildOptions(locked=True),
    ],
    ids=["source", "repo", "sha256", "locked"],
)
def test_what_the_user_names_or_locks_is_left_as_it_is(torches: Torches, options: BuildOptions) -> None:
    torches.there = set()
    assert torches.source(options) == (options.source, [])
    assert torches.asked == []
    assert torches.known == {}


@pytest.mark.usefixtures("torches")
def test_nothing_else_of_the_options_changes(tmp_path: Path) -> None:
    context = build_context(tmp_path, options=BuildOptions(memory="8G", jobs="1"))
    chosen, _ = with_default_source(context)
    assert replace(chosen, options=context.options) == context
    assert chosen.options == replace(context.options, source=context.matrix.default_source)
