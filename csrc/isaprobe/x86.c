/* x86-64: CPUID says what the processor can do, XCR0 what the operating system lets programs use of it.
 *
 * Bit names and positions: Intel SDM volume 2A, "CPUID" (leaves 1, 7, 0x80000001 to 0x80000004), and the
 * Intel Architecture Instruction Set Extensions reference for leaf 0x1e; AMD APM volume 3, appendix E,
 * agrees. XCR0: Intel SDM volume 1, 13.3, "Enabling the XSAVE feature set". */
#if defined(__x86_64__)
#include "processor.h"
#include "report.h"

#include <string.h>

/* Register state that must be switched on before a feature can be used. */
enum state { NONE, YMM, ZMM, TILE };

static const uint64_t STATE_BITS[] = {
    [NONE] = 0,
    [YMM] = 0x6,      /* XCR0[1] SSE, XCR0[2] AVX */
    [ZMM] = 0xe6,     /* and XCR0[5] opmask, XCR0[6] ZMM_Hi256, XCR0[7] Hi16_ZMM */
    [TILE] = 0x60000, /* XCR0[17] XTILECFG, XCR0[18] XTILEDATA */
};

struct feature {
    uint32_t leaf, subleaf;
    enum output output;
    unsigned bit;
    enum state state;
    const char *name;
};

static const struct feature FEATURES[] = {
    {0x1, 0, EDX, 23, NONE, "mmx"},               /* MMX */
    {0x1, 0, EDX, 25, NONE, "sse"},               /* SSE */
    {0x1, 0, EDX, 26, NONE, "sse2"},              /* SSE2 */
    {0x1, 0, ECX, 0, NONE, "pni"},                /* SSE3, which Linux calls by its first name */
    {0x1, 0, ECX, 1, NONE, "pclmulqdq"},          /* PCLMULQDQ */
    {0x1, 0, ECX, 9, NONE, "ssse3"},              /* SSSE3 */
    {0x1, 0, ECX, 12, YMM, "fma"},                /* FMA */
    {0x1, 0, ECX, 13, NONE, "cx16"},              /* CMPXCHG16B */
    {0x1, 0, ECX, 19, NONE, "sse4_1"},            /* SSE4.1 */
    {0x1, 0, ECX, 20, NONE, "sse4_2"},            /* SSE4.2 */
    {0x1, 0, ECX, 22, NONE, "movbe"},             /* MOVBE */
    {0x1, 0, ECX, 23, NONE, "popcnt"},            /* POPCNT */
    {0x1, 0, ECX, 25, NONE, "aes"},               /* AESNI */
    {0x1, 0, ECX, 26, NONE, "xsave"},             /* XSAVE */
    {0x1, 0, ECX, 28, YMM, "avx"},                /* AVX */
    {0x1, 0, ECX, 29, YMM, "f16c"},               /* F16C */
    {0x1, 0, ECX, 30, NONE, "rdrand"},            /* RDRAND */
    {0x1, 0, ECX, 31, NONE, "hypervisor"},        /* not used by processors, set by hypervisors */
    {0x7, 0, EBX, 3, NONE, "bmi1"},               /* BMI1 */
    {0x7, 0, EBX, 5, YMM, "avx2"},                /* AVX2 */
    {0x7, 0, EBX, 8, NONE, "bmi2"},               /* BMI2 */
    {0x7, 0, EBX, 16, ZMM, "avx512f"},            /* AVX512F */
    {0x7, 0, EBX, 17, ZMM, "avx512dq"},           /* AVX512DQ */
    {0x7, 0, EBX, 21, ZMM, "avx512ifma"},         /* AVX512_IFMA */
    {0x7, 0, EBX, 28, ZMM, "avx512cd"},           /* AVX512CD */
    {0x7, 0, EBX, 29, NONE, "sha_ni"},            /* SHA */
    {0x7, 0, EBX, 30, ZMM, "avx512bw"},           /* AVX512BW */
    {0x7, 0, EBX, 31, ZMM, "avx512vl"},           /* AVX512VL */
    {0x7, 0, ECX, 1, ZMM, "avx512vbmi"},          /* AVX512_VBMI */
    {0x7, 0, ECX, 6, ZMM, "avx512_vbmi2"},        /* AVX512_VBMI2 */
    {0x7, 0, ECX, 8, NONE, "gfni"},               /* GFNI */
    {0x7, 0, ECX, 9, YMM, "vaes"},                /* VAES */
    {0x7, 0, ECX, 10, YMM, "vpclmulqdq"},         /* VPCLMULQDQ */
    {0x7, 0, ECX, 11, ZMM, "avx512_vnni"},        /* AVX512_VNNI */
    {0x7, 0, ECX, 12, ZMM, "avx512_bitalg"},      /* AVX512_BITALG */
    {0x7, 0, ECX, 14, ZMM, "avx512_vpopcntdq"},   /* AVX512_VPOPCNTDQ */
    {0x7, 0, EDX, 8, ZMM, "avx512_vp2intersect"}, /* AVX512_VP2INTERSECT */
    {0x7, 0, EDX, 22, TILE, "amx_bf16"},          /* AMX-BF16 */
    {0x7, 0, EDX, 23, ZMM, "avx512_fp16"},        /* AVX512_FP16 */
    {0x7, 0, EDX, 24, TILE, "amx_tile"},          /* AMX-TILE */
    {0x7, 0, EDX, 25, TILE, "amx_int8"},          /* AMX-INT8 */
    {0x7, 1, EAX, 4, YMM, "avx_vnni"},            /* AVX-VNNI */
    {0x7, 1, EAX, 5, ZMM, "avx512_bf16"},         /* AVX512_BF16 */
    {0x7, 1, EAX, 21, TILE, "amx_fp16"},          /* AMX-FP16 */
    {0x7, 1, EAX, 23, YMM, "avx_ifma"},           /* AVX-IFMA */
    {0x7, 1, EDX, 4, YMM, "avx_vnni_int8"},       /* AVX-VNNI-INT8 */
    {0x7, 1, EDX, 5, YMM, "avx_ne_convert"},      /* AVX-NE-CONVERT */
    {0x7, 1, EDX, 8, TILE, "amx_complex"},        /* AMX-COMPLEX */
    {0x7, 1, EDX, 10, YMM, "avx_vnni_int16"},     /* AVX-VNNI-INT16 */
    {0x7, 1, EDX, 19, ZMM, "avx10"},              /* AVX10 */
    {0x1e, 1, EAX, 4, TILE, "amx_fp8"},           /* AMX-FP8 */
    {0x80000001, 0, ECX, 0, NONE, "lahf_lm"},     /* LAHF-SAHF */
    {0x80000001, 0, ECX, 5, NONE, "abm"},         /* LZCNT (AMD: ABM) */
};

/* Reads a leaf; false, and zeros, if the processor has none of that number. */
static bool cpuid(uint32_t leaf, uint32_t subleaf, uint32_t words[4]) {
    uint32_t range[4];
    execute_cpuid(leaf & 0x80000000, 0, range); /* EAX: the highest basic or extended leaf */
    memset(words, 0, 4 * sizeof *words);
    if (leaf > range[EAX])
        return false;
    execute_cpuid(leaf, subleaf, words);
    return true;
}

static bool has_state(uint64_t xcr0, enum state state) {
    return (xcr0 & STATE_BITS[state]) == STATE_BITS[state];
}

/* The palette is a matter of its own: some virtual machines announce AMX and hide it. */
static void read_amx(struct amx *amx, uint64_t xcr0) {
    uint32_t words[4];
    if (!cpuid(0x7, 0, words) || !(words[EDX] >> 24 & 1)) /* AMX-TILE */
        return;
    amx->announced = true;
    amx->enabled = has_state(xcr0, TILE);
    amx->permitted = amx->enabled && request_tiles();
    /* Intel SDM volume 2A, "CPUID", leaf 0x1d: subleaf 0 EAX is the highest palette; subleaf 1 describes
     * palette 1 with EBX[31:16] max_names, ECX[15:0] max_rows and EBX[15:0] bytes_per_row. */
    if (!cpuid(0x1d, 0, words) || words[EAX] < 1)
        return;
    cpuid(0x1d, 1, words);
    amx->has_palette = true;
    amx->palette = (struct palette){words[EBX] >> 16, words[ECX] & 0xffff, words[EBX] & 0xffff};
}

static void read_names(struct report *report) {
    uint32_t words[4];
    if (cpuid(0, 0, words)) { /* CPUID.0: vendor string in EBX, EDX, ECX */
        memcpy(report->vendor, &words[EBX], 4);
        memcpy(report->vendor + 4, &words[EDX], 4);
        memcpy(report->vendor + 8, &words[ECX], 4);
    }
    for (uint32_t part = 0; part < 3;
         part++) /* processor brand string, 48 bytes padded with blanks or zeros */
        if (cpuid(0x80000002 + part, 0, words))
            memcpy(report->model + 16 * part, words, sizeof words);
    for (size_t length = strlen(report->model); length && report->model[length - 1] == ' '; length--)
        report->model[length - 1] = '\0';
}

void probe(struct report *report) {
    uint32_t words[4];
    report->architecture = "x86_64";
    read_names(report);
    report->has_xcr0 = cpuid(0x1, 0, words) && words[ECX] >> 27 & 1; /* OSXSAVE */
    if (report->has_xcr0)
        report->xcr0 = read_xcr0();
    read_amx(&report->amx, report->xcr0);
    const uint64_t usable = report->amx.permitted ? report->xcr0 : report->xcr0 & ~STATE_BITS[TILE];
    for (size_t row = 0; row < sizeof FEATURES / sizeof *FEATURES; row++) {
        const struct feature *feature = &FEATURES[row];
        if (has_state(usable, feature->state) && cpuid(feature->leaf, feature->subleaf, words) &&
            words[feature->output] >> feature->bit & 1)
            add_feature(report, feature->name);
    }
    /* AVX10's version is a number (Intel 355989, "CPUID", leaf 0x24): EBX[7:0]. */
    if (has_state(usable, ZMM) && cpuid(0x7, 1, words) && words[EDX] >> 19 & 1 && cpuid(0x24, 0, words) &&
        (words[EBX] & 0xff) >= 2)
        add_feature(report, "avx10_2");
}
#endif
