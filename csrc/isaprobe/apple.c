/* macOS on Arm64: sysctl, given the names that Linux has for the same features.
 *
 * Keys: Apple, "Determining instruction set characteristics" (hw.optional.arm.FEAT_*). */
#if defined(__aarch64__) && defined(__APPLE__)
#include "report.h"

#include <stdio.h>
#include <sys/sysctl.h>

static const struct {
    const char *key, *name;
} KEYS[] = {
    {"hw.optional.floatingpoint", "fp"},       {"hw.optional.AdvSIMD", "asimd"},
    {"hw.optional.arm.FEAT_AES", "aes"},       {"hw.optional.arm.FEAT_PMULL", "pmull"},
    {"hw.optional.arm.FEAT_SHA1", "sha1"},     {"hw.optional.arm.FEAT_SHA256", "sha2"},
    {"hw.optional.armv8_crc32", "crc32"},      {"hw.optional.arm.FEAT_LSE", "atomics"},
    {"hw.optional.arm.FEAT_FP16", "asimdhp"},  {"hw.optional.arm.FEAT_RDM", "asimdrdm"},
    {"hw.optional.arm.FEAT_JSCVT", "jscvt"},   {"hw.optional.arm.FEAT_FCMA", "fcma"},
    {"hw.optional.arm.FEAT_LRCPC", "lrcpc"},   {"hw.optional.arm.FEAT_SHA3", "sha3"},
    {"hw.optional.arm.FEAT_SHA512", "sha512"}, {"hw.optional.arm.FEAT_DotProd", "asimddp"},
    {"hw.optional.arm.FEAT_FHM", "asimdfhm"},  {"hw.optional.arm.FEAT_I8MM", "i8mm"},
    {"hw.optional.arm.FEAT_BF16", "bf16"},     {"hw.optional.arm.FEAT_SME", "sme"},
};

void probe(struct report *report) {
    size_t size = sizeof report->model;
    report->architecture = "arm64";
    snprintf(report->vendor, sizeof report->vendor, "Apple");
    if (sysctlbyname("machdep.cpu.brand_string", report->model, &size, NULL, 0) != 0)
        report->model[0] = '\0';
    for (size_t row = 0; row < sizeof KEYS / sizeof *KEYS; row++) {
        int present = 0;
        size = sizeof present;
        if (sysctlbyname(KEYS[row].key, &present, &size, NULL, 0) == 0 && present)
            add_feature(report, KEYS[row].name);
    }
}
#endif
