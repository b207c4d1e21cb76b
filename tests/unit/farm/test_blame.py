"""Whose fault a wrong wheel is."""

from __future__ import annotations

from cpuwheels.farm.blame import Blame


def test_whoever_compiled_the_kernels_itself_is_to_blame() -> None:
    blame = Blame()
    assert [blame.on("a", "a"), blame.on("b", "b"), blame.on("a", "a")] == ["a", "b", "a"]
    assert blame.left_out == {"a", "b"}


def test_one_packer_is_to_blame_however_many_of_its_wheels_are_wrong() -> None:
    blame = Blame()
    assert [blame.on("a", maker) for maker in ("x", "x", "y", "a")] == ["a"] * 4
    assert blame.left_out == {"a"}


def test_two_packers_of_the_same_kernels_are_not_to_blame() -> None:
    blame = Blame()
    assert [blame.on(packer, "x") for packer in ("a", "b", "c")] == ["a", "x", "x"]
    assert blame.left_out == {"x"}


def test_whoever_packs_kernels_of_one_that_is_left_out_is_not_to_blame() -> None:
    blame = Blame()
    assert [blame.on("p", "r"), blame.on("q", "p")] == ["p", "p"]
    assert blame.left_out == {"p"}


def test_what_a_packer_did_with_its_own_kernels_stays() -> None:
    blame = Blame()
    assert [blame.on("a", "a"), blame.on("a", "x"), blame.on("b", "x")] == ["a", "a", "x"]
    assert blame.left_out == {"a", "x"}
