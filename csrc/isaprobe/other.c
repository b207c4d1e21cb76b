/* Machines that no other file is for: only their name is told. */
#if !defined(__x86_64__) && !defined(__s390x__) &&                                                           \
    !(defined(__aarch64__) && (defined(__linux__) || defined(__APPLE__)))
#include "report.h"

void probe(struct report *report) {
#if defined(__powerpc64__)
    report->architecture = "ppc64le";
#elif defined(__riscv)
    report->architecture = "riscv64";
#else
    report->architecture = "unknown";
#endif
}
#endif
