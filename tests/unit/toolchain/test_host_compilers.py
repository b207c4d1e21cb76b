from __future__ import annotations

from pathlib import Path

import pytest

from cpuwheels.core.capture import capture
from cpuwheels.toolchain.host_compilers import partner, survey_host, verdicts
from cpuwheels.toolchain.probe import compiler_digest
from fake_compiler import TARGET, Fake


@pytest.fixture
def on_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "bin"
    folder.mkdir()
    # The fakes are shell scripts that use cat; the machine's own compilers must not be found.
    system = tmp_path / "system"
    system.mkdir()
    for name in ("sh", "cat"):
        (system / name).symlink_to(f"/bin/{name}")
    monkeypatch.setenv("PATH", f"{folder}:{system}")
    return folder


@pytest.mark.parametrize(
    ("fake", "reason"),
    [
        (Fake(version="12.2.0"), "GNU 12.2.0: older than GNU 12.3, which x86 needs"),
        (Fake(static=False), "GNU 13.3.0: it has no libstdc++.a"),
        (Fake(objcopy=False), "GNU 13.3.0: no objcopy (binutils) next to it or on PATH"),
        (Fake(machine="s390x-linux-gnu"), "GNU 13.3.0: it compiles for s390x-linux-gnu, not for x86_64 Linux"),
        (Fake(clang=True), "Clang 13.3.0: x86 needs GNU 12.3 or newer"),
    ],
)
def test_refused_with_the_reason(on_path: Path, fake: Fake, reason: str) -> None:
    fake.write(on_path, "g++")
    ((command, text, accepted),) = survey_host(TARGET, {})
    assert (command, accepted) == ("g++", False)
    assert text.startswith(reason)


def test_a_program_that_fails_is_refused(on_path: Path) -> None:
    (on_path / "g++").write_text("#!/bin/sh\necho 'cannot execute cc1plus' >&2\nexit 1\n")
    (on_path / "g++").chmod(0o755)
    assert survey_host(TARGET, {}) == [("g++", "it does not work: cannot execute cc1plus", False)]


def test_a_program_that_is_no_compiler_is_refused(on_path: Path) -> None:
    (on_path / "g++").write_text("#!/bin/sh\necho hello\n")
    (on_path / "g++").chmod(0o755)
    ((_, text, accepted),) = survey_host(TARGET, {})
    assert (text, accepted) == ("not a compiler of a known family (its predefined macros name none)", False)


def test_a_compiler_is_asked_again_only_if_it_is_another_file(on_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Path] = []
    monkeypatch.setattr(
        "cpuwheels.toolchain.probe.capture", lambda argv, **options: asked.append(argv[0]) or capture(argv, **options)
    )
    Fake().write(on_path, "g++")
    assert [accepted for _, _, accepted in survey_host(TARGET, {})] == [True]
    once = len(asked)
    survey_host(TARGET, {})
    assert len(asked) == once + 1  # its title, which is no answer about what it makes
    (on_path / "g++").write_text("#!/bin/sh\necho 'cannot execute cc1plus' >&2\nexit 1\n")
    assert survey_host(TARGET, {}) == [("g++", "it does not work: cannot execute cc1plus", False)]


def test_a_missing_c_compiler_is_a_reason(on_path: Path) -> None:
    Fake().write(on_path, "g++-13")
    (on_path / "gcc-13").unlink()
    assert survey_host(TARGET, {}) == [("g++-13", "GNU 13.3.0: there is no C compiler gcc-13 next to it", False)]


def test_the_environment_comes_before_path_and_path_in_the_gates_order(on_path: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    Fake(version="15.1.0").write(other, "my-g++")
    Fake(version="13.3.0").write(on_path, "g++-13")
    Fake(version="14.2.0").write(on_path, "g++-14")
    environ = {"CXX": f"ccache {other}/my-g++"}
    assert [row[0] for row in survey_host(TARGET, environ)] == [f"CXX={other}/my-g++", "g++-14", "g++-13"]
    assert [row[0] for row in survey_host(TARGET, {"CC": "gcc-13"})] == ["CC=gcc-13", "g++-14"]


FOREIGN = TARGET.model_copy(update={"id": "s390x", "machine": "s390x"})


def test_for_another_machine_only_cross_compilers_are_looked_for(on_path: Path) -> None:
    Fake(version="14.2.0").write(on_path, "g++")
    assert survey_host(FOREIGN, {}) == []
    cross = Fake(version="13.3.0", machine="s390x-linux-gnu")
    cross.write(on_path, "s390x-linux-gnu-g++")
    cxx = cross.write(on_path, "s390x-linux-gnu-g++-13")
    (verdict, _) = verdicts(FOREIGN, {})
    assert verdict.command == "s390x-linux-gnu-g++-13"
    assert verdict.compiler is not None
    assert (verdict.compiler.cxx, verdict.compiler.cc) == (cxx, on_path / "s390x-linux-gnu-gcc-13")


def test_a_cross_compiler_must_meet_the_gate(on_path: Path) -> None:
    Fake(version="12.2.0", machine="s390x-linux-gnu").write(on_path, "s390x-linux-gnu-g++")
    ((command, text, accepted),) = survey_host(FOREIGN, {})
    assert (command, accepted) == ("s390x-linux-gnu-g++", False)
    assert text == "GNU 12.2.0: older than GNU 12.3, which s390x needs"


def test_cxx_of_this_machine_is_refused_for_another(on_path: Path) -> None:
    Fake().write(on_path, "g++")
    ((_, text, accepted),) = survey_host(FOREIGN, {"CXX": "g++"})
    assert (text, accepted) == ("GNU 13.3.0: it compiles for x86_64-linux-gnu, not for s390x Linux", False)


@pytest.mark.parametrize("own", [False, True])
def test_headers_of_another_c_library_are_noticed(on_path: Path, own: bool) -> None:
    Fake(c_headers=own).write(on_path, "g++")
    (verdict,) = verdicts(TARGET, {})
    assert verdict.compiler is not None
    assert verdict.compiler.c_headers == own


def test_cxx_that_is_not_there_is_said(on_path: Path) -> None:
    Fake().write(on_path, "g++")
    rows = survey_host(TARGET, {"CXX": "g++-99"})
    assert [(row[0], row[2]) for row in rows] == [("CXX=g++-99", False), ("g++", True)]
    assert rows[0][1] == "there is no such program"


def test_cc_and_cxx_must_be_one_compiler(on_path: Path) -> None:
    Fake(version="13.3.0").write(on_path, "g++-13")
    Fake(version="14.2.0").write(on_path, "g++-14")
    row = survey_host(TARGET, {"CC": "gcc-13", "CXX": "g++-14"})[0]
    assert row[1] == f"GNU 14.2.0: its C compiler {on_path}/gcc-13 is another one, GNU 13.3.0"


def test_one_program_under_two_names_is_judged_once(on_path: Path) -> None:
    Fake(version="12.2.0").write(on_path, "g++-13")
    (on_path / "g++").symlink_to("g++-13")
    (on_path / "gcc").symlink_to("gcc-13")
    assert [row[0] for row in survey_host(TARGET, {})] == ["g++-13"]


def test_what_is_known_of_a_good_compiler(on_path: Path) -> None:
    cxx = Fake().write(on_path, "g++-13")
    (verdict,) = verdicts(TARGET, {})
    compiler = verdict.compiler
    assert compiler is not None
    parts = on_path / "g++-13.parts"
    assert (compiler.cxx, compiler.cc) == (cxx, on_path / "gcc-13")
    assert compiler.cxx_folders == (parts / "c++/13.3.0", parts / "c++/13.3.0/backward")
    assert compiler.own_folders == (parts / "include",)
    assert compiler.tools["strip"] == parts / "strip"
    assert str(verdict) == "g++-13: GNU 13.3.0 (g++-13 (Fake) 13.3.0)"


@pytest.mark.usefixtures("on_path")
def test_the_digest_is_of_the_bytes_and_not_of_the_place(tmp_path: Path) -> None:
    def digest(folder: str, changed: str = "") -> str:
        place = tmp_path / folder
        place.mkdir()
        cxx = Fake().write(place, "g++-13")
        if changed:
            (place / "g++-13.parts" / changed).write_text("other")
        found = next(verdicts(TARGET, {"CXX": str(cxx)})).compiler
        assert found is not None
        return compiler_digest(found)

    first = digest("one")
    assert digest("two") == first
    assert digest("three", "cc1plus") != first
    assert digest("four", "c++/13.3.0/vector") != first
    assert digest("five", "as") != first


@pytest.mark.parametrize(
    ("cxx", "cc"),
    [
        ("g++", "gcc"),
        ("/opt/bin/x86_64-linux-gnu-g++-14", "/opt/bin/x86_64-linux-gnu-gcc-14"),
        ("x86_64-conda-linux-gnu-c++", "x86_64-conda-linux-gnu-cc"),
        ("clang++-19", "clang-19"),
        ("/usr/lib/ccache/g++-13", "/usr/lib/ccache/gcc-13"),
    ],
)
def test_partners(cxx: str, cc: str) -> None:
    assert partner(Path(cxx)) == Path(cc)
    assert partner(Path(cc), cxx=True) == Path(cxx)
