"""The drawing."""

from __future__ import annotations

from pathlib import Path

from buildbench.plot import bars, cap_bars, draw

from bench_results import results, run, whole


def test_bars_are_ratios_with_what_they_are_made_of() -> None:
    found = {name: (part, text, limit) for name, part, text, limit in bars(whole())}
    assert found["cold: CPU seconds"] == (0.25, "1,500 s of 6,000 s", 0.25)
    assert found["cold: peak memory"] == (1.0, "2 GiB of 2 GiB", None)
    assert found["modules"][1] == "24.0 MB of 260.0 MB"
    assert len(found) == 7


def test_caps_have_two_bars_each() -> None:
    names = [name for name, *_ in cap_bars(whole())]
    assert names == [f"cap {cap}: {what}" for what in ("peak, of the cap", "wall, of uncapped") for cap in ("4G", "8G")]
    assert [limit for *_, limit in cap_bars(whole())] == [1.0, 1.0, 1.10, None]


def test_the_same_figures_make_the_same_bytes(tmp_path: Path) -> None:
    drawn = []
    for folder in ("one", "two"):
        paths = [tmp_path / folder / f"x86.{kind}" for kind in ("svg", "png")]
        draw(whole(), paths)
        drawn.append([path.read_bytes() for path in paths])
    assert drawn[0] == drawn[1]
    assert b"1,500 s of 6,000 s" in drawn[0][0]


def test_one_mode_alone_can_be_drawn(tmp_path: Path) -> None:
    draw(results(noop=run()), [tmp_path / "a.svg"])
    assert "<svg" in (tmp_path / "a.svg").read_text()
