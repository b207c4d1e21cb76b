"""What the audit of a macOS wheel says, from the facts of its files."""

import dataclasses

import pytest

from cpuwheels.audit.macos import audit_macos_wheel, macho_faults, read_binaries
from cpuwheels.audit.macos_symbols import SYSTEM, Providers, relied_on, stub_symbols
from cpuwheels.audit.policy import AuditPolicy
from cpuwheels.core.errors import AuditError
from cpuwheels.core.macho import Code, Import, MachOFacts

CXX = "/usr/lib/libc++.1.dylib"
OFFERED = Providers(
    torch={"libc10.dylib": frozenset({"_c10_error"}), "libomp.dylib": frozenset({"___kmpc_fork_call"})},
    system={SYSTEM: frozenset({"_malloc"}), CXX: frozenset({"___cxa_throw"})},
)
GOOD = MachOFacts(
    machine="arm64",
    minimum_os=(14, 0),
    name="@rpath/_C.abi3.so",
    needed=(SYSTEM, "@rpath/libc10.dylib"),
    search_path=("@loader_path/../torch/lib",),
    imports=(
        Import("_malloc", SYSTEM),
        Import("_c10_error", "@rpath/libc10.dylib"),
        Import("___kmpc_fork_call", ""),
        Import("___cxa_throw", ""),
        Import("_PyModule_Create2", ""),
    ),
    exports=frozenset({"_PyInit__C"}),
    signature_faults=(),
    code=Code(0x4000, 0x4000, 16),
)
STUB = """\
--- !tapi-tbd
tbd-version: 4
targets: [ x86_64-macos, arm64e-macos ]
install-name: '/usr/lib/libSystem.B.dylib'
exports:
  - targets: [ x86_64-macos ]
    symbols: [ _only_x86 ]
  - targets: [ x86_64-macos, arm64e-macos ]
    symbols: [ _both ]
    weak-symbols: [ _weak ]
--- !tapi-tbd
tbd-version: 4
reexports:
  - targets: [ arm64-macos ]
    symbols: [ _again ]
  - targets: [ arm64-maccatalyst ]
    symbols: [ _catalyst ]
...
"""


def faults(**changes):
    return list(macho_faults(dataclasses.replace(GOOD, **changes), (14, 0), "arm64", OFFERED))


def test_a_good_file_has_no_faults():
    assert faults() == []


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"machine": "x86_64"}, "is for x86_64, not for arm64"),
        ({"minimum_os": None}, "does not say which macOS"),
        ({"minimum_os": (15, 0)}, "is for macOS 15.0 or newer, the floor is 14.0"),
        ({"minimum_os": (11, 0)}, "is for macOS 11.0 or newer, the floor is 14.0"),
        ({"name": "/Users/me/build/_C.abi3.so"}, "calls itself '/Users/me/build/_C.abi3.so'"),
        ({"search_path": ("/opt/torch/lib",)}, "search path '/opt/torch/lib'"),
        ({"needed": ("/opt/homebrew/lib/libomp.dylib",)}, "needs /opt/homebrew/lib/libomp.dylib"),
        ({"needed": ("@rpath/libother.dylib",)}, "needs @rpath/libother.dylib"),
        ({"imports": (Import("_smuggled", ""),)}, "takes unknown symbols from the process: _smuggled"),
        ({"imports": (Import("___cxa_throw", SYSTEM),)}, f"takes unknown symbols from {SYSTEM}"),
        ({"imports": (Import("_malloc", SYSTEM, weak=True),)}, f"takes unknown symbols from {SYSTEM}"),
        ({"imports": (Import("_c10_error", "@rpath/libomp.dylib"),)}, "takes unknown symbols from @rpath/libomp.dylib"),
        ({"signature_faults": ("is not signed",)}, "is not signed"),
        ({"code": None}, "holds no instructions"),
    ],
)
def test_each_fault_is_said(changes, said):
    found = faults(**changes)
    assert len(found) == 1
    assert said in found[0]


def test_all_faults_are_said_at_once():
    assert len(faults(machine="x86_64", minimum_os=(15, 0), signature_faults=("is not signed",))) == 3


def test_many_symbols_are_counted():
    imports = tuple(Import(f"_s{number:02}", "") for number in range(14))
    assert faults(imports=imports)[0].endswith("_s09 and 4 more")


def test_torch_vouches_for_what_it_cannot_do_without():
    libraries = [
        dataclasses.replace(
            GOOD, imports=(Import("_a", CXX), Import("_newer", SYSTEM, weak=True), Import("_b", "@rpath/libc10.dylib"))
        )
    ]
    assert relied_on(libraries) == {CXX: frozenset({"_a"})}


def test_a_stub_file_is_read_for_the_machine():
    assert stub_symbols(STUB) == {"_both", "_weak", "_again"}


@pytest.mark.parametrize("text", ["- a list", "plain", "a: [", "exports: [{}]"])
def test_another_file_is_no_stub_file(text):
    with pytest.raises(ValueError, match="stub file"):
        stub_symbols(text)


def test_a_wheel_without_kernels_and_one_with_linux_kernels_are_refused():
    binaries, said = read_binaries({"vllm/_C.abi3.so": b"\x7fELF..."})
    assert not binaries
    assert said == [
        "vllm/_C.abi3.so is a file for Linux",
        "there is no Mach-O file in it: the kernels were not installed",
    ]


def test_a_missing_list_stops_the_audit(tmp_path):
    (tmp_path / "torch").mkdir()
    terms = AuditPolicy("macosx_14_0", "arm64", (), tmp_path / "torch", (tmp_path,), digests=(), system="Darwin")
    with pytest.raises(AuditError, match="cannot be read"):
        audit_macos_wheel(tmp_path / "x.whl", tmp_path / "out", terms, tmp_path / "log")
