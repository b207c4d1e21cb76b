/* Arm64 Linux: the kernel's hwcaps, which also hold under emulation, where /proc/cpuinfo is the host's.
 *
 * Bits: Linux, arch/arm64/include/uapi/asm/hwcap.h; names: hwcap_str in arch/arm64/kernel/cpuinfo.c. */
#if defined(__aarch64__) && defined(__linux__)
#include "report.h"

#include <stdio.h>
#include <sys/auxv.h>

static const struct capability HWCAP[] = {
    {0, "fp"},        {1, "asimd"},  {2, "evtstrm"},  {3, "aes"},     {4, "pmull"},    {5, "sha1"},
    {6, "sha2"},      {7, "crc32"},  {8, "atomics"},  {9, "fphp"},    {10, "asimdhp"}, {11, "cpuid"},
    {12, "asimdrdm"}, {13, "jscvt"}, {14, "fcma"},    {15, "lrcpc"},  {16, "dcpop"},   {17, "sha3"},
    {18, "sm3"},      {19, "sm4"},   {20, "asimddp"}, {21, "sha512"}, {22, "sve"},     {23, "asimdfhm"},
    {24, "dit"},      {25, "uscat"}, {26, "ilrcpc"},  {27, "flagm"},  {28, "ssbs"},    {29, "sb"},
    {30, "paca"},     {31, "pacg"},
};

static const struct capability HWCAP2[] = {
    {0, "dcpodp"},   {1, "sve2"},   {2, "sveaes"}, {3, "svepmull"}, {4, "svebitperm"}, {5, "svesha3"},
    {6, "svesm4"},   {7, "flagm2"}, {8, "frint"},  {9, "svei8mm"},  {10, "svef32mm"},  {11, "svef64mm"},
    {12, "svebf16"}, {13, "i8mm"},  {14, "bf16"},  {15, "dgh"},     {16, "rng"},       {17, "bti"},
    {18, "mte"},     {19, "ecv"},   {20, "afp"},   {21, "rpres"},   {22, "mte3"},      {23, "sme"},
};

void probe(struct report *report) {
    const unsigned long hwcap = getauxval(AT_HWCAP);
    report->architecture = "aarch64";
    add_capabilities(report, hwcap, HWCAP, sizeof HWCAP / sizeof *HWCAP);
    add_capabilities(report, getauxval(AT_HWCAP2), HWCAP2, sizeof HWCAP2 / sizeof *HWCAP2);
    if (hwcap >> 11 & 1) { /* cpuid: the kernel lets programs read the identification registers */
        unsigned long midr;
        __asm__("mrs %0, midr_el1" : "=r"(midr));
        /* Arm ARM, MIDR_EL1: Implementer [31:24], PartNum [15:4], as Linux's /proc/cpuinfo shows them. */
        snprintf(report->vendor, sizeof report->vendor, "0x%02lx", midr >> 24 & 0xff);
        snprintf(report->model, sizeof report->model, "part 0x%03lx", midr >> 4 & 0xfff);
    }
}
#endif
