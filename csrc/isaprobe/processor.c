/* x86-64: the processor that this program runs on, and its operating system. */
#if defined(__x86_64__)
#define _GNU_SOURCE /* syscall(2) */
#include "processor.h"

#include <cpuid.h>
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

void execute_cpuid(uint32_t leaf, uint32_t subleaf, uint32_t words[4]) {
    __cpuid_count(leaf, subleaf, words[EAX], words[EBX], words[ECX], words[EDX]);
}

uint64_t read_xcr0(void) {
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (uint64_t)high << 32 | low;
}

/* Since Linux 5.16 a program must ask before it may use tile data; a container's policy can refuse. */
bool request_tiles(void) {
#if defined(__linux__)
    enum { ARCH_REQ_XCOMP_PERM_ = 0x1023, XFEATURE_XTILEDATA_ = 18 }; /* <asm/prctl.h>, <asm/fpu/types.h> */
    return syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM_, XFEATURE_XTILEDATA_) == 0;
#else
    return false;
#endif
}
#endif
