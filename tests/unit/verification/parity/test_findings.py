"""Reports of GCC 14's sanitizers, as they were written, read for kind and place."""

from __future__ import annotations

import pytest

from cpuwheels.verification.parity.findings import Finding, read_reports

OVERFLOW = """\
=================================================================
==2==ERROR: AddressSanitizer: heap-buffer-overflow on address 0x509000000328 at pc 0x7fa5bcb063f2 bp 0x7ffe sp 0x7ffe
READ of size 4 at 0x509000000328 thread T0
    #0 0x7fa5bcb063f1 in oob /usr/src/cpuwheels/vllm/csrc/cpu/a.cpp:2
    #1 0x7fa5bd2bb055  (/store/libffi.so.8+0xc055) (BuildId: 702b6169773ed7821d51aed773d501c2604ebd7a)

0x509000000328 is located 0 bytes after 40-byte region [0x509000000300,0x509000000328)
allocated by thread T0 here:
    #0 0x7fa5bdef424d in posix_memalign ../../../../src/libsanitizer/asan/asan_malloc_linux.cpp:145
    #1 0x7fa5b7d6e0e1 in c10::alloc_cpu(unsigned long) (/store/libc10.so.2.14+0xa50e1) (BuildId: e226)

SUMMARY: AddressSanitizer: heap-buffer-overflow /usr/src/cpuwheels/vllm/csrc/cpu/a.cpp:2 in oob
Shadow bytes around the buggy address:
  0x509000000080: fa fa fa fa fa fa fa fa fa fa fa fa fa fa fa fa
"""
IN_A_CALL = """\
==2==ERROR: AddressSanitizer: negative-size-param: (size=-8)
    #0 0x7f52 in memcpy ../../../../src/libsanitizer/asan/asan_interceptors_memintrinsics.cpp:63
    #1 0x7f53 in std::copy<float const*>(float const*) /usr/src/cpuwheels/toolchain/include/c++/14/bits/stl.h:9
    #2 0x7f54 in void cache<float, 8ul>(at::Tensor&, long) /usr/src/cpuwheels/vllm/csrc/cpu/cache.cpp:88:13

"""
SHIFT = """\
/usr/src/cpuwheels/vllm/csrc/cpu/a.cpp:3:35: runtime error: shift exponent 40 is too large for 32-bit type 'int'
    #0 0x7fa5bcb06167 in ub /usr/src/cpuwheels/vllm/csrc/cpu/a.cpp:3
    #1 0x7fa5bd2bb055  (/store/libffi.so.8+0xc055) (BuildId: 702b6169773ed7821d51aed773d501c2604ebd7a)

"""
IN_A_HEADER = """\
/usr/src/cpuwheels/site-packages/torch/include/c10/util/BFloat16.h:40:12: runtime error: load of misaligned address
    #0 0x7fa5 in c10::load(void*) /usr/src/cpuwheels/site-packages/torch/include/c10/util/BFloat16.h:40
    #1 0x7fa6 in rows(int) /usr/src/cpuwheels/vllm/csrc/cpu/b.cpp:17
"""
RACE = """\
==================
WARNING: ThreadSanitizer: data race (pid=27358)
  Read of size 4 at 0x72a000060000 by thread T6:
    #0 bad._omp_fn.0 /usr/src/cpuwheels/vllm/csrc/cpu/a.cpp:30 (_C.abi3.so+0x17a5) (BuildId: c6053c64)
    #1 <null> <null> (libgomp.so.1+0xc3e1a) (BuildId: f563fa17)

  Previous atomic write of size 4 at 0x72a000060000 by main thread:
    #0 std::vector<float, std::allocator<float> >::assign(unsigned long) /toolchain/c++/14/vector:8 (_C.abi3.so+0x1)
    #1 bad /usr/src/cpuwheels/vllm/csrc/cpu/b.cpp:29 (_C.abi3.so+0x17e8) (BuildId: c6053c64)

  Location is heap block of size 16000 at 0x72a000060000 allocated by main thread:
    #0 good /usr/src/cpuwheels/vllm/csrc/cpu/c.cpp:6 (_C.abi3.so+0x1908)

SUMMARY: ThreadSanitizer: data race /usr/src/cpuwheels/vllm/csrc/cpu/a.cpp:30 in bad._omp_fn.0
==================
"""


@pytest.mark.parametrize(
    ("text", "kind", "what", "place", "function"),
    [
        (
            OVERFLOW,
            "heap-buffer-overflow",
            "READ of size 4 located 0 bytes after 40-byte region",
            "csrc/cpu/a.cpp:2",
            "oob",
        ),
        (IN_A_CALL, "negative-size-param", "negative-size-param: (size=-8)", "csrc/cpu/cache.cpp:88", "void cache"),
        (SHIFT, "undefined-behavior", "shift exponent 40 is too large for 32-bit type 'int'", "csrc/cpu/a.cpp:3", "ub"),
        (
            RACE,
            "data race",
            "Read of size 4, Previous atomic write of size 4 at csrc/cpu/b.cpp:29",
            "csrc/cpu/a.cpp:30",
            "bad._omp_fn.0",
        ),
        (IN_A_HEADER, "undefined-behavior", "load of misaligned address", "csrc/cpu/b.cpp:17", "rows"),
    ],
)
def test_a_report_is_read(text: str, kind: str, what: str, place: str, function: str) -> None:
    (found,) = read_reports(text)
    assert (found.kind, found.what, found.place) == (kind, what, place)
    assert found.function.startswith(function)


def test_several_reports_are_kept_apart_and_each_counts_once() -> None:
    found = read_reports(OVERFLOW + SHIFT + IN_A_HEADER + SHIFT + IN_A_CALL)
    assert [finding.place for finding in found] == [
        "csrc/cpu/a.cpp:2",
        "csrc/cpu/a.cpp:3",
        "csrc/cpu/b.cpp:17",
        "csrc/cpu/cache.cpp:88",
    ]


def test_a_report_without_lines_of_upstreams_names_what_the_sanitizer_names() -> None:
    text = "==2==ERROR: AddressSanitizer: SEGV on unknown address 0x0 (pc 0x1)\n    #0 0x1  (/store/libdnnl.so+0x1)\n"
    assert read_reports(text) == (
        Finding(kind="SEGV", what="SEGV on unknown address 0x0 (pc 0x1)", place="an unknown place"),
    )
    (elsewhere,) = read_reports("/usr/include/a.h:4:2: runtime error: division by zero\n")
    assert elsewhere.place == "/usr/include/a.h:4"


def test_what_is_no_report_is_none() -> None:
    assert read_reports("a line\nanother: 4\n") == ()


def test_a_finding_is_a_line() -> None:
    assert str(read_reports(SHIFT)[0]) == (
        "undefined-behavior at csrc/cpu/a.cpp:3: shift exponent 40 is too large for 32-bit type 'int', in ub"
    )
