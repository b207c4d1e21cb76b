"""Which library a chooser takes, and what it is compiled from; loading for real is in the integration tests."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from contexts import build_context
from cpuwheels.config.matrix import Library, Target, load_matrix
from cpuwheels.core.errors import CompileError, MatrixError
from cpuwheels.kernels.isa_dispatch import beside_kernels, build_chooser, chooser_key, objections, render_table
from kernel_request import TARGET, toolchain
from layout import ROOT

NEWER = Library(name="_C_NEWER", isa=(), needs=("one", "two"))
OLDER = Library(name="_C_OLDER", isa=(), needs=("one",))
SAME = Library(name="_C_SAME", isa=(), needs=("one",))


def target(*libraries: Library, **changes: object) -> Target:
    values = {"chooser": "_C", "baseline": "x86-64", "libraries": libraries or (NEWER, OLDER)}
    return TARGET.model_copy(update=values | changes)


class Library_(ctypes.Structure):  # noqa: N801  (the model's has the plain name)
    _fields_ = (("name", ctypes.c_char_p), ("needs", ctypes.POINTER(ctypes.c_char_p)))


class Table(ctypes.Structure):
    _fields_ = (
        ("module", ctypes.c_char_p),
        ("target", ctypes.c_char_p),
        ("libraries", ctypes.POINTER(Library_)),
        ("count", ctypes.c_size_t),
    )


class Amx(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_bool) for name in ("announced", "enabled", "permitted", "has_palette")),
        *((name, ctypes.c_uint) for name in ("tiles", "rows", "bytes_per_row")),
    )


class Report(ctypes.Structure):
    _fields_ = (
        ("architecture", ctypes.c_char_p),
        ("vendor", ctypes.c_char * 32),
        ("model", ctypes.c_char * 128),
        ("features", ctypes.c_char_p * 128),
        ("count", ctypes.c_size_t),
        ("has_xcr0", ctypes.c_bool),
        ("xcr0", ctypes.c_uint64),
        ("amx", Amx),
    )


class Text(ctypes.Structure):
    _fields_ = (("bytes", ctypes.c_char * 2048), ("length", ctypes.c_size_t))


Choose = Callable[..., str]


@pytest.fixture(scope="module")
def choose(c_compiler: Path, tmp_path_factory: pytest.TempPathFactory) -> Choose:
    """The compiled choice among `NEWER` and `OLDER`: the library's name, or why there is none."""
    csrc, shared = ROOT / "csrc", tmp_path_factory.mktemp("chooser") / "choose.so"
    warnings = ["-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Werror"]
    sources = [csrc / "chooser" / "choose.c", csrc / "chooser" / "load.c"]
    options = ["-std=c17", "-O2", "-fPIC", "-shared", *warnings, f"-I{csrc / 'isaprobe'}", "-o", shared]
    subprocess.run([c_compiler, *options, *sources, "-ldl"], check=True)
    function = ctypes.CDLL(str(shared)).choose
    function.restype = ctypes.POINTER(Library_)
    rows = [
        Library_(library.name.encode(), (ctypes.c_char_p * 9)(*(need.encode() for need in library.needs)))
        for library in (NEWER, OLDER)
    ]
    table = Table(b"_C", b"a machine", (Library_ * len(rows))(*rows), len(rows))

    def call(*features: str, choice: str | None = None, model: str = "", vendor: str = "") -> str:
        names = (ctypes.c_char_p * 128)(*(feature.encode() for feature in features))
        cpu = Report(b"any", vendor.encode(), model.encode(), names, len(features))
        why = Text()
        wanted = None if choice is None else choice.encode()
        found = function(ctypes.byref(table), ctypes.byref(cpu), wanted, ctypes.byref(why))
        return found.contents.name.decode() if found else why.bytes.decode()

    return call


@pytest.mark.parametrize(
    ("features", "choice", "library"),
    [
        (("one", "two"), None, "_C_NEWER"),
        (("zero", "two", "one"), None, "_C_NEWER"),
        (("one",), None, "_C_OLDER"),
        (("one", "two2"), None, "_C_OLDER"),
        (("one", "two"), "", "_C_NEWER"),
        (("one", "two"), "OLDER", "_C_OLDER"),
        (("one", "two"), "older", "_C_OLDER"),
        (("one", "two"), "_c_Older", "_C_OLDER"),
    ],
)
def test_choice(choose: Choose, features: tuple[str, ...], choice: str | None, library: str) -> None:
    assert choose(*features, choice=choice) == library


def test_no_library_for_this_cpu(choose: Choose) -> None:
    assert choose("two", model="M9", vendor="V") == (
        "this CPU (V M9) can run none of this wheel's kernel libraries; the wheel is for: a machine; it has: "
        "NEWER (needs one, which this CPU lacks), OLDER (needs one, which this CPU lacks)"
    )


def test_a_cpu_without_a_name(choose: Choose) -> None:
    assert choose(vendor="V").startswith("this CPU can run none of")


def test_one_that_this_cpu_cannot_run_is_asked_for(choose: Choose) -> None:
    assert choose("one", choice="newer") == (
        "CPUWHEELS_ISA=newer: this CPU cannot run that library; it has: "
        "NEWER (needs two, which this CPU lacks), OLDER (runs here)"
    )


@pytest.mark.parametrize("choice", ["SVE", "_C", "OLD", "OLDER "])
def test_one_that_does_not_exist_is_asked_for(choose: Choose, choice: str) -> None:
    told = choose("one", choice=choice)
    assert told.startswith(f"CPUWHEELS_ISA={choice}: this wheel has no such library; it has: NEWER (needs two")


def test_a_choice_of_any_length_leaves_room_for_what_there_is(choose: Choose) -> None:
    assert choose("one", choice="x" * 5000).endswith("OLDER (runs here)")


def test_table_for_the_compiler() -> None:
    table = render_table(target(description='for "some"'))
    assert table.splitlines() == [
        '#define MODULE_NAME "_C"',
        "#define MODULE_INIT PyInit__C",
        '#define TARGET "for \\"some\\""',
        "static const struct library LIBRARIES[] = {",
        '    {"_C_NEWER", (const char *const[]){"one", "two", NULL}},',
        '    {"_C_OLDER", (const char *const[]){"one", NULL}},',
        "};",
    ]


def test_the_projects_own_targets_go_with_their_choosers(project_root: Path) -> None:
    targets = [one for one in load_matrix(project_root).targets if one.chooser]
    assert targets
    assert [objections(one) for one in targets] == [[]] * len(targets)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (target(chooser=None), "it has no chooser"),
        (target(baseline=None), "needs a baseline"),
        (target(Library(name="_C", isa=())), "_C is not named _C_<ISA>"),
        (target(Library(name="_C_", isa=())), "_C_ is not named _C_<ISA>"),
        (target(Library(name="_D_NEON", isa=())), "_D_NEON is not named _C_<ISA>"),
        (target(OLDER, NEWER), "_C_NEWER is never chosen: _C_OLDER before it needs nothing else"),
        (target(OLDER, SAME), "_C_SAME is never chosen: _C_OLDER before it needs nothing else"),
    ],
)
def test_libraries_that_do_not_go_with_the_chooser(changed: Target, words: str) -> None:
    assert words in objections(changed)[0]
    with pytest.raises(MatrixError, match=words):
        render_table(changed)


def test_key(project_root: Path, tmp_path: Path) -> None:
    keys = {
        chooser_key(one, compiler, root)
        for one, compiler, root in [
            (target(), toolchain(), project_root),
            (target(NEWER), toolchain(), project_root),
            (target(baseline="x86-64-v2"), toolchain(), project_root),
            (target(), toolchain(digest="another"), project_root),
            (target(), toolchain(), tmp_path),
        ]
    }
    assert len(keys) == 5
    assert chooser_key(target(floor="any"), toolchain(cc=Path("/elsewhere/gcc")), project_root) in keys


@pytest.fixture
def context(tmp_path, store, logs):
    return build_context(tmp_path, target(), store=store, logs=logs)


def test_compiled_once(context, tmp_path):
    compiler = tmp_path / "cc"
    compiler.write_text('#!/bin/sh\necho "$@" >> "$0.log"\nwhile [ "$1" != -o ]; do shift; done; echo module > "$2"\n')
    compiler.chmod(0o755)
    tools = toolchain(cc=compiler, strip=Path("/bin/true"))
    for _ in range(2):
        module = build_chooser(context, tools)
    assert module.name == "_C.abi3.so"
    assert beside_kernels(context, tools) == {"vllm/_C.abi3.so": module}
    assert module.stat().st_mode & 0o777 == 0o755
    (command,) = (tmp_path / "cc.log").read_text().splitlines()
    assert "-march=x86-64" in command
    assert command.count("main.c") == 0
    assert "s390x.c" in command


def test_a_target_without_a_chooser_has_nothing_beside_its_kernels(context):
    assert beside_kernels(replace(context, target=TARGET), toolchain()) == {}


def test_compiler_that_fails(context, tmp_path):
    broken = tmp_path / "cc"
    broken.write_text("#!/bin/sh\necho Python.h: no such file; exit 1\n")
    broken.chmod(0o755)
    with pytest.raises(CompileError, match="chooser _C of target x86") as fault:
        build_chooser(context, toolchain(cc=broken))
    assert "Python.h: no such file" in str(fault.value)
    assert fault.value.log == context.logs / "chooser.log"
