/* s390x Linux: the kernel's hwcaps.
 *
 * Bits: Linux, arch/s390/include/asm/elf.h (HWCAP_NR_*); names: hwcap_str in arch/s390/kernel/processor.c.
 * AT_PLATFORM is the machine generation, such as z15. */
#if defined(__s390x__)
#include "report.h"

#include <stdio.h>
#include <sys/auxv.h>

static const struct capability HWCAP[] = {
    {0, "esan3"}, {1, "zarch"}, {2, "stfle"},  {3, "msa"},      {4, "ldisp"}, {5, "eimm"},
    {6, "dfp"},   {7, "edat"},  {8, "etf3eh"}, {9, "highgprs"}, {10, "te"},   {11, "vx"},
    {12, "vxd"},  {13, "vxe"},  {14, "gs"},    {15, "vxe2"},    {16, "vxp"},  {17, "sort"},
    {18, "dflt"}, {19, "vxp2"}, {20, "nnpa"},  {21, "pcimio"},  {22, "sie"},
};

void probe(struct report *report) {
    const char *platform = (const char *)getauxval(AT_PLATFORM);
    report->architecture = "s390x";
    snprintf(report->vendor, sizeof report->vendor, "IBM/S390");
    snprintf(report->model, sizeof report->model, "%s", platform ? platform : "");
    add_capabilities(report, getauxval(AT_HWCAP), HWCAP, sizeof HWCAP / sizeof *HWCAP);
}
#endif
