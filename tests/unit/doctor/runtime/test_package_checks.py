"""Packages that do not fit: C library, Python, platform, and what is preloaded."""

from __future__ import annotations

import pytest

from runtime_cases import INSTALLED, MAC, X86, detail, machine, report, statuses

PRELOAD = "LD_PRELOAD"
INTEL = X86.model_copy(update={"intel_openmp": True})
IOMP = "/env/lib/libiomp5.so"


def installed(package=X86, **changes):
    return package.model_copy(update={"installed": INSTALLED.model_copy(update=changes), "name": "env"})


@pytest.mark.parametrize(
    ("glibc", "text"), [("2.17", "needs glibc 2.27; this system has 2.17"), (None, "needs the GNU C library")]
)
def test_a_c_library_that_does_not_fit(glibc, text):
    found = report(machine("virtual-machine", glibc=glibc))
    assert statuses(found) == {"platform": "fail"}
    assert text in detail(found, "platform")


@pytest.mark.parametrize(
    ("tag", "fits"), [("manylinux2014_x86_64", True), ("linux_x86_64", True), ("win_amd64", False)]
)
def test_other_tags(tag, fits):
    found = report("virtual-machine", X86.model_copy(update={"platforms": (tag,)}))
    assert (found.verdict == "well") is fits


def test_one_tag_that_fits_is_enough():
    both = X86.model_copy(update={"platforms": ("manylinux_2_99_x86_64", "manylinux_2_27_x86_64")})
    assert report("virtual-machine", both).verdict == "well"


def test_an_older_macos():
    assert "needs macOS 14; this is 13.6" in detail(report(machine("m1", macos="13.6"), MAC), "platform")


@pytest.mark.parametrize(
    ("version", "fits"), [("3.10.9", False), ("3.11.0", True), ("3.14.1", True), ("3.15.0", False)]
)
def test_python_has_to_be_in_the_range(version, fits):
    assert ("Python" not in statuses(report(machine("graviton3", python=version)))) is fits


def test_the_python_of_an_environment_counts():
    assert statuses(report(machine("virtual-machine", python="3.10.1"), installed())) == {}
    assert statuses(report("virtual-machine", installed(python="3.10"))) == {"Python": "fail"}


def test_a_build_that_is_not_for_cpus():
    cuda = X86.model_copy(update={"version": "0.32.0"})
    assert statuses(report("virtual-machine", cuda)) == {"CPU build": "fail"}
    assert statuses(report(machine("virtual-machine", environ={"VLLM_TARGET_DEVICE": "cpu"}), cuda)) == {}


@pytest.mark.parametrize(
    ("preload", "package", "status"),
    [
        ("", X86, None),
        ("libiomp5.so", X86, None),
        ("libgomp.so.1:libiomp5.so", X86, "fail"),
        ("", installed(), None),
        ("", installed(openmp=()), "advice"),
        ("", installed(iomp=IOMP), "advice"),
        (IOMP, installed(iomp=IOMP), None),
        ("", INTEL, None),
        ("", installed(INTEL, openmp=(), iomp=IOMP), None),
        # It is required, but somebody has removed it.
        ("", installed(INTEL, openmp=()), "advice"),
    ],
)
def test_one_openmp_runtime(preload, package, status):
    found = report(machine("virtual-machine", environ={PRELOAD: preload} if preload else {}), package)
    assert statuses(found).get("OpenMP") == status


def test_no_torch_no_server():
    assert statuses(report("virtual-machine", installed(torch=""))) == {"torch": "fail"}


def test_the_allocator_comes_with_the_package_or_is_named():
    bare = X86.model_copy(update={"allocator": False})
    assert statuses(report("virtual-machine", bare)) == {"tcmalloc": "advice"}
    has = machine("virtual-machine", libraries=("libtcmalloc_minimal.so.4",))
    assert detail(report(has, bare), "tcmalloc").endswith("export LD_PRELOAD=libtcmalloc_minimal.so.4")
    named = machine("virtual-machine", environ={PRELOAD: "libtcmalloc_minimal.so.4"})
    assert statuses(report(named, bare)) == {}


def test_zentorch_is_advised_where_vllm_would_use_it():
    assert f"'{X86.name}[zen]'" in detail(report("container-2-cpus"), "AMD Zen")
    assert "AMD Zen" not in statuses(report("container-2-cpus", installed(zentorch=True)))
    assert "AMD Zen" not in statuses(report("container-2-cpus", X86.model_copy(update={"extras": frozenset()})))


def test_variables_that_are_set_already_are_listed():
    found = report(machine("graviton3", environ={"VLLM_CPU_KVCACHE_SPACE": "9", PRELOAD: "x"}))
    assert detail(found, "environment").startswith("sets VLLM_CPU_KVCACHE_SPACE=9 ->")
